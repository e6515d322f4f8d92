"""Group commit: many requests, few syncs, and each request's own outcome."""

import asyncio
import fcntl
import os
import threading
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from lakebed.env.clock import SystemClock
from lakebed.errors import ConflictError, ErrorKind, UnavailableError
from lakebed.kv.drivers.lmdb import LmdbKV
from lakebed.kv.drivers.lmdb_env import Step
from lakebed.kv.port import Expect, NamesFence, Row
from lakebed.limits import (
    BATCH_ROWS_MAX,
    LMDB_INLINE_BYTES_MAX,
    LMDB_INLINE_PAUSE_SECONDS,
    LMDB_INLINE_ROWS_MAX,
    LMDB_INLINE_SECONDS_MAX,
)
from lakebed.testing.kv_suite import keys_of, rows_of


@dataclass(frozen=True)
class Slow:
    """A request that keeps the writer's thread busy until the test lets it go."""

    started: threading.Event = field(default_factory=threading.Event)
    release: threading.Event = field(default_factory=threading.Event)
    rows_count: int = LMDB_INLINE_ROWS_MAX + 1
    bytes_count: int = 0

    def apply(self, step: Step) -> None:
        self.started.set()
        assert self.release.wait(60)


@dataclass(frozen=True)
class Broken(Slow):
    rows_count: int = 1

    def apply(self, step: Step) -> None:
        step.txn.put(b"trace", b"of a request that fails")
        raise RuntimeError("a bug")


async def hold(store: LmdbKV) -> tuple[Slow, "asyncio.Task[None]"]:
    """Keep the writer in a transaction, so that everything submitted now shares the next one."""
    slow = Slow()
    holding = asyncio.create_task(store.writer.submit(slow))
    await handed_over()
    assert slow.started.wait(60)
    return slow, holding


async def handed_over() -> None:
    """Return when small writes have found the writer busy and wait for its thread."""
    for _ in range(10):
        await asyncio.sleep(0)


class SlowClock(SystemClock):
    """Every look at it finds that much time gone by."""

    def __init__(self) -> None:
        self.now_seconds = 0.0
        self.step = 0.0

    def monotonic(self) -> float:
        self.now_seconds += self.step
        return self.now_seconds


@dataclass(frozen=True)
class Where:
    """Tells which thread writes."""

    rows_count: int = 1
    bytes_count: int = 0

    def apply(self, step: Step) -> bool:
        return threading.current_thread() is threading.main_thread()


async def test_small_writes_that_come_together_are_one_commit(lmdb_store: LmdbKV) -> None:
    before = lmdb_store.writer.commits_count

    await asyncio.gather(*(lmdb_store.set_rows("p", [Row(b"%d" % n, b"v")]) for n in range(40)))

    assert lmdb_store.writer.commits_count - before == 1
    assert len(await keys_of(lmdb_store, "p")) == 40


async def test_a_small_write_that_comes_a_turn_later_still_joins(lmdb_store: LmdbKV) -> None:
    async def later() -> None:
        await asyncio.sleep(0)
        await lmdb_store.set_rows("p", [Row(b"later", b"v")])

    before = lmdb_store.writer.commits_count

    await asyncio.gather(lmdb_store.set_rows("p", [Row(b"first", b"v")]), later())

    assert lmdb_store.writer.commits_count - before == 1


async def test_only_small_writes_are_made_on_the_event_loop(lmdb_store: LmdbKV) -> None:
    assert await lmdb_store.writer.submit(Where())
    assert not await lmdb_store.writer.submit(Where(rows_count=LMDB_INLINE_ROWS_MAX + 1))
    assert not await lmdb_store.writer.submit(Where(bytes_count=LMDB_INLINE_BYTES_MAX + 1))


async def test_the_event_loop_does_not_wait_for_another_process(lmdb_store: LmdbKV) -> None:
    other = os.open(lmdb_store.environment.folder / "writer.lock", os.O_RDWR)
    fcntl.flock(other, fcntl.LOCK_EX)
    waiting = asyncio.create_task(lmdb_store.writer.submit(Where()))
    await handed_over()
    assert not waiting.done()

    os.close(other)

    assert not await waiting


async def test_after_a_slow_disk_writes_go_to_the_thread_for_a_moment(tmp_path: Path) -> None:
    clock = SlowClock()
    store = LmdbKV(tmp_path / "kv", clock=clock)
    try:
        clock.step = LMDB_INLINE_SECONDS_MAX * 2
        on_the_loop = [await store.writer.submit(Where()) for _ in range(10)]
        assert on_the_loop[0]
        assert not on_the_loop[-1]
        clock.step = 0.0
        clock.now_seconds += LMDB_INLINE_PAUSE_SECONDS
        assert await store.writer.submit(Where())
    finally:
        await store.close()


async def test_what_arrives_during_a_commit_shares_the_next_one(lmdb_store: LmdbKV) -> None:
    slow, holding = await hold(lmdb_store)
    before = lmdb_store.writer.commits_count
    writes = [asyncio.create_task(lmdb_store.set_rows("p", [Row(b"%d" % n, b"v")])) for n in range(50)]
    await handed_over()

    slow.release.set()
    await asyncio.gather(holding, *writes)

    assert lmdb_store.writer.commits_count - before == 2
    assert len(await keys_of(lmdb_store, "p")) == 50


async def test_a_conflict_fails_no_neighbour_and_sees_those_before_it(lmdb_store: LmdbKV) -> None:
    slow, holding = await hold(lmdb_store)
    fence = NamesFence(partition="r", key=b"ref", names=(b"t",))
    writes = [
        asyncio.create_task(call)
        for call in (
            lmdb_store.set_rows("p", [Row(b"too-early", b"")], fence=fence),
            lmdb_store.swap("r", b"ref", b"1", expected=Expect.ABSENT, names=(b"t",)),
            lmdb_store.swap("r", b"ref", b"2", expected=Expect.ABSENT),
            lmdb_store.set_rows("p", [Row(b"in-time", b"")], fence=fence),
            lmdb_store.set_rows("p", [Row(b"other", b""), Row(b"in-time", b"", Expect.ABSENT)]),
        )
    ]
    await handed_over()

    slow.release.set()
    await holding
    outcomes = await asyncio.gather(*writes, return_exceptions=True)

    kinds = [outcome.kind if isinstance(outcome, ConflictError) else None for outcome in outcomes]
    assert kinds == [ErrorKind.FENCE_LOST, None, ErrorKind.VERSION_CHANGED, None, ErrorKind.ROW_CHANGED]
    assert await keys_of(lmdb_store, "p") == [b"in-time"]
    assert await rows_of(lmdb_store, "r") == [(b"ref", b"1")]


async def test_a_request_that_breaks_leaves_nothing_of_its_batch_and_the_writer_alive(
    lmdb_store: LmdbKV,
) -> None:
    slow, holding = await hold(lmdb_store)
    neighbour = asyncio.create_task(lmdb_store.set_rows("p", [Row(b"k", b"v")]))
    broken = asyncio.create_task(lmdb_store.writer.submit(Broken()))
    await handed_over()

    slow.release.set()
    outcomes = await asyncio.gather(holding, neighbour, broken, return_exceptions=True)

    assert [isinstance(outcome, RuntimeError) for outcome in outcomes] == [False, True, True]
    with lmdb_store.environment.reading() as txn:
        assert txn.stat()["entries"] == 0
    await lmdb_store.set_rows("p", [Row(b"k", b"v")])
    assert await keys_of(lmdb_store, "p") == [b"k"]


async def test_a_caller_that_gives_up_in_the_queue_writes_nothing_and_disturbs_nobody(
    lmdb_store: LmdbKV,
) -> None:
    slow, holding = await hold(lmdb_store)
    kept = asyncio.create_task(lmdb_store.set_rows("p", [Row(b"kept", b"v")]))
    given_up = asyncio.create_task(lmdb_store.set_rows("p", [Row(b"given-up", b"v")]))
    await handed_over()
    given_up.cancel()
    await handed_over()

    slow.release.set()
    await asyncio.gather(holding, kept)

    assert given_up.cancelled()
    assert await keys_of(lmdb_store, "p") == [b"kept"]


async def test_a_caller_that_gives_up_during_the_commit_disturbs_nobody(lmdb_store: LmdbKV) -> None:
    slow, holding = await hold(lmdb_store)
    holding.cancel()
    after = asyncio.create_task(lmdb_store.set_rows("p", [Row(b"k", b"v")]))
    await handed_over()

    slow.release.set()
    await after

    assert await keys_of(lmdb_store, "p") == [b"k"]


async def test_a_batch_is_bounded(lmdb_store: LmdbKV) -> None:
    slow, holding = await hold(lmdb_store)
    before = lmdb_store.writer.commits_count
    size = BATCH_ROWS_MAX // 2
    writes = [
        asyncio.create_task(lmdb_store.set_rows("p", [Row(b"%d-%d" % (n, row), b"") for row in range(size)]))
        for n in range(4)
    ]
    await handed_over()

    slow.release.set()
    await asyncio.gather(holding, *writes)

    assert lmdb_store.writer.commits_count - before == 1 + 2


async def test_nothing_is_accepted_once_the_store_is_closed(lmdb_store: LmdbKV) -> None:
    await lmdb_store.close()

    for call in (lmdb_store.get("p", b"k"), lmdb_store.set_rows("p", [Row(b"k", b"v")])):
        with pytest.raises(UnavailableError):
            await call
