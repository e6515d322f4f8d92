"""The bytes of a journal, and when it may go."""

import os
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.env.clock import SystemClock
from lakebed.env.ids import SeededIds
from lakebed.errors import CorruptError, ErrorKind
from lakebed.objects.drivers.local import LocalObjects
from lakebed.objects.local import opening
from lakebed.objects.local.changes import SmallPut
from lakebed.objects.local.disk import RealDisk, Sync
from lakebed.objects.local.faults import UnsureError
from lakebed.objects.local.folders import open_root
from lakebed.objects.local.frames import (
    FILE_HEADER_BYTES,
    Frame,
    Header,
    Kind,
    decode_frames,
    decode_header,
    encode_frame,
    encode_header,
)
from lakebed.objects.local.journal import Journal
from lakebed.objects.local.locks import APPEND, Locks
from lakebed.objects.local.opening import OpenRoot, open_local_root
from lakebed.objects.port import PutMode
from lakebed.testing.fake_disk import ForgetfulDisk

HEADER = Header(b"01234567", "11111111-2222-3333-4444-555555555555")
GOLDEN_HEADER = b"LKBJ\x0101234567" + b"11111111-2222-3333-4444-555555555555"
GOLDEN_PUT = bytes.fromhex(
    "3031323334353637"  # nonce
    "8c770702"  # checksum
    "01"  # PUT
    "112210f47de98115"  # time
    "0003"
    "00000005"
    "6b2f78"  # key
    "68656c6c6f"  # data
    "ff"
)


def test_version_1_bytes_never_change() -> None:
    frame = Frame(Kind.PUT, "k/x", 1_234_567_890_123_456_789, b"hello")

    assert encode_header(HEADER) == GOLDEN_HEADER
    assert decode_header(GOLDEN_HEADER) == HEADER
    assert len(GOLDEN_HEADER) == FILE_HEADER_BYTES
    assert encode_frame(frame, HEADER.nonce) == GOLDEN_PUT
    assert list(decode_frames(GOLDEN_HEADER + GOLDEN_PUT, HEADER.nonce)) == [frame]


frames = st.builds(
    Frame,
    st.sampled_from(Kind),
    st.text(min_size=1, max_size=20),
    st.integers(0, 2**64 - 1),
    st.binary(max_size=50) | st.just(HEADER.nonce * 3),
)


@given(st.lists(frames, max_size=5))
def test_frames_come_back_in_order(stored: list[Frame]) -> None:
    data = GOLDEN_HEADER + b"".join(encode_frame(frame, HEADER.nonce) for frame in stored)

    assert list(decode_frames(data, HEADER.nonce)) == stored


@given(st.lists(frames, min_size=1, max_size=4), st.data())
def test_a_torn_end_loses_only_what_is_torn(stored: list[Frame], data: st.DataObject) -> None:
    encoded = [encode_frame(frame, HEADER.nonce) for frame in stored]
    cut = data.draw(st.integers(1, len(encoded[-1]) - 1))
    torn = GOLDEN_HEADER + b"".join(encoded)[:-cut]

    assert list(decode_frames(torn, HEADER.nonce)) == stored[:-1]


@given(st.lists(frames, min_size=1, max_size=3), st.lists(frames, min_size=1, max_size=3), st.data())
def test_frames_written_past_a_torn_one_are_found(
    before: list[Frame], after: list[Frame], data: st.DataObject
) -> None:
    first = b"".join(encode_frame(frame, HEADER.nonce) for frame in before)
    last = encode_frame(before[-1], HEADER.nonce)
    cut = data.draw(st.integers(1, len(last)))
    rest = b"".join(encode_frame(frame, HEADER.nonce) for frame in after)

    found = list(decode_frames(GOLDEN_HEADER + first[: len(first) - cut] + rest, HEADER.nonce))

    assert found == before[:-1] + after


@pytest.mark.parametrize("index", range(36))
def test_any_flipped_byte_of_a_frame_loses_that_frame(index: int) -> None:
    damaged = bytearray(GOLDEN_HEADER + GOLDEN_PUT)
    damaged[FILE_HEADER_BYTES + index] ^= 0xFF

    assert list(decode_frames(bytes(damaged), HEADER.nonce)) == []


def test_a_newer_journal_is_refused_with_the_next_step() -> None:
    newer = GOLDEN_HEADER[:4] + b"\x02" + GOLDEN_HEADER[5:]

    with pytest.raises(CorruptError, match="newer one") as raised:
        decode_header(newer)

    assert raised.value.kind is ErrorKind.NEWER_VERSION


@pytest.mark.parametrize("data", [b"", b"LKB", GOLDEN_HEADER[:-1], b"\0" * FILE_HEADER_BYTES])
def test_a_journal_that_was_never_finished_is_none(data: bytes) -> None:
    assert decode_header(data) is None


class WatchedDisk(RealDisk):
    """Says when everything is synced and what is removed; does not wait for the real disk."""

    def __init__(self) -> None:
        super().__init__()
        self.events: list[str] = []
        self.sync_fails = False

    def sync(self, descriptor: int, what: Sync) -> None:
        if self.sync_fails and what is Sync.JOURNAL_DATA:
            raise OSError(5, "Input/output error")

    def sync_all(self, descriptor: int, what: Sync) -> None:
        self.events.append("synced")

    def unlink(self, folder: int, name: str) -> None:
        self.events.append(f"removed {int(name, 16)}")
        super().unlink(folder, name)


@pytest.fixture
def disk() -> WatchedDisk:
    return WatchedDisk()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "journal").mkdir()
    return tmp_path


def journal_in(folder: Path, disk: RealDisk, seed: int = 1) -> Journal:
    """A process's view of the journal of `folder`."""
    return Journal(
        open_root(str(folder / "journal")),
        disk=disk,
        locks=Locks(os.open(folder, os.O_RDONLY)),
        ids=SeededIds(seed),
        bytes_max=100,
    )


@pytest.fixture
def journal(folder: Path, disk: WatchedDisk) -> Journal:
    journal = journal_in(folder, disk)
    journal.start(1)
    return journal


def test_a_journal_goes_after_everything_is_synced(journal: Journal, disk: WatchedDisk) -> None:
    with journal.record([Frame(Kind.PUT, "k", 1, b"x" * 100)]):
        pass
    assert journal.is_full()

    journal.rotate()

    assert disk.events == ["synced", "removed 1"]
    assert journal.generations() == [2]
    assert not journal.is_full()


def test_a_journal_without_frames_stays(journal: Journal, disk: WatchedDisk) -> None:
    journal.rotate()

    assert (disk.events, journal.generations()) == ([], [1])


def test_a_journal_waits_for_those_who_have_not_changed_the_files_yet(
    journal: Journal, folder: Path, disk: WatchedDisk
) -> None:
    other = journal_in(folder, disk, seed=2)
    rotating = threading.Thread(target=other.rotate)
    with journal.record([Frame(Kind.GONE, "k")]):
        rotating.start()
        while 2 not in other.generations():
            rotating.join(0.001)
        rotating.join(0.05)
        disk.events.append("changed")
    rotating.join()

    assert disk.events == ["changed", "synced", "removed 1"]


def test_processes_append_to_the_same_file_and_follow_each_others_rotation(
    journal: Journal, folder: Path, disk: WatchedDisk
) -> None:
    other = journal_in(folder, disk, seed=2)
    for number in range(3):
        for writer in (journal, other):
            with writer.record([Frame(Kind.GONE, f"{number}")]):
                pass
        [journal, other][number % 2].rotate()
    with journal.record([Frame(Kind.GONE, "last")]), other.record([Frame(Kind.GONE, "very last")]):
        pass

    [current] = other.generations()
    content = other.read(current)
    assert content is not None
    assert [frame.key for frame in content[1]] == ["last", "very last"]


def test_a_generation_that_was_begun_by_a_killed_process_is_passed_over(
    journal: Journal, folder: Path, disk: WatchedDisk
) -> None:
    (folder / "journal" / f"{2:016x}").write_bytes(b"LKB")

    with journal.record([Frame(Kind.GONE, "k")]):
        pass

    assert journal.generations() == [1, 2, 3]
    journal.rotate()
    assert journal.generations() == [4]


def test_after_a_failed_sync_the_outcome_is_unknown_and_the_file_is_not_trusted_again(
    journal: Journal, disk: WatchedDisk
) -> None:
    with journal.record([Frame(Kind.GONE, "before")]):
        pass
    disk.sync_fails = True
    with pytest.raises(UnsureError), journal.record([Frame(Kind.GONE, "unsure")]):
        raise AssertionError("nothing may be changed")

    disk.sync_fails = False
    with journal.record([Frame(Kind.GONE, "after")]):
        pass

    assert journal.generations() == [1, 2]
    content = journal.read(2)
    assert content is not None
    assert [frame.key for frame in content[1]] == ["after"]


async def test_a_folder_of_a_newer_version_is_refused_and_untouched(tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / ".lakebed").mkdir(parents=True)
    (root / ".lakebed" / "version").write_text("2\n")
    store = LocalObjects(root)

    for call in (store.get("k"), store.put("k", b"1")):
        with pytest.raises(CorruptError, match="version that wrote it") as raised:
            await call
        assert raised.value.kind is ErrorKind.NEWER_VERSION
    await store.close()

    assert [path.name for path in (root / ".lakebed").iterdir()] == ["version"]


async def test_what_a_killed_process_recorded_but_did_not_do_does_not_come_back(tmp_path: Path) -> None:
    root = tmp_path / "root"
    killed = LocalObjects(root)
    await killed.put("k", b"1")
    opened = killed._opened
    assert opened is not None
    with opened.root.journal.record([Frame(Kind.PUT, "never", 1, b"acknowledged")]):
        pass

    again = LocalObjects(root)
    await again.put("l", b"2")

    [current] = list((root / ".lakebed" / "journal").iterdir())
    assert b"acknowledged" not in current.read_bytes()
    assert await again.head("never") is None
    await again.close()
    await killed.close()


def opened(root: Path, disk: RealDisk, seed: int) -> OpenRoot:
    """A process's view of the store in `root`."""
    return open_local_root(
        str(root), disk=disk, clock=SystemClock(), ids=SeededIds(seed), fsync=True, journal_bytes_max=2**20
    )


class PausingDisk(ForgetfulDisk):
    """A disk on which two processes meet at two points: between the birth of a journal file and its header, and before
    a journal file is removed.
    """

    def __init__(self, base: Path) -> None:
        super().__init__(base)
        self.born = threading.Event()
        self.looked = threading.Event()
        self.recorded = threading.Event()
        self.armed = False

    def write(self, file: int, data: bytes | memoryview) -> None:
        if self.armed and bytes(data[:4]) == b"LKBJ":
            self.armed = False
            self.born.set()
            assert self.looked.wait(20), "the other process neither read the file nor asked for APPEND"
        super().write(file, data)

    def sync_all(self, descriptor: int, what: Sync) -> None:
        super().sync_all(descriptor, what)
        if threading.current_thread().name == "opens":
            self.looked.set()
            assert self.recorded.wait(20), "the first process recorded nothing"


async def test_opening_during_a_rotation_leaves_the_newborn_journal_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "disk").mkdir()
    disk = PausingDisk(tmp_path / "disk")
    root = tmp_path / "disk" / "root"
    first = opened(root, disk, seed=1)
    first.changes.put_small([SmallPut("before", b"1", PutMode.CREATE)])

    class AskingLocks(Locks):
        def hold(self, offsets, *, shared=False):  # type: ignore[no-untyped-def]
            offsets = list(offsets)
            if APPEND in offsets:
                disk.looked.set()
            return super().hold(offsets, shared=shared)

    def rotate_and_put() -> None:
        first.journal.rotate()
        first.changes.put_small([SmallPut("acknowledged", b"2", PutMode.CREATE)])
        disk.recorded.set()

    disk.armed = True
    rotating = threading.Thread(target=rotate_and_put)
    rotating.start()
    assert disk.born.wait(20)
    monkeypatch.setattr(opening, "Locks", AskingLocks)
    seconds: list[OpenRoot] = []
    opens = threading.Thread(target=lambda: seconds.append(opened(root, disk, seed=2)), name="opens")
    opens.start()
    rotating.join(20)
    opens.join(20)
    left = disk.cut(tmp_path / "after")

    assert len(seconds) == 1, "the second process opened the store"
    store = LocalObjects(tmp_path / "after" / "root", disk=left)
    assert await store.get("acknowledged") == b"2"
    await store.close()


def test_a_journal_without_any_file_begins_one(journal: Journal, folder: Path) -> None:
    (folder / "journal" / f"{1:016x}").unlink()

    with journal.record([Frame(Kind.GONE, "k")]):
        pass
    journal.rotate()

    assert journal.generations() == [3]
