"""Group commit: many requests, few syncs, and each request's own outcome."""

import asyncio
import threading
from dataclasses import dataclass, field

import pytest

from lakebed.errors import ConflictError, ErrorKind, UnavailableError
from lakebed.kv.drivers.lmdb import LmdbKV
from lakebed.kv.drivers.lmdb_env import Step
from lakebed.kv.port import Expect, NamesFence, Row
from lakebed.limits import BATCH_ROWS_MAX
from lakebed.testing.kv_suite import keys_of, rows_of


@dataclass(frozen=True)
class Slow:
    """A request that keeps the writer busy until the test lets it go."""

    started: threading.Event = field(default_factory=threading.Event)
    release: threading.Event = field(default_factory=threading.Event)
    rows_count: int = 1
    bytes_count: int = 0

    def apply(self, step: Step) -> None:
        self.started.set()
        assert self.release.wait(60)


class Broken(Slow):
    def apply(self, step: Step) -> None:
        step.txn.put(b"trace", b"of a request that fails")
        raise RuntimeError("a bug")


async def hold(store: LmdbKV) -> tuple[Slow, "asyncio.Task[None]"]:
    """Keep the writer in a transaction, so that everything submitted now shares the next one."""
    slow = Slow()
    holding = asyncio.create_task(store.writer.submit(slow))
    await asyncio.sleep(0)
    assert slow.started.wait(60)
    return slow, holding


async def test_what_arrives_during_a_commit_shares_the_next_one(lmdb_store: LmdbKV) -> None:
    slow, holding = await hold(lmdb_store)
    before = lmdb_store.writer.commits_count
    writes = [asyncio.create_task(lmdb_store.set_rows("p", [Row(b"%d" % n, b"v")])) for n in range(50)]
    await asyncio.sleep(0)

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
    await asyncio.sleep(0)

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
    await asyncio.sleep(0)

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
    await asyncio.sleep(0)
    given_up.cancel()
    await asyncio.sleep(0)

    slow.release.set()
    await asyncio.gather(holding, kept)

    assert given_up.cancelled()
    assert await keys_of(lmdb_store, "p") == [b"kept"]


async def test_a_caller_that_gives_up_during_the_commit_disturbs_nobody(lmdb_store: LmdbKV) -> None:
    slow, holding = await hold(lmdb_store)
    holding.cancel()
    after = asyncio.create_task(lmdb_store.set_rows("p", [Row(b"k", b"v")]))
    await asyncio.sleep(0)

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
    await asyncio.sleep(0)

    slow.release.set()
    await asyncio.gather(holding, *writes)

    assert lmdb_store.writer.commits_count - before == 1 + 2


async def test_nothing_is_accepted_once_the_store_is_closed(lmdb_store: LmdbKV) -> None:
    await lmdb_store.close()

    for call in (lmdb_store.get("p", b"k"), lmdb_store.set_rows("p", [Row(b"k", b"v")])):
        with pytest.raises(UnavailableError):
            await call
