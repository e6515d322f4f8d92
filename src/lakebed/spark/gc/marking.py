"""A mark. Order matters.

    1. lease        of the repository; nobody else marks or sweeps
    2. look         at the clocks, and at the state that the newest published mark saved
    3. list         the store: slices that are not too new, loose objects of old layouts, ranges and metaranges
    4. uncommitted  what is staged, linked, copied, uploaded, stashed: addresses, by the server
    5. committed    commits: those that expire are condemned, then refs are read; by the server
    6. read         the addresses in the ranges of live commits
    7. subtract     5 and 4 from 3: candidates; those that were candidates a grace before this run began are marked
    8. save         lists, then `state.json`
    9. publish      a swap of the run record, if the lease is still ours

3 before 4: what is listed was written before anything that could refer to it is read, so an object that is written and
staged meanwhile is not on the list. 4 before 5: what is committed meanwhile moves from a place already read to
one not yet read, never the other way.

    crash after    what is left                            who cleans up
    1, 2           a lease                                 it runs out
    3 to 7         files of a run that never counts        reports expire; condemned commits are the next run's
    8              a state that no mark names              the same: the next run starts from the mark before
    9              a published mark                        a sweep, now or at any later time

A mark deletes nothing.
"""

from typing import TypeVar

from lakebed.format.gc import (
    CANDIDATES_FILE,
    NAMES_FILE,
    OBJECTS_FILE,
    STATE,
    Amount,
    DataFile,
    State,
    Summary,
    encode_summary,
    run_folder,
    state_key,
    summary_key,
)
from lakebed.format.parquet import FileKind
from lakebed.limits import GC_CHUNK_ROWS, GC_FILE_ROWS
from lakebed.model.gc import MarkKind
from lakebed.spark.gc import decide, gathering
from lakebed.spark.gc.decide import Options
from lakebed.spark.gc.gathering import Base, Listed, Scanned
from lakebed.spark.gc.lease import held
from lakebed.spark.gc.ports import Slices
from lakebed.spark.gc.subtracting import Found, subtract
from lakebed.spark.gc.world import Run, World, run_of

T = TypeVar("T")


async def mark(world: World[T], options: Options, *, publish: bool = True) -> Summary:
    """Find what nothing refers to, and publish what was found twice.

    Without `publish` it is a look: there is a report, but no mark, and commits that would expire do not.

    Raises:
        ConflictError: another run holds the lease.
        PreconditionError: `GC_UNSAFE`: a rail. Nothing is marked.
        FencedError: the lease was lost on the way. Nothing is marked.
    """
    started = await world.server.begin("mark", grace_seconds=options.grace_seconds)
    async with held(world.server, started, world.clock) as lease:
        return await _mark(run_of(world, lease, options), publish=publish)


async def _mark(run: Run[T], *, publish: bool) -> Summary:
    started, tables, progress = run.started, run.tables, run.progress
    for message in decide.warnings_of(started, run.options):
        progress.warn(message)
    await _compare_clocks(run)
    base, kind, reason = await gathering.base_of(run)
    slices = decide.slices_of(started, run.options, base.state)
    with progress.phase("list the store") as counted:
        listed = await gathering.list_store(run, slices, base.state)
        counted.count = listed.amount.objects
    with progress.phase("list what is referenced"):
        scanned = await gathering.scan(run)
    with progress.phase("read what is committed") as counted:
        read = await gathering.read_committed(run, scanned, base)
        counted.count = (await tables.amount(read.addresses)).objects
    commits, live = await tables.amount(scanned.commits), await tables.amount(scanned.live)
    fresh = await tables.amount(read.fresh)
    decide.require_live(
        commits=commits.objects, live=live.objects, ranges=fresh.objects, addresses=counted.count
    )
    with progress.phase("subtract") as counted:
        found = await subtract(run, slices, base=base, listed=listed, scanned=scanned, read=read)
        candidates = await tables.amount(found.candidates) + await tables.amount(found.metadata)
        counted.count = candidates.objects
    with progress.phase("save"):
        state = await _save_state(
            run, slices, kind=kind, base=base, listed=listed, scanned=scanned, found=found
        )
        marked = await tables.amount(found.marked)
        folder = f"{run_folder(started.run)}marked/"
        files = await tables.save(found.marked, CANDIDATES_FILE, folder, rows_per_file=GC_CHUNK_ROWS)
        decide.require_whole(saved=sum(file.rows for file in files), marked=marked.objects)
        summary = Summary(
            run=started.run,
            repository=started.repository,
            uid=started.uid,
            kind=kind,
            reason=reason,
            engine=tables.name,
            started_at=started.now,
            marked_at=await run.lease.check(),
            min_age_seconds=run.options.min_age_seconds,
            grace_seconds=run.options.grace_seconds,
            listed=listed.amount,
            namespace=Amount(state.objects, state.bytes),
            live_commits=live.objects,
            commits=commits.objects,
            ranges=fresh.objects,
            uncommitted=(await tables.amount(scanned.uncommitted)).objects,
            candidates=candidates,
            marked=marked,
            marked_objects=await tables.amount(found.marked_objects),
            by_prefix_and_age=tuple(await tables.shares(found.marked, started.now)),
            skipped_slices=listed.skipped_slices,
            unknown_folders=listed.unknown_folders,
            marked_files=files,
            phases=tuple(progress.phases),
            warnings=tuple(progress.warnings),
            trees=state.trees,
            odd_names=listed.odd_names,
        )
        await run.store.put(summary_key(started.run), encode_summary(summary))
        await run.store.put(state_key(started.run), STATE.seal(state))
    counts = {
        "objects": state.objects,
        "candidates": candidates.objects,
        "marked": marked.objects,
        "marked_bytes": marked.bytes,
    }
    if publish:
        await run.server.publish(started, kind, counts)
    return summary


async def _compare_clocks(run: Run[T]) -> None:
    """Step 2: the store tells its time by what it says of an object that was just written."""
    probe = f"{run_folder(run.started.run)}clock"
    await run.store.put(probe, b"")
    decide.require_clocks(
        store=await run.store.mtime(probe),
        server=await run.lease.check(),
        job=run.clock.now(),
        slack_seconds=run.started.clock_slack_seconds,
    )


async def _save_state(
    run: Run[T],
    slices: Slices,
    *,
    kind: MarkKind,
    base: Base[T],
    listed: Listed[T],
    scanned: Scanned[T],
    found: Found[T],
) -> State:
    """Step 8: lists first; the caller stores the state itself when all of them are there."""
    tables, started, earlier = run.tables, run.started, base.state
    folder = f"{run_folder(started.run)}state/"
    known = base.amount + listed.amount

    async def save(name: str, table: T, kind: FileKind) -> tuple[DataFile, ...]:
        return await tables.save(table, kind, f"{folder}{name}/", rows_per_file=GC_FILE_ROWS)

    return State(
        uid=started.uid,
        run=started.run,
        kind=kind,
        optimized_since_clean=0 if earlier is None else earlier.optimized_since_clean + 1,
        started_at=started.now,
        scanned_at=scanned.at,
        bound=slices.bound,
        floor=slices.floor,
        objects=known.objects,
        bytes=known.bytes,
        candidates=await save("candidates", found.candidates, CANDIDATES_FILE),
        metadata=await save("metadata", found.metadata, CANDIDATES_FILE),
        watched=await save("watched", found.watched, OBJECTS_FILE),
        ahead=await save("ahead", tables.pick(found.ahead, name="address"), NAMES_FILE),
        live=await save("live", tables.pick(scanned.live, name="name"), NAMES_FILE),
        ranges=await save("ranges", found.ranges, NAMES_FILE),
        trees=base.trees + listed.trees,
    )
