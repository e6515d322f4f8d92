"""A store is copied to one of any kind, whole, however often that is cut off."""

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import psycopg
import pytest

from lakebed.env.clock import SystemClock
from lakebed.errors import ConflictError, CorruptError, ErrorKind, InvalidInputError, UnavailableError
from lakebed.kv.copying import (
    COPY_PARTITION,
    CopyableKV,
    Place,
    Record,
    copy_store,
    copyable,
    release,
    require_in_place,
)
from lakebed.kv.drivers.lmdb import LmdbKV
from lakebed.kv.drivers.lmdb_keys import row_key
from lakebed.kv.drivers.memory import MemoryKV
from lakebed.kv.drivers.postgres import open_postgres
from lakebed.kv.port import Expect, NamesFence, Row
from lakebed.limits import COPY_PAGE_BYTES, COPY_PAGE_ROWS
from lakebed.testing.postgres import PostgresServer

POSTGRES = [pytest.mark.server, pytest.mark.xdist_group("postgres")]
PAIRS = [
    pytest.param("memory", "memory", id="memory-memory"),
    pytest.param("lmdb", "memory", id="lmdb-memory"),
    pytest.param("memory", "lmdb", id="memory-lmdb"),
    pytest.param("lmdb", "lmdb", id="lmdb-lmdb"),
    pytest.param("lmdb", "postgres", id="lmdb-postgres", marks=POSTGRES),
    pytest.param("postgres", "lmdb", id="postgres-lmdb", marks=POSTGRES),
]

Open = Callable[[str, str], Any]


@pytest.fixture
async def open_one(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Open]:
    """Opens a store of a kind by name, empty unless it was opened before."""
    async with AsyncExitStack() as stack:

        async def opened(kind: str, name: str) -> CopyableKV:
            if kind == "postgres":
                server: PostgresServer = request.getfixturevalue("postgres")
                kv = copyable(await open_postgres(server.url(), clock=SystemClock()))
                with psycopg.connect(server.url(), autocommit=True) as connection:
                    connection.execute("TRUNCATE lakebed_kv")
            else:
                kv = MemoryKV() if kind == "memory" else LmdbKV(tmp_path / name)
            stack.push_async_callback(kv.close)
            return kv

        yield opened


async def fill(kv: CopyableKV) -> None:
    """Write records of every shape."""
    await kv.swap("lakebed", b"repos/lake", b"record", expected=Expect.ABSENT)
    await kv.swap("lake-u", b"branches/main", b"x", expected=Expect.ABSENT, names=(b"token-1", b"", b"two"))
    await kv.swap("lake-u", b"branches/dev", b"y", expected=Expect.ABSENT, names=(b"t",))
    await kv.set_rows("lake-main:t", [Row(b"key/%06d" % i, b"v%d" % i) for i in range(COPY_PAGE_ROWS + 10)])
    await kv.set_rows("long", [Row(b"k" * size, b"") for size in (1, 493, 494, 495, 511, 988, 989, 1088)])
    await kv.set_rows("large", [Row(b"%d" % i, bytes([i]) * (COPY_PAGE_BYTES // 2 + 1)) for i in range(3)])
    for name in ("é" * 100, "a\0b", "zürich/1", "lake-u2"):
        await kv.set_rows(name, [Row(b"\0", b"\xff"), Row(b"\xff" * 3, b"\0")])
    await kv.set_rows("dropped", [Row(b"k", b"v")])
    await kv.drop("dropped")


async def everything(kv: CopyableKV, *, after: Place | None = None) -> list[Record]:
    records = [record async for page in kv.records(after=after) for record in page]
    return [record for record in records if record.partition != COPY_PARTITION]


async def copied(source: CopyableKV, target: CopyableKV, name: str = "copy-1") -> int:
    return (await copy_store(source, target, copy=name, to="elsewhere", tell=lambda _: None)).rows


@pytest.mark.parametrize("kind", ["memory", "lmdb", pytest.param("postgres", marks=POSTGRES)])
async def test_records_come_in_order_from_any_place(open_one: Open, kind: str) -> None:
    kv = await open_one(kind, "one")
    await fill(kv)
    found = await everything(kv)
    places = [(record.partition.encode(), record.key) for record in found]
    assert places == sorted(places)
    assert len(found) == 3 + COPY_PAGE_ROWS + 10 + 8 + 3 + 8
    for at in (5, len(found) - 2):
        place = Place(found[at].partition, found[at].key)
        assert await everything(kv, after=place) == found[at + 1 :]


@pytest.mark.parametrize(("kind", "other"), PAIRS)
async def test_everything_is_copied_and_the_source_is_left(open_one: Open, kind: str, other: str) -> None:
    source, target = await open_one(kind, "one"), await open_one(other, "two")
    await fill(source)
    newest = await source.last_version()

    assert await copied(source, target) == len(await everything(source))

    assert await everything(target) == await everything(source)
    found = await target.get("lakebed", b"repos/lake")
    assert found is not None
    assert found.version > newest, "no record gets a version that it had before"
    # Fences hold by the names that were copied.
    fence = NamesFence(partition="lake-u", key=b"branches/main", names=(b"token-1", b""))
    await target.set_rows("token-1", [Row(b"a", b"1")], fence=fence)
    with pytest.raises(ConflictError):
        await target.set_rows(
            "token-1",
            [Row(b"a", b"1")],
            fence=NamesFence(partition="lake-u", key=b"branches/dev", names=(b"token-1",)),
        )
    await require_in_place(target)
    with pytest.raises(InvalidInputError, match="was copied to elsewhere"):
        await require_in_place(source)
    with pytest.raises(InvalidInputError, match="was copied to elsewhere already"):
        await copied(source, MemoryKV())
    assert await release(source)
    assert not await release(source)
    await require_in_place(source)


class _Killed(BaseException):
    """`kill -9`, as far as a store can tell."""


class _Mortal:
    """A store whose process dies before or after one of its writes."""

    def __init__(self, inner: CopyableKV, fate: "_Fate") -> None:
        self._inner = inner
        self._fate = fate

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if name not in {"swap", "load", "delete_rows", "raise_version", "drop"}:
            return found

        async def call(*args: Any, **kwargs: Any) -> Any:
            self._fate.strike()
            result = await found(*args, **kwargs)
            self._fate.strike()
            return result

        return call


class _Fate:
    def __init__(self, at: int) -> None:
        self._left = at

    def strike(self) -> None:
        self._left -= 1
        if self._left == 0:
            raise _Killed


@pytest.mark.parametrize(("kind", "other"), [PAIRS[0], PAIRS[3]])
async def test_a_copy_that_is_killed_at_any_step_goes_on(open_one: Open, kind: str, other: str) -> None:
    for at in range(1, 200):
        source, target = await open_one(kind, f"one-{at}"), await open_one(other, f"two-{at}")
        for partition in ("o", "p"):
            await source.set_rows(partition, [Row(b"%d" % i, b"v") for i in range(3)])
        await source.swap("q", b"k", b"v", expected=Expect.ABSENT, names=(b"n",))
        fate = _Fate(at)
        mortal = (copyable(_Mortal(each, fate)) for each in (source, target))  # type: ignore[arg-type]
        try:
            await copied(*mortal)
        except _Killed:
            pass
        else:
            break
        refusals = 0
        for store in (source, target):
            try:
                await require_in_place(store)
            except InvalidInputError:
                refusals += 1
        assert refusals >= 1 or at <= 1, "from the first step on, no server starts on both"
        done = await source.get(COPY_PARTITION, b"moved")
        over = done is not None and await target.get(COPY_PARTITION, b"state") is None
        if over and await everything(target):
            continue  # Killed after the last step.
        await copied(source, target, name="copy-2")
        assert await everything(target) == await everything(source)
        await require_in_place(target)
    else:
        pytest.fail("a copy has more steps than the test knows")


async def test_what_is_written_to_the_source_meanwhile_is_found_and_copied_again(open_one: Open) -> None:
    source, target = await open_one("lmdb", "one"), await open_one("memory", "two")
    await fill(source)
    told = []

    def meddle(progress: Any) -> None:
        told.append(progress)
        if progress.doing == "copied" and progress.rows == len(everything_before):
            source.environment.write(lambda step: step.txn.delete(row_key("lakebed", b"repos/lake")))

    everything_before = await everything(source)
    with pytest.raises(CorruptError, match="differs"):
        await copy_store(source, target, copy="c", to="x", tell=meddle)
    with pytest.raises(InvalidInputError, match="not finished"):
        await require_in_place(target)
    assert await copied(source, target) == len(everything_before) - 1
    assert await everything(target) == await everything(source)


@pytest.mark.parametrize("kind", ["memory", "lmdb", pytest.param("postgres", marks=POSTGRES)])
async def test_a_target_that_holds_something_is_refused(open_one: Open, kind: str) -> None:
    source, target = MemoryKV(), await open_one(kind, "two")
    await source.set_rows("p", [Row(b"k", b"v")])
    await target.set_rows("mine", [Row(b"k", b"v")])
    with pytest.raises(InvalidInputError, match="not empty: it holds 'mine'"):
        await copied(source, target)
    await require_in_place(source)
    await require_in_place(target)


async def test_a_target_of_another_copy_is_refused(open_one: Open) -> None:
    first, second, target = MemoryKV(), MemoryKV(), MemoryKV()
    await first.set_rows("p", [Row(b"%d" % i, b"v") for i in range(3)])
    fate = _Fate(6)
    with pytest.raises(_Killed):
        await copied(first, copyable(_Mortal(target, fate)))  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="another copy"):
        await copied(second, target, name="copy-2")
    with pytest.raises(InvalidInputError, match="finish that one first"):
        await copied(target, MemoryKV(), name="copy-3")
    assert await copied(first, target) == 3


async def test_of_two_targets_of_one_source_one_is_finished(open_one: Open) -> None:
    source, first, second = MemoryKV(), MemoryKV(), MemoryKV()
    await source.set_rows("p", [Row(b"%d" % i, b"v") for i in range(3)])
    with pytest.raises(_Killed):
        await copied(source, copyable(_Mortal(first, _Fate(6))))  # type: ignore[arg-type]
    assert await copied(source, second, name="copy-2") == 3
    with pytest.raises(InvalidInputError, match="copied to elsewhere"):
        await copied(source, first, name="copy-3")
    await require_in_place(second)
    with pytest.raises(InvalidInputError, match="not finished"):
        await require_in_place(first)


async def test_a_server_that_starts_just_before_the_claim_is_seen() -> None:
    class Started(MemoryKV):
        """A source that a server opens, and finds unclaimed, once `kv copy` has looked for users."""

        looked = False

        async def other_users(self) -> list[str]:
            users = ["a server"] if self.looked else []
            self.looked = True
            return users

    source, target = Started(), MemoryKV()
    await source.set_rows("p", [Row(b"k", b"v")])
    with pytest.raises(UnavailableError, match="source is in use"):
        await copied(source, target)
    assert not await everything(target)
    with pytest.raises(InvalidInputError, match="not finished"):
        await require_in_place(target)


@pytest.mark.server
@pytest.mark.xdist_group("postgres")
async def test_a_server_that_logs_in_as_another_role_is_seen(postgres: PostgresServer) -> None:
    with psycopg.connect(postgres.url(), autocommit=True) as connection:
        connection.execute("DROP ROLE IF EXISTS copier")
        connection.execute("CREATE ROLE copier LOGIN")
    async with AsyncExitStack() as stack:
        server = await open_postgres(postgres.url(), clock=SystemClock())
        stack.push_async_callback(server.close)
        await server.now()
        with psycopg.connect(postgres.url(), autocommit=True) as connection:
            connection.execute("GRANT ALL ON ALL TABLES IN SCHEMA public TO copier")
            connection.execute("GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO copier")
        as_copier = postgres.url().replace("//postgres:", "//copier:")
        source = await open_postgres(as_copier, clock=SystemClock())
        stack.push_async_callback(source.close)
        assert await copyable(source).other_users()


@pytest.mark.server
@pytest.mark.xdist_group("postgres")
async def test_a_database_that_a_server_has_open_is_refused(postgres: PostgresServer) -> None:
    async with AsyncExitStack() as stack:
        source = await open_postgres(postgres.url(), clock=SystemClock())
        stack.push_async_callback(source.close)
        server = await open_postgres(postgres.url(), clock=SystemClock())
        stack.push_async_callback(server.close)
        await server.now()
        with pytest.raises(UnavailableError, match="source is in use") as caught:
            await copied(copyable(source), MemoryKV())
        assert caught.value.kind is ErrorKind.IN_USE
