"""Mark, then sweep. Order matters.

A mark:

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

A mark deletes nothing. A sweep:

    1. lease     2. the mark is still in the run record     3. chunks: look at the lease, delete, record (`sweep`)

A crash leaves chunks that are recorded and others that the next sweep deletes. Safe at any later time: what nothing
referred to in two marks a grace apart is never referred to again, except after the restore of a dump, which
empties the run record.

What an optimized run may forget and what it must remember: the state it goes on from has every object that was listed and is
not known to be committed (candidates and watched), the committed addresses in slices that nobody has listed
yet, and the names of ranges that were read. So whatever it lists for the first time, and whatever it
still holds, is compared with every committed address that could be meant: those of known ranges were subtracted
then, or are in `ahead` now. Nothing else may be subtracted from or added to these sets.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import msgspec
import pyarrow as pa

from lakebed.env.clock import Clock, Instant
from lakebed.errors import CorruptError, ErrorKind, NotFoundError
from lakebed.format.gc import (
    CANDIDATES_FILE,
    COMMITS_FILE,
    NAMES_FILE,
    OBJECTS_FILE,
    ROOTS,
    STATE,
    UNCOMMITTED_FILE,
    Amount,
    DataFile,
    Roots,
    State,
    Summary,
    decode_summary,
    deleted_key,
    encode_summary,
    run_folder,
    state_key,
    summary_key,
)
from lakebed.format.layout import DATA_FOLDER, METARANGES_FOLDER, RANGES_FOLDER
from lakebed.format.parquet import FileKind
from lakebed.limits import GC_CHUNK_ROWS, GC_FILE_ROWS
from lakebed.model.gc import MarkKind
from lakebed.spark.gc import decide
from lakebed.spark.gc.decide import Options
from lakebed.spark.gc.lease import Lease, held
from lakebed.spark.gc.ports import Server, Slices, Started, Store, Tables
from lakebed.spark.gc.progress import Nobody, Progress, Watcher
from lakebed.spark.gc.quarantine import begin_quarantine, restore_run
from lakebed.spark.gc.saved import Previous, deleted_since, previous_state, swept_chunks
from lakebed.spark.gc.tidy import tidy

T = TypeVar("T")

# Chunks that are deleted between two looks at the lease: enough for the executors of a small cluster.
_CHUNKS_AT_ONCE = 4


@dataclass(frozen=True, slots=True)
class Tools(Generic[T]):
    """What reaches a namespace."""

    store: Store
    tables: Tables[T]


@dataclass(frozen=True, slots=True, kw_only=True)
class World(Generic[T]):
    """What runs work with. `open` is called once the server has said where the namespace lies."""

    server: Server
    open: Callable[[Started], Tools[T]]
    clock: Clock
    watcher: Watcher = field(default_factory=Nobody)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run(Generic[T]):
    """One run that holds the lease."""

    lease: Lease
    server: Server
    store: Store
    tables: Tables[T]
    clock: Clock
    options: Options
    progress: Progress

    @property
    def started(self) -> Started:
        return self.lease.started


@dataclass(frozen=True, slots=True, kw_only=True)
class _Base(Generic[T]):
    """What the newest mark saved. Both kinds of run need its candidates: what is found again is confirmed.

    `state` is None for a clean run, which needs nothing else.
    """

    state: State | None
    candidates: T
    metadata: T
    watched: T
    ahead: T
    live: T
    ranges: T


@dataclass(frozen=True, slots=True, kw_only=True)
class _Listed(Generic[T]):
    """Step 3."""

    objects: T
    files: T
    amount: Amount
    skipped_slices: int
    unknown_folders: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scanned(Generic[T]):
    """Steps 4 and 5. `live` has name (of the commit), metarange_id, live."""

    uncommitted: T
    commits: T
    live: T
    roots: Roots
    at: Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class _Read(Generic[T]):
    """Step 6: all ranges that are roots, those that were read now, and the addresses in them."""

    ranges: T
    fresh: T
    addresses: T


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found(Generic[T]):
    """Step 7."""

    candidates: T
    metadata: T
    watched: T
    marked: T
    marked_objects: T
    ahead: T
    ranges: T


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
        return await _mark(_run_of(world, lease, options), publish=publish)


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
        run = _run_of(world, lease, options)
        swept = await _sweep(run, published[0])
        await tidy(run.store, lease)
        return swept


async def restore(world: World[T], run: str) -> Amount:
    """Put back what the sweep of a mark put aside; return how much that was."""
    started = await world.server.begin("sweep", grace_seconds=0.0)
    async with held(world.server, started, world.clock) as lease:
        return await restore_run(world.open(started).store, lease, run)


def _run_of(world: World[T], lease: Lease, options: Options) -> _Run[T]:
    tools = world.open(lease.started)
    return _Run(
        lease=lease,
        server=world.server,
        store=tools.store,
        tables=tools.tables,
        clock=world.clock,
        options=options,
        progress=Progress(clock=world.clock, watcher=world.watcher),
    )


async def _mark(run: _Run[T], *, publish: bool) -> Summary:
    started, tables, progress = run.started, run.tables, run.progress
    for message in decide.warnings_of(started, run.options):
        progress.warn(message)
    await _compare_clocks(run)
    base, kind, reason = await _base(run)
    slices = decide.slices_of(started, run.options, base.state)
    with progress.phase("list the store") as counted:
        listed = await _list(run, slices, base.state)
        counted.count = listed.amount.objects
    with progress.phase("list what is referenced"):
        scanned = await _scan(run)
    with progress.phase("read what is committed") as counted:
        read = await _read(run, scanned, base)
        counted.count = (await tables.amount(read.addresses)).objects
    commits, live = await tables.amount(scanned.commits), await tables.amount(scanned.live)
    fresh = await tables.amount(read.fresh)
    decide.require_live(
        commits=commits.objects, live=live.objects, ranges=fresh.objects, addresses=counted.count
    )
    with progress.phase("subtract") as counted:
        found = await _subtract(run, slices, base=base, listed=listed, scanned=scanned, read=read)
        candidates = await tables.amount(found.candidates) + await tables.amount(found.metadata)
        counted.count = candidates.objects
    with progress.phase("save"):
        state = await _save_state(
            run, slices, kind=kind, earlier=base.state, listed=listed, scanned=scanned, found=found
        )
        marked = await tables.amount(found.marked)
        folder = f"{run_folder(started.run)}marked/"
        files = await tables.save(found.marked, CANDIDATES_FILE, folder, rows_per_file=GC_CHUNK_ROWS)
        assert sum(file.rows for file in files) == marked.objects, "what is marked is what is saved"
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


async def _compare_clocks(run: _Run[T]) -> None:
    """Step 2: the store tells its time by what it says of an object that was just written."""
    probe = f"{run_folder(run.started.run)}clock"
    await run.store.put(probe, b"")
    decide.require_clocks(
        store=await run.store.mtime(probe),
        server=await run.lease.check(),
        job=run.clock.now(),
        slack_seconds=run.started.clock_slack_seconds,
    )


async def _base(run: _Run[T]) -> tuple[_Base[T], MarkKind, str]:
    """Step 2: what the newest mark saved, all of it, and what kind of run that makes."""
    previous = await previous_state(run.store, run.started)
    kind, reason = decide.choose_kind(previous.state, previous.why_not, run.options)
    if previous.state is not None:
        try:
            return await _saved_tables(run, previous.state, kind), kind, reason
        except (NotFoundError, CorruptError) as error:
            if error.kind is ErrorKind.NEWER_VERSION:
                raise
            previous = Previous(None, f"what run {previous.state.run} saved cannot be read ({error})")
    if run.started.marks:
        run.progress.warn(f"{previous.why_not}: a clean run, and what was marked before is marked anew")
    candidates = run.tables.of(CANDIDATES_FILE.schema.empty_table())
    names = run.tables.of(NAMES_FILE.schema.empty_table())
    watched = run.tables.of(OBJECTS_FILE.schema.empty_table())
    empty = _Base(
        state=None,
        candidates=candidates,
        metadata=candidates,
        watched=watched,
        ahead=names,
        live=names,
        ranges=names,
    )
    return empty, MarkKind.CLEAN, previous.why_not


async def _saved_tables(run: _Run[T], state: State, kind: MarkKind) -> _Base[T]:
    tables, optimized = run.tables, kind is MarkKind.OPTIMIZED
    gone = await tables.read(await deleted_since(run.store, run.started), CANDIDATES_FILE)
    return _Base(
        state=state if optimized else None,
        candidates=tables.without(await tables.read(state.candidates, CANDIDATES_FILE), gone, "address"),
        metadata=await tables.read(state.metadata, CANDIDATES_FILE),
        watched=await tables.read(state.watched if optimized else (), OBJECTS_FILE),
        ahead=await tables.read(state.ahead if optimized else (), NAMES_FILE),
        live=await tables.read(state.live if optimized else (), NAMES_FILE),
        ranges=await tables.read(state.ranges if optimized else (), NAMES_FILE),
    )


async def _list(run: _Run[T], slices: Slices, base: State | None) -> _Listed[T]:
    """Step 3. An optimized run lists only slices that were too new before."""
    tables = run.tables
    root, data = await run.store.folder(""), await run.store.folder(DATA_FOLDER)
    folders = decide.folders_to_read(data.folders, slices, base)
    objects = await tables.listing([f"{DATA_FOLDER}{name}/" for name in folders])
    files = tables.of(OBJECTS_FILE.schema.empty_table())
    if base is None:
        loose = decide.loose_objects(pa.concat_tables([root.objects, data.objects]))
        objects = tables.union(objects, tables.of(loose))
        files = await tables.listing([RANGES_FOLDER, METARANGES_FOLDER])
    return _Listed(
        objects=objects,
        files=files,
        amount=await tables.amount(objects),
        skipped_slices=sum(decide.is_newer(name, slices) for name in data.folders),
        unknown_folders=len({*root.folders} - decide.SPECIAL_FOLDERS - {DATA_FOLDER.rstrip("/")}),
    )


async def _scan(run: _Run[T]) -> _Scanned[T]:
    """Steps 4 and 5. What is read here afterwards was written by the server and never changes."""
    started, tables = run.started, run.tables
    began = await run.lease.check()
    page, continuation = await run.server.prepare_uncommitted(started, "")
    pages = [page]
    while continuation:
        page, continuation = await run.server.prepare_uncommitted(started, continuation)
        pages.append(page)
    key = await run.server.prepare_commits(started)
    ended = await run.lease.check()
    decide.require_quick(began, ended, started)
    roots = ROOTS.open(await run.store.get(key))
    decide.require_uid(roots.uid, started, what=f"the list of commits of run {started.run}")
    commits = await tables.read(roots.commits, COMMITS_FILE)
    return _Scanned(
        uncommitted=await tables.read(pages, UNCOMMITTED_FILE),
        commits=commits,
        live=tables.pick(
            tables.flagged(commits, "live"), name="commit_id", metarange_id="metarange_id", live="live"
        ),
        roots=roots,
        at=ended,
    )


async def _read(run: _Run[T], scanned: _Scanned[T], base: _Base[T]) -> _Read[T]:
    """Step 6. An optimized run reads new commits only, and of those the ranges that no earlier one has read."""
    tables = run.tables
    if base.state is None:
        ranges = await tables.ranges_of(_metaranges(tables, scanned))
        fresh = tables.flagged(ranges, "live")
    else:
        new = tables.pick(tables.without(scanned.live, base.live, "name"), name="metarange_id", live="live")
        ranges = await tables.ranges_of(tables.any_live(new))
        fresh = tables.without(ranges, base.ranges, "name")
    return _Read(ranges=ranges, fresh=fresh, addresses=await tables.addresses_of(fresh))


def _metaranges(tables: Tables[T], scanned: _Scanned[T]) -> T:
    """Return every metarange that is a root of files, and whether it is one of objects."""
    trees = scanned.roots.trees
    others = pa.table(
        {"name": pa.array(trees, pa.string()), "live": pa.array([False] * len(trees), pa.bool_())}
    )
    commits = tables.union(
        tables.flagged(scanned.commits, "reachable"), tables.flagged(scanned.commits, "live")
    )
    of_commits = tables.pick(commits, name="metarange_id", live="live")
    return tables.any_live(tables.union(of_commits, tables.of(others)))


async def _subtract(
    run: _Run[T],
    slices: Slices,
    *,
    base: _Base[T],
    listed: _Listed[T],
    scanned: _Scanned[T],
    read: _Read[T],
) -> _Found[T]:
    """Step 7."""
    tables = run.tables
    ahead_before = tables.pick(base.ahead, address="name")
    pool = tables.without(listed.objects, ahead_before, "address")
    if base.state is not None:
        held_before = tables.pick(base.candidates, address="address", size="size", mtime="mtime")
        pool = tables.union(pool, held_before, base.watched)
    rest = await tables.keep(tables.without(pool, read.addresses, "address"))
    unreferenced = tables.without(rest, scanned.uncommitted, "address")
    written = decide.written_at_most(run.started, run.options)
    old = tables.at_most(unreferenced, "mtime", written)
    candidates = await tables.keep(tables.first_marked(old, base.candidates, scanned.at))
    confirmable = decide.confirms_at_most(run.started, scanned.at, run.options)
    marked_objects = tables.at_most(candidates, "first_marked_at", confirmable)
    metadata, marked = base.metadata, marked_objects
    if base.state is None:
        # An optimized run has not read all trees: it only carries these over to the next clean one.
        old_files = tables.at_most(_unused_files(tables, listed, scanned, read), "mtime", written)
        metadata = await tables.keep(tables.first_marked(old_files, base.metadata, scanned.at))
        marked = tables.union(marked_objects, tables.at_most(metadata, "first_marked_at", confirmable))
    return _Found(
        candidates=candidates,
        metadata=metadata,
        watched=tables.without(rest, candidates, "address"),
        marked=await tables.keep(marked),
        marked_objects=marked_objects,
        ahead=tables.distinct(tables.in_newer_slices(tables.union(read.addresses, ahead_before), slices)),
        ranges=tables.union(tables.pick(read.fresh, name="name"), base.ranges),
    )


def _unused_files(tables: Tables[T], listed: _Listed[T], scanned: _Scanned[T], read: _Read[T]) -> T:
    """Return the ranges and metaranges that no root names and nobody may still be writing."""
    used = tables.union(
        tables.addresses(read.ranges, RANGES_FOLDER),
        tables.addresses(_metaranges(tables, scanned), METARANGES_FOLDER),
    )
    return tables.unprotected(tables.without(listed.files, used, "address"), scanned.roots)


async def _save_state(
    run: _Run[T],
    slices: Slices,
    *,
    kind: MarkKind,
    earlier: State | None,
    listed: _Listed[T],
    scanned: _Scanned[T],
    found: _Found[T],
) -> State:
    """Step 8: lists first; the caller stores the state itself when all of them are there."""
    tables, started = run.tables, run.started
    folder = f"{run_folder(started.run)}state/"

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
        objects=listed.amount.objects + (earlier.objects if earlier is not None else 0),
        bytes=listed.amount.bytes + (earlier.bytes if earlier is not None else 0),
        candidates=await save("candidates", found.candidates, CANDIDATES_FILE),
        metadata=await save("metadata", found.metadata, CANDIDATES_FILE),
        watched=await save("watched", found.watched, OBJECTS_FILE),
        ahead=await save("ahead", tables.pick(found.ahead, name="address"), NAMES_FILE),
        live=await save("live", tables.pick(scanned.live, name="name"), NAMES_FILE),
        ranges=await save("ranges", found.ranges, NAMES_FILE),
    )


async def _sweep(run: _Run[T], mark_id: str) -> Summary:
    store, lease, options = run.store, run.lease, run.options
    summary = decode_summary(await store.get(summary_key(mark_id)))
    decide.require_uid(summary.uid, run.started, what=f"the report of run {mark_id}")
    decide.require_share(summary, options)
    done = await swept_chunks(store, mark_id)
    left = [file for file in summary.marked_files if deleted_key(file.key) not in done]
    if left:
        decide.require_fresh(summary, run.started)
    aside = ""
    if options.quarantine_days is not None and left:
        aside = await begin_quarantine(store, lease, mark_id, days=options.quarantine_days)
    with run.progress.phase("delete") as counted:
        for group in _groups(left, _CHUNKS_AT_ONCE):
            await lease.check()
            deleted = await run.tables.sweep(group, aside=aside, rate=options.rate)
            counted.count += deleted.objects
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
