"""`JobRunner`: the work of one job: its sources read, merged, and the output stored.

Nothing it does is visible to anyone: files carry the attempt's token, and the service installs. Memory
is bounded by a few blocks for a tree, and by the size of a segment for a fold. Before each block it
looks whether the result could still be installed: a commit or a reset that came in between makes the rest
of the work useless, and needs the processor itself.
"""

from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass, replace

import pyarrow as pa

from lakebed.committed.trees import Trees
from lakebed.compaction.counts import recounted
from lakebed.compaction.fold import fold
from lakebed.compaction.guard import install_refusal, place_of
from lakebed.compaction.planner import level_of
from lakebed.errors import ConflictError, ErrorKind
from lakebed.format.blocks import empty_changes
from lakebed.format.merge import keep_alike
from lakebed.model.branch import Branch
from lakebed.model.compaction import Job, JobKind, Output, TreeOutput
from lakebed.model.diffs import ChangeCounts
from lakebed.model.ids import MetarangeId
from lakebed.model.layers import Layer
from lakebed.model.repository import Repository
from lakebed.model.segments import attempt_nonce, era_at, segment_key
from lakebed.objects.port import ObjectStore
from lakebed.versioning.parts import Parts


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """What a job made, and what it cost."""

    output: Output
    rows: int
    """Changes that came out of the merge of its sources."""
    bytes_read: int
    """Of those changes, as they lie in memory."""
    bytes_written: int
    """Of files that were not there before."""
    fresh: tuple[Layer, ...] = ()
    """Those sources that no job has merged before."""


class JobRunner:
    """Does jobs."""

    def __init__(
        self,
        parts: Parts,
        store_of: Callable[[Repository], Awaitable[ObjectStore]],
        *,
        let_go: Callable[[], None],
    ) -> None:
        """`let_go` gives back the memory of what a job has read."""
        self._parts = parts
        self._store_of = store_of
        self._let_go = let_go

    async def run(self, repo: Repository, job: Job) -> Made:
        """Return what a job makes of its sources.

        Raises:
            ConflictError: `VERSION_CHANGED`: the result could not be installed: the sources have left the branch,
                another attempt has the slot, or an operation on HEAD builds on the sources.
        """
        branch = await self._wanted(repo, job)
        start = place_of(branch, job.spec)
        assert start is not None, "the guard has found the run"
        run = branch.sealed[start : start + len(job.spec.sources)]
        try:
            made = (
                await self._make_tree(repo, job, _only(branch, run))
                if job.spec.kind is JobKind.L2
                else await self._make_segment(repo, job, branch, run)
            )
        finally:
            # The next job may come in a day.
            self._let_go()
        fresh = () if job.spec.is_probe else tuple(layer for layer in run if level_of(layer) == 0)
        return replace(made, fresh=fresh)

    async def _wanted(self, repo: Repository, job: Job) -> Branch:
        """Return the branch as it is, if the result of the job could be installed now."""
        found = await self._parts.branches.find(repo, job.spec.branch)
        record = found.value if found is not None else None
        now = await self._parts.kv.now()
        refusal = install_refusal(record, job.spec, token=job.token, now=now)
        if refusal is not None:
            raise ConflictError(ErrorKind.VERSION_CHANGED, f"job {job.id} is in vain: {refusal.value}")
        assert isinstance(record, Branch), "the guard refuses a branch that is not there"
        return record

    async def _blocks(self, repo: Repository, job: Job, reading: Branch) -> AsyncGenerator[pa.Table, None]:
        """Yield the changes of some layers as long as they are wanted."""
        async with aclosing(self._parts.staging.reader.scan(repo, reading)) as blocks:
            async for block in blocks:
                await self._wanted(repo, job)
                yield block

    async def _make_tree(self, repo: Repository, job: Job, reading: Branch) -> Made:
        trees, spec = await self._parts.trees_of(repo), job.spec
        base = (await self._parts.commits.get(repo, spec.commit_id)).tree
        below = base if spec.compacted is None else spec.compacted
        changes = _Changes(self._parts, trees, base=base, reading=reading)
        nonce = attempt_nonce(spec.incarnation, job.token)
        async with (
            aclosing(self._blocks(repo, job, reading)) as staged,
            aclosing(changes.counted(staged)) as blocks,
        ):
            applied = await trees.apply(below, blocks, nonce=nonce, exact=spec.compacted is not None)
        counts = applied.counts if spec.compacted is None else changes.counts
        known = {info.id for info in await trees.ranges(below)}
        written = sum(info.bytes for info in await trees.ranges(applied.id) if info.id not in known)
        return Made(
            output=TreeOutput(tree=applied.id if applied.id != base else None, counts=counts),
            rows=changes.rows,
            bytes_read=changes.bytes,
            bytes_written=written,
        )

    async def _make_segment(self, repo: Repository, job: Job, branch: Branch, run: tuple[Layer, ...]) -> Made:
        tables = [await self._table(repo, job, _only(branch, (layer,))) for layer in run]
        folded = await self._parts.workers.run(
            fold,
            tables,
            job.spec,
            level=max(map(level_of, run)),
            era=era_at(await self._parts.kv.now()),
            token=job.token,
        )
        if job.spec.is_probe:
            return Made(output=folded.output, rows=0, bytes_read=tables[0].nbytes, bytes_written=0)
        layer = folded.output.layer
        if layer is not None:
            await (await self._store_of(repo)).put(segment_key(layer.id), folded.data)
        return Made(
            output=folded.output,
            rows=layer.entries + layer.tombstones if layer is not None else 0,
            bytes_read=sum(table.nbytes for table in tables),
            bytes_written=len(folded.data),
        )

    async def _table(self, repo: Repository, job: Job, reading: Branch) -> pa.Table:
        async with aclosing(self._blocks(repo, job, reading)) as blocks:
            found = [block async for block in blocks]
        return pa.concat_tables(found) if found else empty_changes()


class _Changes:
    """The changes of an L2 job on their way into the tree, and how the tree differs from the commit's after them."""

    def __init__(self, parts: Parts, trees: Trees, *, base: MetarangeId, reading: Branch) -> None:
        self._parts = parts
        self._trees = trees
        self._base = base
        self._before = reading.compacted
        assert reading.compacted is None or reading.compacted_counts is not None, "installed with its counts"
        self.counts = reading.compacted_counts or ChangeCounts()
        self.rows = 0
        self.bytes = 0

    async def counted(self, blocks: AsyncIterable[pa.Table]) -> AsyncGenerator[pa.Table, None]:
        """Yield the blocks on, and keep the counts."""
        async for block in blocks:
            self.rows += block.num_rows
            self.bytes += block.nbytes
            # Over the commit's own tree, `apply` counts by itself, and keeps the rows that are alike.
            if self._before is None or not block.num_rows:
                yield block
            else:
                yield await self._recount(self._before, block)

    async def _recount(self, before: MetarangeId, block: pa.Table) -> pa.Table:
        """Keep the counts, and return the changes with the commit's rows where those are alike."""
        keys = block.column("key")
        base = await self._trees.lookup_many(self._base, keys)
        self.counts = await self._parts.workers.run(
            recounted,
            self.counts,
            base=base,
            before=await self._trees.lookup_many(before, keys),
            changes=block,
        )
        return await self._parts.workers.run(keep_alike, block, base)


def _only(branch: Branch, layers: tuple[Layer, ...]) -> Branch:
    """Return the branch as if it had nothing but these layers."""
    return replace(branch, staging_token=None, sealed=layers)
