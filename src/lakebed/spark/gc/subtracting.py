"""Step 7 of a mark: what nothing refers to, and what of it was found before. Only tables; nothing is read."""

from dataclasses import dataclass
from typing import Generic, TypeVar

from lakebed.format.layout import METARANGES_FOLDER, RANGES_FOLDER
from lakebed.spark.gc import decide
from lakebed.spark.gc.gathering import Base, Listed, Read, Scanned, metaranges_of
from lakebed.spark.gc.ports import Slices, Tables
from lakebed.spark.gc.world import Run

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Found(Generic[T]):
    """Step 7."""

    candidates: T
    metadata: T
    watched: T
    marked: T
    marked_objects: T
    ahead: T
    ranges: T


async def subtract(
    run: Run[T],
    slices: Slices,
    *,
    base: Base[T],
    listed: Listed[T],
    scanned: Scanned[T],
    read: Read[T],
) -> Found[T]:
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
    return Found(
        candidates=candidates,
        metadata=metadata,
        watched=tables.without(rest, candidates, "address"),
        marked=await tables.keep(marked),
        marked_objects=marked_objects,
        ahead=tables.distinct(tables.in_newer_slices(tables.union(read.addresses, ahead_before), slices)),
        ranges=tables.union(tables.pick(read.fresh, name="name"), base.ranges),
    )


def _unused_files(tables: Tables[T], listed: Listed[T], scanned: Scanned[T], read: Read[T]) -> T:
    """Return the ranges and metaranges that no root names and nobody may still be writing."""
    used = tables.union(
        tables.addresses(read.ranges, RANGES_FOLDER),
        tables.addresses(metaranges_of(tables, scanned), METARANGES_FOLDER),
    )
    return tables.unprotected(tables.without(listed.files, used, "address"), scanned.roots)
