"""What a mark reads, step by step: its order is `marking`'s.

What an optimized run may forget and what it must remember: the state it goes on from has every object that was listed and is
not known to be committed (candidates and watched), the committed addresses in slices that nobody has listed
yet, and the names of ranges that were read. So whatever it lists for the first time, and whatever it
still holds, is compared with every committed address that could be meant: those of known ranges were subtracted
then, or are in `ahead` now. Nothing else may be subtracted from or added to these sets.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import pyarrow as pa

from lakebed.env.clock import Instant
from lakebed.errors import CorruptError, ErrorKind, NotFoundError
from lakebed.format.gc import (
    CANDIDATES_FILE,
    COMMITS_FILE,
    NAMES_FILE,
    OBJECTS_FILE,
    ROOTS,
    UNCOMMITTED_FILE,
    Amount,
    DataFile,
    Roots,
    State,
)
from lakebed.format.layout import DATA_FOLDER, METARANGES_FOLDER, RANGES_FOLDER
from lakebed.model.gc import MarkKind
from lakebed.spark.gc import decide
from lakebed.spark.gc.ports import Slices, Tables
from lakebed.spark.gc.saved import Previous, deleted_since, previous_state
from lakebed.spark.gc.world import Run

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Base(Generic[T]):
    """What the newest mark saved. Both kinds of run need its candidates: what is found again is confirmed.

    `state` is None for a clean run, which needs nothing else.
    """

    state: State | None
    amount: Amount
    """Of the objects that were known then, those that are left; `trees` of ranges and metaranges."""
    trees: Amount
    candidates: T
    metadata: T
    watched: T
    ahead: T
    live: T
    ranges: T


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed(Generic[T]):
    """Step 3."""

    objects: T
    files: T
    amount: Amount
    trees: Amount
    odd_names: int
    skipped_slices: int
    unknown_folders: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Scanned(Generic[T]):
    """Steps 4 and 5. `live` has name (of the commit), metarange_id, live."""

    uncommitted: T
    commits: T
    live: T
    roots: Roots
    at: Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class Read(Generic[T]):
    """Step 6: all ranges that are roots, those that were read now, and the addresses in them."""

    ranges: T
    fresh: T
    addresses: T


async def base_of(run: Run[T]) -> tuple[Base[T], MarkKind, str]:
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
    empty = Base(
        state=None,
        amount=Amount(),
        trees=Amount(),
        candidates=candidates,
        metadata=candidates,
        watched=watched,
        ahead=names,
        live=names,
        ranges=names,
    )
    return empty, MarkKind.CLEAN, previous.why_not


async def _saved_tables(run: Run[T], state: State, kind: MarkKind) -> Base[T]:
    tables, optimized = run.tables, kind is MarkKind.OPTIMIZED
    gone = await tables.read(await deleted_since(run.store, run.started), CANDIDATES_FILE)
    candidates, deleted = await _left(tables, state.candidates, gone)
    metadata, deleted_trees = await _left(tables, state.metadata, gone)
    return Base(
        state=state if optimized else None,
        amount=Amount(state.objects, state.bytes) - deleted if optimized else Amount(),
        trees=state.trees - deleted_trees if optimized and state.trees is not None else Amount(),
        candidates=candidates,
        metadata=metadata,
        watched=await tables.read(state.watched if optimized else (), OBJECTS_FILE),
        ahead=await tables.read(state.ahead if optimized else (), NAMES_FILE),
        live=await tables.read(state.live if optimized else (), NAMES_FILE),
        ranges=await tables.read(state.ranges if optimized else (), NAMES_FILE),
    )


async def _left(tables: Tables[T], files: Sequence[DataFile], gone: T) -> tuple[T, Amount]:
    """Return the candidates that are not gone, and how much is. Whatever was deleted since was one of them."""
    saved = await tables.read(files, CANDIDATES_FILE)
    left = await tables.keep(tables.without(saved, gone, "address"))
    return left, await tables.amount(saved) - await tables.amount(left)


async def list_store(run: Run[T], slices: Slices, base: State | None) -> Listed[T]:
    """Step 3. An optimized run lists only slices that were too new before."""
    tables = run.tables
    root, data = await run.store.folder(""), await run.store.folder(DATA_FOLDER)
    folders = decide.folders_to_read(data.folders, slices, base)
    found = await tables.listing([f"{DATA_FOLDER}{name}/" for name in folders])
    found_files = tables.of(decide.with_plainness(OBJECTS_FILE.schema.empty_table()))
    if base is None:
        loose = decide.loose_objects(pa.concat_tables([root.objects, data.objects]))
        found = tables.union(found, tables.of(loose))
        found_files = await tables.listing([RANGES_FOLDER, METARANGES_FOLDER])
    objects, files = _plain(tables, found), _plain(tables, found_files)
    amount, trees = await tables.amount(objects), await tables.amount(files)
    everything = await tables.amount(tables.union(found, found_files))
    return Listed(
        objects=objects,
        files=files,
        amount=amount,
        trees=trees,
        odd_names=(everything - amount - trees).objects,
        skipped_slices=sum(decide.is_newer(name, slices) for name in data.folders),
        unknown_folders=len({*root.folders} - decide.SPECIAL_FOLDERS - {DATA_FOLDER.rstrip("/")}),
    )


def _plain(tables: Tables[T], listed: T) -> T:
    return tables.pick(tables.flagged(listed, "plain"), address="address", size="size", mtime="mtime")


async def scan(run: Run[T]) -> Scanned[T]:
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
    return Scanned(
        uncommitted=await tables.read(pages, UNCOMMITTED_FILE),
        commits=commits,
        live=tables.pick(
            tables.flagged(commits, "live"), name="commit_id", metarange_id="metarange_id", live="live"
        ),
        roots=roots,
        at=ended,
    )


async def read_committed(run: Run[T], scanned: Scanned[T], base: Base[T]) -> Read[T]:
    """Step 6. An optimized run reads new commits only, and of those the ranges that no earlier one has read."""
    tables = run.tables
    if base.state is None:
        ranges = await tables.ranges_of(metaranges_of(tables, scanned))
        fresh = tables.flagged(ranges, "live")
    else:
        new = tables.pick(tables.without(scanned.live, base.live, "name"), name="metarange_id", live="live")
        ranges = await tables.ranges_of(tables.any_live(new))
        fresh = tables.without(ranges, base.ranges, "name")
    return Read(ranges=ranges, fresh=fresh, addresses=await tables.addresses_of(fresh))


def metaranges_of(tables: Tables[T], scanned: Scanned[T]) -> T:
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
