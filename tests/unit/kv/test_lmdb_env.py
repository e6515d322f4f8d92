"""An environment that is durable, grows by itself, and says clearly what is wrong."""

import errno
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from subprocess import Popen

import lmdb
import pytest

from lakebed.env.clock import Instant
from lakebed.errors import CorruptError, ErrorKind, LakebedError, UnavailableError
from lakebed.kv.drivers.lmdb import LmdbKV
from lakebed.kv.drivers.lmdb_env import FORMAT_VERSION, Environment
from lakebed.kv.port import Expect, Row
from lakebed.limits import LMDB_STALE_READERS_SECONDS, MIB
from lakebed.testing.kv_suite import keys_of

Spawn = Callable[..., "Popen[str]"]


@dataclass
class HandClock:
    """A clock that a test moves."""

    seconds: float = 0.0

    def now(self) -> Instant:
        return Instant(round(self.seconds * 1_000_000))

    def monotonic(self) -> float:
        return self.seconds

    async def sleep(self, seconds: float) -> None:
        self.seconds += seconds


async def test_every_commit_is_synced(lmdb_store: LmdbKV) -> None:
    flags = lmdb_store.environment.flags()

    assert flags["sync"] is True, "MDB_NOSYNC"
    assert flags["metasync"] is True, "MDB_NOMETASYNC"
    assert flags["writemap"] is False, "MDB_WRITEMAP"
    assert flags["map_async"] is False, "MDB_MAPASYNC"
    assert flags["lock"] is True, "MDB_NOLOCK"


async def test_what_was_written_is_there_after_reopening(tmp_path: Path) -> None:
    store = LmdbKV(tmp_path / "deep" / "kv")
    first = await store.swap("p", b"k", b"v", expected=Expect.ABSENT)
    await store.close()

    store = LmdbKV(tmp_path / "deep" / "kv")
    found = await store.get("p", b"k")
    second = await store.swap("p", b"other", b"v", expected=Expect.ABSENT)
    await store.close()

    assert found is not None
    assert (found.value, found.version) == (b"v", first)
    assert second > first, "versions go on where they were"


async def test_a_version_is_not_used_again_after_its_record_is_gone_and_the_store_reopened(
    tmp_path: Path,
) -> None:
    versions = []
    for _ in range(3):
        store = LmdbKV(tmp_path)
        versions.append(await store.swap("p", b"k", b"v", expected=Expect.ABSENT))
        await store.drop("p")
        await store.close()

    assert versions == sorted(set(versions))


async def test_the_map_grows_while_it_is_written_and_read(tmp_path: Path) -> None:
    store = LmdbKV(tmp_path, map_bytes=64 * 1024)
    before = store.environment.map_bytes()
    large = b"x" * MIB

    for n in range(4):
        await store.set_rows("p", [Row(b"%d" % n, large)])
        assert len(await keys_of(store, "p")) == n + 1

    assert store.environment.map_bytes() > 4 * MIB > before
    await store.close()


async def test_a_folder_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    await LmdbKV(tmp_path).close()
    with lmdb.open(str(tmp_path), max_dbs=2) as env, env.begin(write=True) as txn:
        txn.put(b"lakebed-kv-format", (FORMAT_VERSION + 1).to_bytes(8))

    with pytest.raises(CorruptError) as caught:
        LmdbKV(tmp_path)

    assert caught.value.kind is ErrorKind.NEWER_VERSION
    assert str(tmp_path) in str(caught.value)
    assert "upgrade" in str(caught.value)


async def test_somebody_elses_environment_is_refused_and_left_alone(tmp_path: Path) -> None:
    with lmdb.open(str(tmp_path)) as env, env.begin(write=True) as txn:
        txn.put(b"their", b"data")

    with pytest.raises(CorruptError):
        LmdbKV(tmp_path)

    with lmdb.open(str(tmp_path)) as env, env.begin() as txn:
        assert txn.stat()["entries"] == 1


async def test_a_file_that_is_no_environment_is_refused(tmp_path: Path) -> None:
    (tmp_path / "data.mdb").write_bytes(b"not LMDB" * 4096)

    with pytest.raises(CorruptError) as caught:
        LmdbKV(tmp_path)

    assert caught.value.kind is ErrorKind.UNREADABLE


async def test_a_folder_that_cannot_be_made_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")

    with pytest.raises(UnavailableError) as caught:
        LmdbKV(tmp_path / "file" / "kv")

    assert str(tmp_path) in str(caught.value)


async def test_a_damaged_page_is_corrupt_and_the_store_stays_usable(lmdb_store: LmdbKV) -> None:
    def read() -> None:
        with lmdb_store.environment.reading():
            error = lmdb.CorruptedError("mdb_get: damaged")
            error.code = -30796
            raise error

    with pytest.raises(CorruptError) as caught:
        read()

    assert caught.value.kind is ErrorKind.UNREADABLE
    assert await lmdb_store.get("p", b"k") is None


async def test_one_process_opens_a_folder_once(lmdb_store: LmdbKV, tmp_path: Path) -> None:
    with pytest.raises(UnavailableError):
        LmdbKV(tmp_path / "kv")

    await lmdb_store.set_rows("p", [Row(b"k", b"v")])


async def test_the_names_of_partitions_can_be_listed(lmdb_store: LmdbKV) -> None:
    await lmdb_store.set_rows("a", [Row(b"k", b"v")])
    await lmdb_store.swap("b" * 300, b"k", b"v", expected=Expect.ANY)
    assert lmdb_store.environment.partitions() == ["a", "b" * 300]

    await lmdb_store.drop("a")

    assert lmdb_store.environment.partitions() == ["b" * 300]


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_names_the_folder_and_the_next_step(tmp_path: Path, code: int) -> None:
    environment = Environment(tmp_path, clock=HandClock(), map_bytes=MIB)

    def fail(_step: object) -> None:
        error = lmdb.DiskError("mdb_txn_commit: no space")
        error.code = code
        raise error

    with pytest.raises(LakebedError) as caught:
        environment.write(fail)

    assert isinstance(caught.value, UnavailableError)
    assert caught.value.kind is ErrorKind.DISK_FULL
    assert str(tmp_path) in str(caught.value)
    assert "free some space" in str(caught.value)
    environment.close()


async def test_a_full_disk_loses_nothing_and_passes(tmp_path: Path, spawn: Spawn) -> None:
    child = spawn("fill_the_disk", tmp_path)
    output, _ = child.communicate(timeout=60)

    kind, batches, *message = output.split()
    assert (child.returncode, kind) == (0, ErrorKind.DISK_FULL)
    assert str(tmp_path) in " ".join(message)
    store = LmdbKV(tmp_path)
    written = [b"%04d-%d" % (batch, row) for batch in range(int(batches)) for row in range(20)]
    assert await keys_of(store, "p") == sorted([*written, b"before", b"after"]), (
        "the failed batch left nothing"
    )
    await store.close()


async def test_a_store_is_not_shared_over_fork(tmp_path: Path, spawn: Spawn) -> None:
    child = spawn("use_after_fork", tmp_path)
    output, _ = child.communicate(timeout=60)

    lines = output.splitlines()
    assert len(lines) == 2
    assert all(line.startswith(ErrorKind.UNSUPPORTED) and "open it again" in line for line in lines)
    assert child.returncode == 0
    store = LmdbKV(tmp_path)
    assert await keys_of(store, "p") == [b"k", b"parent"]
    await store.close()


async def test_the_places_of_dead_readers_are_freed(tmp_path: Path, spawn: Spawn) -> None:
    clock = HandClock()
    store = LmdbKV(tmp_path, clock=clock)
    child = spawn("read_and_hang", tmp_path)
    assert child.stdout is not None
    assert child.stdout.readline() == "reading\n"
    child.kill()
    child.wait()

    await store.set_rows("p", [Row(b"k", b"v")])
    assert str(child.pid) in store.environment.readers()
    clock.seconds += LMDB_STALE_READERS_SECONDS
    await store.set_rows("p", [Row(b"k", b"v")])

    assert str(child.pid) not in store.environment.readers()
    await store.close()
