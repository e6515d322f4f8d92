"""Segments that branches share: small batches of one repository that wait at the same time become one object.

A file costs a request, whatever is in it. So a repository has one upload on its way at a time; what arrives
meanwhile joins the next, each branch as a dataset of its own. Each then appends its dataset by a swap of its own
record: what one of them meets there is nothing to the others. If the upload fails, all who are in it are told.

Crash after the upload: some branches refer to the file and some do not. It stays while one does, and those
that do not had no answer.

The more branches an object served, the longer the next one waits for company: a lone writer waits for nothing, and
a thousand branches make a few objects a second.
"""

import asyncio
from dataclasses import dataclass, field

import pyarrow as pa

from lakebed.env.clock import Clock
from lakebed.env.ids import IdSource
from lakebed.errors import LakebedError
from lakebed.kv.port import KVStore
from lakebed.limits import (
    SEGMENT_PAUSE_SECONDS,
    SEGMENT_PAUSE_SECONDS_MAX,
    SEGMENT_SHARED_DATASETS,
    SEGMENT_SHARED_ROWS,
)
from lakebed.model.ids import Nonce, RepoUid
from lakebed.model.layers import SegmentLayer
from lakebed.model.repository import Repository
from lakebed.model.segments import SegmentName, era_at
from lakebed.staging.port import Segments


@dataclass(slots=True)
class _Batch:
    """Changes of one branch that wait for an object."""

    dataset: str
    changes: pa.Table
    done: asyncio.Future[SegmentLayer]


@dataclass(slots=True)
class _Lane:
    """The uploads of one repository."""

    waiting: list[_Batch] = field(default_factory=list)
    task: asyncio.Task[None] | None = None
    not_before: float = 0.0
    """When the next object may be begun, by the monotonic clock."""


class SharedSegments:
    """Stores change blocks of many branches in few objects."""

    def __init__(self, kv: KVStore, *, segments: Segments, clock: Clock, ids: IdSource) -> None:
        self._kv = kv
        self._segments = segments
        self._clock = clock
        self._ids = ids
        self._lanes: dict[RepoUid, _Lane] = {}

    async def write(self, repo: Repository, dataset: str, changes: pa.Table) -> SegmentLayer:
        """Store a change block, durable when it returns; return its layer, with a `seq` of 0."""
        lane = self._lane(repo)
        batch = _Batch(dataset, changes, asyncio.get_running_loop().create_future())
        lane.waiting.append(batch)
        if lane.task is None:
            lane.task = asyncio.create_task(self._run(repo, lane))
        return await batch.done

    def _lane(self, repo: Repository) -> _Lane:
        lane = self._lanes.get(repo.uid)
        if lane is None:
            if len(self._lanes) >= _LANES_MAX:
                self._lanes = {uid: each for uid, each in self._lanes.items() if each.task is not None}
            lane = self._lanes[repo.uid] = _Lane()
        return lane

    async def _run(self, repo: Repository, lane: _Lane) -> None:
        try:
            while lane.waiting:
                early = lane.not_before - self._clock.monotonic()
                if early > 0:
                    await self._clock.sleep(early)
                began = self._clock.monotonic()
                taken, is_full = _take(lane)
                if taken:
                    await self._upload(repo, taken)
                # Whoever found no place in a full object has waited already.
                lane.not_before = began + (0.0 if is_full else _pause_seconds(len(taken)))
        finally:
            lane.task = None
            for batch in lane.waiting:
                batch.done.cancel()
            lane.waiting = []

    async def _upload(self, repo: Repository, batches: list[_Batch]) -> None:
        try:
            layers = await self._store(repo, batches)
        except LakebedError as error:
            for batch in batches:
                if not batch.done.done():
                    batch.done.set_exception(error)
        except BaseException:
            for batch in batches:
                batch.done.cancel()
            raise
        else:
            for batch in batches:
                if not batch.done.done():
                    batch.done.set_result(layers[batch.dataset])

    async def _store(self, repo: Repository, batches: list[_Batch]) -> dict[str, SegmentLayer]:
        name = SegmentName(era_at(await self._kv.now()), Nonce(self._ids.token()))
        return await self._segments.write_all(repo, str(name), {b.dataset: b.changes for b in batches})


def _take(lane: _Lane) -> tuple[list[_Batch], bool]:
    """Take what the next object holds, the oldest of each branch; return also whether it had no room for others."""
    taken: dict[str, _Batch] = {}
    left: list[_Batch] = []
    rows, is_full = 0, False
    for batch in lane.waiting:
        if batch.done.done():
            continue  # Whoever waited for it is gone.
        if batch.dataset in taken:
            left.append(batch)
        elif is_full or (taken and rows + batch.changes.num_rows > SEGMENT_SHARED_ROWS):
            is_full = True
            left.append(batch)
        else:
            taken[batch.dataset] = batch
            rows += batch.changes.num_rows
            is_full = len(taken) >= SEGMENT_SHARED_DATASETS
    lane.waiting = left
    return list(taken.values()), is_full and bool(left)


def _pause_seconds(datasets: int) -> float:
    return max(0.0, min((datasets - 1) * SEGMENT_PAUSE_SECONDS, SEGMENT_PAUSE_SECONDS_MAX))


# Beyond this many repositories, those with nothing on its way are forgotten.
_LANES_MAX = 1_000
