"""Bugs in garbage collection, to be planted, of the kind that takes reads and listings for something else than they are."""

from dataclasses import replace
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lakebed.catalog import link_tokens
from lakebed.catalog.link_tokens import LinkTokens
from lakebed.errors import UnavailableError
from lakebed.format.gc import UNCOMMITTED_FILE, UncommittedSource
from lakebed.format.layout import slice_time
from lakebed.gc import commit_lists, uncommitted
from lakebed.gc.layer_addresses import Found, LayerAddresses, LayerSource
from lakebed.gc.service import GarbageCollection
from lakebed.model.ids import EMPTY_TREE
from lakebed.spark.gc import decide, gathering, polars_tables, quarantine, saved, sweep, sweeping
from lakebed.spark.gc.lease import Lease
from lakebed.spark.gc.polars_tables import PolarsTables


def compacted_trees_compared_by_identity(patch: pytest.MonkeyPatch) -> None:
    """Of a compacted tree, list only what differs from the commit: in its content, that is, which is all the same here."""

    async def tree(self, repo, source, _at):
        trees = await self._parts.trees_of(repo)
        known: set[str] = set()
        if source.base != EMPTY_TREE:
            for info in await trees.ranges(source.base):
                known |= set((await trees.range(info)).column("key").to_pylist())
        ranges = await trees.ranges(source.tree)
        for number, info in enumerate(ranges):
            block = await trees.range(info)
            keys = pa.array(sorted(known), block.schema.field("key").type)
            other = block.filter(pc.invert(pc.is_in(block.column("key"), value_set=keys)))
            yield Found(block=other.select(["address", "mtime"]), next_at=b"%d" % (number + 1))

    patch.setattr(LayerAddresses, "_tree", tree)


def slices_that_are_being_written_to_listed(patch: pytest.MonkeyPatch) -> None:
    """The bound is the moment at which the run began."""
    original = decide.slices_of

    def slices_of(started, options, previous):
        return replace(original(started, options, previous), bound=slice_time(started.now))

    patch.setattr(decide, "slices_of", slices_of)


def commits_listed_before_what_is_uncommitted(patch: pytest.MonkeyPatch) -> None:
    original = gathering.scan

    async def scan(run):
        roots = await run.server.prepare_commits(run.started)
        return await original(replace(run, server=_Prepared(run.server, roots)))

    patch.setattr(gathering, "scan", scan)


class _Prepared:
    """A server that has prepared the commits already."""

    def __init__(self, server: Any, roots: str) -> None:
        self._server = server
        self._roots = roots

    def __getattr__(self, name: str) -> Any:
        return getattr(self._server, name)

    async def prepare_commits(self, _started: Any) -> str:
        return self._roots


def retired_layers_not_listed(patch: pytest.MonkeyPatch) -> None:
    original = uncommitted.sources_of

    def sources_of(record, base):
        return [source for source in original(record, base) if not _is_retired(source)]

    patch.setattr(uncommitted, "sources_of", sources_of)


def _is_retired(source: Any) -> bool:
    return isinstance(source, LayerSource) and source.label is UncommittedSource.RETIRED


def failed_listings_are_empty(patch: pytest.MonkeyPatch) -> None:
    """What the server has listed cannot be read: then there is nothing."""
    original = PolarsTables.read

    async def read(self, files, kind):
        try:
            return await original(self, files, kind)
        except UnavailableError:
            if kind is not UNCOMMITTED_FILE:
                raise
            return self.of(kind.schema.empty_table())

    patch.setattr(PolarsTables, "read", read)


def failed_ranges_are_empty(patch: pytest.MonkeyPatch) -> None:
    """A range cannot be read: then it has no entries."""
    original = PolarsTables.addresses_of

    async def addresses_of(self, ranges):
        found = [self.of(pa.table({"address": pa.array([], pa.string())}))]
        for row in (await self._collect(ranges.sort("name"))).iter_slices(1):
            try:
                found.append(await original(self, row.lazy()))
            except UnavailableError:
                continue
        return self.union(*found)

    patch.setattr(PolarsTables, "addresses_of", addresses_of)


def marks_not_discarded_by_a_restore(patch: pytest.MonkeyPatch) -> None:
    async def discard_restored(_self, _repo):
        return None

    patch.setattr(GarbageCollection, "discard_restored", discard_restored)


def uploads_not_listed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(uncommitted.UncommittedLists, "_upload", lambda _self, _item, _at: None)


def clocks_not_compared(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(decide, "require_clocks", lambda **_clocks: None)


def shares_not_counted(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(decide, "require_share", lambda _summary, _options: None)


def deleted_before_it_is_put_aside(patch: pytest.MonkeyPatch) -> None:
    original = sweep.sweep_chunk

    async def sweep_chunk(store, *args, **options):
        return await original(_Hasty(store), *args, **options)

    patch.setattr(polars_tables, "sweep_chunk", sweep_chunk)


class _Hasty:
    """A store that keeps no copies."""

    def __init__(self, store: Any) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def copy(self, _source: str, _target: str) -> None:
        return None


def copies_dropped_before_the_object_is_back(patch: pytest.MonkeyPatch) -> None:
    original = quarantine.restore_run

    async def restore_run(store, *rest):
        return await original(_Hasty(store), *rest)

    patch.setattr(sweeping, "restore_run", restore_run)


def late_links_taken(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(link_tokens, "require_open", lambda _found, _now: None)


def links_taken_twice(patch: pytest.MonkeyPatch) -> None:
    """An address that was used may be linked again, to whatever content."""
    original = LinkTokens.redeem

    async def redeem(self, repo, name, found, entry, *, now, condition=None):
        fresh = replace(found, token=replace(found.token, used_at=None))
        return await original(self, repo, name, fresh, entry, now=now, condition=condition)

    patch.setattr(LinkTokens, "redeem", redeem)


def lease_not_asked_for(patch: pytest.MonkeyPatch) -> None:
    """A job that has lost its lease goes on with what it was at, and no server asks for it before a sweep."""

    async def check(self):
        return self._clock.now()

    async def start_sweep(_self, _repo, _of, _mark):
        pass

    patch.setattr(Lease, "check", check)
    patch.setattr(GarbageCollection, "start_sweep", start_sweep)


def no_commit_told_to_be_live(patch: pytest.MonkeyPatch) -> None:
    original = commit_lists._encode

    def encode(decided, ids):
        return original(replace(decided, live=frozenset()), ids)

    patch.setattr(commit_lists, "_encode", encode)


def nothing_live_believed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(decide, "require_live", lambda **_amounts: None)


def state_of_another_repository(patch: pytest.MonkeyPatch) -> None:
    """It was made from the same dump: its commits and ranges are the same, what it has listed is not."""
    original = saved.STATE

    class Foreign:
        def open(self, data):
            found = original.open(data)
            return msgspec.structs.replace(
                found, uid="another", bound="v" * 20, ahead=(), candidates=(), watched=()
            )

    patch.setattr(saved, "STATE", Foreign())


def states_of_others_used(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(saved, "require_uid", lambda _found, _started, *, what: None)
