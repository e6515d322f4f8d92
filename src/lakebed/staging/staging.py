"""The staging area of every branch, as the layers above see it."""

from collections.abc import Sequence

import pyarrow as pa

from lakebed.env.clock import Clock
from lakebed.env.ids import IdSource
from lakebed.env.work import Workers
from lakebed.kv.port import KVStore
from lakebed.model.branch import Branch
from lakebed.model.entries import Change
from lakebed.model.ids import BranchName, RepoUid
from lakebed.model.layers import SegmentLayer
from lakebed.model.repository import Repository
from lakebed.staging.appending import Appender, HandedIn, Once, SegmentUse
from lakebed.staging.conditions import Condition
from lakebed.staging.filler import Filler
from lakebed.staging.port import Base, Branches, Segments
from lakebed.staging.reader import LayerReader
from lakebed.staging.writer import BranchWriter


class Staging:
    """Writes and reads uncommitted changes. It keeps one writer for each branch in use."""

    def __init__(
        self,
        kv: KVStore,
        *,
        branches: Branches,
        base: Base,
        segments: Segments,
        workers: Workers,
        clock: Clock,
        ids: IdSource,
        wait_seconds: float = 0.0,
        use_segments: SegmentUse = SegmentUse.AUTO,
    ) -> None:
        self._kv = kv
        self._branches = branches
        self._base = base
        self._clock = clock
        self._ids = ids
        self._wait_seconds = wait_seconds
        self._reader = LayerReader(kv, branches, segments, workers)
        self._filler = Filler(kv, branches, ids)
        self._appender = Appender(
            kv, branches=branches, segments=segments, clock=clock, ids=ids, use=use_segments
        )
        self._writers: dict[tuple[RepoUid, BranchName], BranchWriter] = {}

    async def write(
        self,
        repo: Repository,
        branch: BranchName,
        changes: Sequence[Change],
        *,
        condition: Condition | None = None,
    ) -> None:
        """Stage `changes` on `branch`, all or none. See `BranchWriter.write`."""
        if changes:
            await self._writer(repo, branch).write(changes, condition=condition)

    async def fill(self, repo: Repository, sealed: Branch, changes: Sequence[Change]) -> None:
        """Stage `changes` on top of the layers of `sealed` where nobody has written since. See `Filler.fill`."""
        if changes:
            await self._filler.fill(repo, sealed, changes)

    async def find_handed_in(self, repo: Repository, branch: BranchName, call: str) -> HandedIn:
        """Return what the branch record knows of a call. See `Appender.find_handed_in`."""
        return await self._appender.find_handed_in(repo, branch, call)

    async def hand_in(
        self,
        repo: Repository,
        branch: BranchName,
        changes: pa.Table,
        *,
        call: str,
        once: Once | None = None,
    ) -> SegmentLayer:
        """Stage a change block from outside as one segment. See `Appender.hand_in`."""
        return await self._appender.hand_in(repo, branch, changes, call=call, once=once)

    @property
    def reader(self) -> LayerReader:
        """Reads the layers of a branch record."""
        return self._reader

    async def drain(self) -> None:
        """Return when every write that was waiting has been answered."""
        for writer in list(self._writers.values()):
            await writer.drain()

    def _writer(self, repo: Repository, branch: BranchName) -> BranchWriter:
        key = (repo.uid, branch)
        writer = self._writers.get(key)
        if writer is None:
            if len(self._writers) >= _WRITERS_MAX:
                self._writers = {k: w for k, w in self._writers.items() if not w.idle}
            writer = self._writers[key] = BranchWriter(
                repo,
                branch,
                kv=self._kv,
                branches=self._branches,
                reader=self._reader,
                base=self._base,
                appender=self._appender,
                clock=self._clock,
                ids=self._ids,
                wait_seconds=self._wait_seconds,
            )
        return writer


# A writer remembers its branch record; beyond this many branches, those that are idle are forgotten.
_WRITERS_MAX = 1_000
