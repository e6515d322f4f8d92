"""Bugs in garbage collection, to be planted: each takes one safeguard out."""

import asyncio
from typing import Any

import polars as pl
import pyarrow.compute as pc
import pytest

from lakebed.env.clock import Instant
from lakebed.gc import commit_lists, retention, state, uncommitted
from lakebed.gc.condemning import Condemner
from lakebed.gc.layer_addresses import TreeSource
from lakebed.gc.uncommitted import UncommittedLists
from lakebed.kv.port import VersionFence
from lakebed.model.gc import GcState, Mark
from lakebed.refs import commits, lifecycle
from lakebed.refs.keys import commit_key
from lakebed.spark.gc import decide, gathering
from lakebed.spark.gc.lease import Lease
from lakebed.spark.gc.polars_tables import PolarsTables
from lakebed.versioning.head import HeadChanges
from lakebed.versioning.view import View


def store_listed_after_what_is_uncommitted(patch: pytest.MonkeyPatch) -> None:
    original_list, original_scan = gathering.list_store, gathering.scan
    scanned: dict[str, Any] = {}

    async def list_store(run, slices, base):
        scanned[run.started.run] = await original_scan(run)
        return await original_list(run, slices, base)

    async def scan(run):
        return scanned.pop(run.started.run)

    patch.setattr(gathering, "list_store", list_store)
    patch.setattr(gathering, "scan", scan)


def compacted_trees_not_listed(patch: pytest.MonkeyPatch) -> None:
    _leave_out(patch, lambda source: isinstance(source, TreeSource))


def _leave_out(patch: pytest.MonkeyPatch, unwanted: Any) -> None:
    original = uncommitted.sources_of

    def sources_of(record, base):
        return [source for source in original(record, base) if not unwanted(source)]

    patch.setattr(uncommitted, "sources_of", sources_of)


def shadowed_rows_not_listed(patch: pytest.MonkeyPatch) -> None:
    original = UncommittedLists._sources

    async def sources(self, repo, record, cursor):
        shown = pa_addresses = []
        if isinstance(record, uncommitted.Branch):
            view = View(self._parts)
            page = await view.list(repo, await view.source(repo, record), amount=1000)
            pa_addresses = page.rows.column("address")
            shown = pa_addresses.to_pylist()
        async for step in original(self, repo, record, cursor):
            if step.block is None:
                yield step
                continue
            kept = step.block.filter(pc.is_in(step.block.column("address"), value_set=_strings(shown)))
            yield uncommitted._Step(kept, step.label, step.cursor)

    patch.setattr(UncommittedLists, "_sources", sources)


def _strings(values: list[str]) -> Any:
    return uncommitted.pa.array(values, uncommitted.pa.string())


def stashes_not_listed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(UncommittedLists, "_stashes", lambda *_args: uncommitted._nothing())


def used_links_not_listed(patch: pytest.MonkeyPatch) -> None:
    original = UncommittedLists._link

    def link(self, item, started_at):
        token = uncommitted.decode_link(item.value)
        return original(self, item, started_at) if token.used_at is None else None

    patch.setattr(UncommittedLists, "_link", link)


def open_links_not_listed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(UncommittedLists, "_link", lambda _self, _item, _at: None)


def copies_not_listed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(uncommitted, "_copy", lambda _item, _at: None)


def ready_trees_not_read(patch: pytest.MonkeyPatch) -> None:
    """Commit whatever tree there is, and tell no collector whose it was."""
    original = HeadChanges.run

    async def find_by_tree(self, repo, tree):
        return await anext(c.id async for page in self.scan(repo) for c in page if c.tree == tree)

    async def run(self, repo, name, build, *, reads=()):
        is_ready = build.__qualname__.startswith("Committer.commit_tree")
        return await original(self, repo, name, build, reads=() if is_ready else reads)

    patch.setattr(commits.Commits, "find_by_tree", find_by_tree)
    patch.setattr(HeadChanges, "run", run)


def one_mark_is_enough(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(decide, "confirms_at_most", lambda _started, scanned_at, _options: scanned_at)


def refs_listed_before_commits_are_condemned(patch: pytest.MonkeyPatch) -> None:
    original = commit_lists.read_references
    first: dict[Any, Any] = {}

    async def read_references(kv, repo):
        task = asyncio.current_task()
        if task in first:
            return first.pop(task)
        first[task] = await original(kv, repo)
        return first[task]

    patch.setattr(commit_lists, "read_references", read_references)


def refs_published_without_a_check(patch: pytest.MonkeyPatch) -> None:
    """Whether the commit of a new ref is condemned, nobody asks, before or after."""

    async def anchor(kv, repo, commit_id):
        item = await kv.get(repo.partition, commit_key(commit_id))
        return VersionFence(partition=repo.partition, key=item.key, version=item.version)

    patch.setattr(lifecycle, "anchor", anchor)


def condemned_commits_not_released(patch: pytest.MonkeyPatch) -> None:
    original = Condemner.release

    async def release(self, commits, *, condemner=None):
        if condemner is not None:
            await original(self, commits, condemner=condemner)

    patch.setattr(Condemner, "release", release)


def nonces_protect_nothing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PolarsTables, "unprotected", lambda _self, files, _roots: files)


def committed_addresses_ahead_forgotten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PolarsTables, "in_newer_slices", lambda _self, table, _slices: table.filter(pl.lit(False)))


def new_commits_chosen_by_date(patch: pytest.MonkeyPatch) -> None:
    dates: dict[str, int] = {}
    original_commit, original_tables = commits.new_commit, gathering._saved_tables

    def new_commit(**fields):
        commit = original_commit(**fields)
        dates[commit.id] = commit.date
        return commit

    async def saved_tables(run, saved, kind):
        base = await original_tables(run, saved, kind)
        known = [each for each, date in dates.items() if date * 1_000_000 < saved.started_at]
        live = pl.concat([base.live, pl.LazyFrame({"name": known}, schema={"name": pl.String})])
        return gathering.Base(
            **{name: getattr(base, name) for name in base.__slots__ if name != "live"}, live=live
        )

    patch.setattr(commits, "new_commit", new_commit)
    patch.setattr(gathering, "_saved_tables", saved_tables)


def lease_not_checked_at_publish(patch: pytest.MonkeyPatch) -> None:
    attempts: dict[str, str] = {}
    original = commit_lists.finish_attempt

    def finish_attempt(found: GcState, run: str, token: int, attempt: str) -> GcState:
        attempts[run] = attempt
        return original(found, run, token, attempt)

    def publish(found: GcState, run: str, _token: int, *, kind, counts, now: Instant) -> GcState:
        if any(mark.run == run for mark in found.marks):
            return found
        mark = Mark(
            run=run,
            condemner=attempts[run],
            kind=kind,
            started_at=state.begun_at(run),
            marked_at=now,
            optimized_since_clean=0,
            counts=counts,
        )
        return state.replace(found, marks=(mark, *found.marks))

    async def check(self: Lease) -> Instant:
        return self._clock.now()

    patch.setattr(commit_lists, "finish_attempt", finish_attempt)
    patch.setattr(state, "publish", publish)
    patch.setattr(Lease, "check", check)


def young_objects_not_left_alone(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(decide, "written_at_most", lambda _started, _options: 2**62)


def everything_without_rules_expires(patch: pytest.MonkeyPatch) -> None:
    original = retention.retain

    def retain(commits, named, rules, *, now):
        return original(commits, named, rules or commit_lists.GcRules(default_days=0), now=now)

    patch.setattr(commit_lists, "retain", retain)


def commits_condemned_though_named(patch: pytest.MonkeyPatch) -> None:
    """Tags do not count."""
    original = commit_lists.read_references

    async def read_references(kv, repo):
        return commit_lists.References(**{**_fields(await original(kv, repo)), "tags": ()})

    patch.setattr(commit_lists, "read_references", read_references)


def _fields(refs: Any) -> dict[str, Any]:
    return {name: getattr(refs, name) for name in refs.__slots__}
