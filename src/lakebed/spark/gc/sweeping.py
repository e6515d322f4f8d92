"""A sweep of a published mark, and the way back from one with a quarantine.

    1. lease     2. the mark is still in the run record     3. announce: the server dumps refs, and checks who owns
    the namespace (`gc/service`)     4. chunks: look at the lease, delete, record (`sweep`)

A crash leaves chunks that are recorded and others that the next sweep deletes. Safe at any later time: what nothing
referred to in two marks a grace apart is never referred to again, except after the restore of a dump, or of what was
put aside: both withdraw all marks.
"""

from collections.abc import Sequence
from typing import TypeVar

import msgspec

from lakebed.errors import ErrorKind, NotFoundError
from lakebed.format.gc import (
    Amount,
    DataFile,
    Summary,
    decode_summary,
    deleted_key,
    encode_summary,
    summary_key,
)
from lakebed.spark.gc import decide
from lakebed.spark.gc.decide import Options
from lakebed.spark.gc.lease import held
from lakebed.spark.gc.quarantine import begin_quarantine, restore_run
from lakebed.spark.gc.saved import swept_chunks
from lakebed.spark.gc.tidy import tidy
from lakebed.spark.gc.world import Run, World, run_of

T = TypeVar("T")

# Chunks that are deleted between two looks at the lease: enough for the executors of a small cluster.
_CHUNKS_AT_ONCE = 4


async def sweep(world: World[T], options: Options, mark_id: str | None = None) -> Summary:
    """Delete what a published mark lists: the newest one, unless one is named.

    Raises:
        ConflictError: another run holds the lease.
        NotFoundError: `GC_RUN_NOT_FOUND`: no such mark counts.
        PreconditionError: `GC_UNSAFE`: a rail. Nothing is deleted.
        FencedError: the lease was lost on the way. What is recorded as deleted is; the rest is not.
    """
    started = await world.server.begin("sweep", grace_seconds=options.grace_seconds)
    async with held(world.server, started, world.clock) as lease:
        published = [each.run for each in started.marks if mark_id in (None, each.run)]
        if not published:
            which = f"mark {mark_id}" if mark_id else "a mark"
            raise NotFoundError(
                ErrorKind.GC_RUN_NOT_FOUND,
                f"{which} of {started.repository} that still counts was not found: mark first",
            )
        run = run_of(world, lease, options)
        swept = await _sweep(run, published[0])
        await tidy(run.store, lease)
        return swept


async def restore(world: World[T], run: str) -> Amount:
    """Put back what the sweep of a mark put aside; return how much that was. No earlier mark counts any more."""
    started = await world.server.begin("sweep", grace_seconds=0.0)
    async with held(world.server, started, world.clock) as lease:
        return await restore_run(world.open(started).store, world.server, lease, run)


async def _sweep(run: Run[T], mark_id: str) -> Summary:
    store, lease, options = run.store, run.lease, run.options
    summary = decode_summary(await store.get(summary_key(mark_id)))
    decide.require_uid(summary.uid, run.started, what=f"the report of run {mark_id}")
    decide.require_share(summary, options)
    done = await swept_chunks(store, mark_id)
    left = [file for file in summary.marked_files if deleted_key(file.key) not in done]
    if left:
        decide.require_fresh(summary, run.started)
        await run.server.start_sweep(run.started, mark_id)
    aside = ""
    if options.quarantine_days is not None and left:
        aside = await begin_quarantine(store, lease, mark_id, days=options.quarantine_days)
    with run.progress.phase("delete") as counted:
        for group in _groups(left, _CHUNKS_AT_ONCE):
            await lease.check()
            deleted = await run.tables.sweep(group, aside=aside, rate=options.rate)
            counted.count += deleted.objects
            for name, amount in (("deleted", deleted.objects), ("deleted_bytes", deleted.bytes)):
                lease.counts[name] = lease.counts.get(name, 0) + amount
            summary = msgspec.structs.replace(
                summary,
                deleted=summary.deleted + deleted,
                quarantined=summary.quarantined + (deleted if aside else Amount()),
            )
            await store.put(summary_key(mark_id), encode_summary(summary))
    if summary.swept_at is not None:
        return summary
    # All chunks are recorded now, also those of sweeps that died before they could count.
    summary = msgspec.structs.replace(
        summary,
        deleted=summary.marked,
        swept_at=await lease.check(),
        phases=(*summary.phases, *run.progress.phases),
    )
    await store.put(summary_key(mark_id), encode_summary(summary))
    return summary


def _groups(files: Sequence[DataFile], size: int) -> list[Sequence[DataFile]]:
    return [files[at : at + size] for at in range(0, len(files), size)]
