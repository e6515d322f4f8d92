"""The whole engine against dicts: whatever is done in whatever order, both show the same.

The model of a branch is two dicts, committed and staged; of history, a list of dicts.
A cut rule of one in three keys makes trees of many ranges out of a dozen keys.
"""

import asyncio
from contextlib import AsyncExitStack
from dataclasses import replace

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from lakebed.catalog.diffs import DiffQuery
from lakebed.errors import ErrorKind, InvalidInputError
from lakebed.format.cut import CutRule
from lakebed.model.diffs import MergeStrategy
from lakebed.testing.lake import COMMIT, Lake, open_lake
from lakebed.versioning.merge import MergeConflictError, MergeRequest

BRANCHES = ("main", "dev")
PATHS = ("a", "a/", "a/1", "a/2", "a0", "b/1", "b/2/3", "c", "é", "\U0001f600", "z" * 40, "b//1")

RULE = CutRule(entries_expected=3, entries_max=6)

branches = st.sampled_from(BRANCHES)
paths = st.sampled_from(PATHS)
contents = st.sampled_from("123")
Objects = dict[str, str]


class Model:
    """One branch: its history, newest last, with each commit's ancestors, and what is staged."""

    def __init__(self, committed: Objects, line: frozenset[int]) -> None:
        self.committed = committed
        self.view = dict(committed)
        self.line = line


class EngineMatchesDicts(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.stack = AsyncExitStack()
        self.lake: Lake = self.run(self.stack.enter_async_context(open_lake(cut_rule=RULE)))
        self.commits: dict[int, Objects] = {0: {}}
        self.models: dict[str, Model] = {}

    def run(self, awaitable):
        return self.loop.run_until_complete(awaitable)

    def teardown(self) -> None:
        self.run(self.stack.aclose())
        self.loop.close()

    @initialize()
    def two_branches_of_one_origin(self) -> None:
        self.run(self.lake.catalog.branches.create("lake", "dev", "main"))
        self.models = {name: Model({}, frozenset([0])) for name in BRANCHES}

    @rule(branch=branches, path=paths, content=contents)
    def put(self, branch: str, path: str, content: str) -> None:
        self.run(self.lake.put(branch, **{path: content}))
        self.models[branch].view[path] = content

    @rule(branch=branches, path=paths, content=contents)
    def commit_with_the_same_again(self, branch: str, path: str, content: str) -> None:
        """Commit a change, and everything that is committed uploaded once more."""
        for again in sorted(self.models[branch].committed.items()):
            self.put(branch, *again)
        self.put(branch, path, content)
        self.commit(branch)

    @rule(branch=branches, chosen=st.sets(paths, min_size=1))
    def delete(self, branch: str, chosen: set[str]) -> None:
        self.run(self.lake.catalog.objects.delete("lake", branch, sorted(chosen)))
        for path in chosen:
            self.models[branch].view.pop(path, None)

    @rule(branch=branches)
    def commit(self, branch: str) -> None:
        """What has the content that it had keeps its address and time, however often it was uploaded again."""
        model = self.models[branch]
        before = self._rows(f"{branch}@")
        if model.view == model.committed:
            with pytest.raises(InvalidInputError) as caught:
                self.run(self.lake.commit(branch))
            assert caught.value.kind is ErrorKind.NO_CHANGES
            assert self._rows(branch) == before
            return
        self.run(self.lake.commit(branch))
        after = self._rows(f"{branch}@")
        same = [path for path, content in model.view.items() if model.committed.get(path) == content]
        assert [after[path] for path in same] == [before[path] for path in same]
        self._advance(branch, dict(model.view), model.line)

    @rule(branch=branches)
    def reset(self, branch: str) -> None:
        self.run(self.lake.catalog.branches.reset("lake", branch))
        self.models[branch].view = dict(self.models[branch].committed)

    @rule(branch=branches, prefix=st.sampled_from(["", "a", "a/", "b/", "nope"]))
    def reset_prefix(self, branch: str, prefix: str) -> None:
        self.run(self.lake.catalog.branches.reset_prefix("lake", branch, prefix))
        model = self.models[branch]
        kept = {p: c for p, c in model.view.items() if not p.startswith(prefix)}
        model.view = kept | {p: c for p, c in model.committed.items() if p.startswith(prefix)}

    @rule(branch=branches)
    def stash_and_pop(self, branch: str) -> None:
        model = self.models[branch]
        if model.view == model.committed:
            return
        stash = self.run(self.lake.catalog.stashes.create("lake", branch))
        assert self.run(self.lake.show(branch)) == model.committed
        self.run(self.lake.catalog.stashes.pop("lake", stash.id))

    @precondition(lambda self: all(m.view == m.committed for m in self.models.values()))
    @rule(source=branches, strategy=st.sampled_from(list(MergeStrategy)))
    def merge(self, source: str, strategy: MergeStrategy) -> None:
        dest = "dev" if source == "main" else "main"
        ours, theirs = self.models[dest], self.models[source]
        request = MergeRequest(commit=replace(COMMIT, allow_empty=True), strategy=strategy)
        base = self.commits[max(ours.line & theirs.line)]
        merged, conflicts = three_way(base, theirs.committed, ours.committed, strategy)
        if conflicts:
            with pytest.raises(MergeConflictError) as caught:
                self.run(self.lake.catalog.diffs.merge("lake", source, dest, request))
            assert set(caught.value.paths) == conflicts
            return
        self.run(self.lake.catalog.diffs.merge("lake", source, dest, request))
        self._advance(dest, merged, ours.line | theirs.line)

    @rule(branch=branches)
    def the_diff_of_a_branch_is_what_the_dicts_differ_by(self, branch: str) -> None:
        model = self.models[branch]
        page = self.run(self.lake.catalog.diffs.uncommitted("lake", branch, DiffQuery(amount=1000)))
        shown = dict(
            zip(page.rows.column("key").to_pylist(), page.rows.column("type").to_pylist(), strict=True)
        )
        assert shown == differences(model.committed, model.view)

    @rule()
    def the_diff_of_two_branches_is_what_the_dicts_differ_by(self) -> None:
        page = self.run(
            self.lake.catalog.diffs.diff("lake", "main", "dev", DiffQuery(amount=1000), two_dot=True)
        )
        shown = dict(
            zip(page.rows.column("key").to_pylist(), page.rows.column("type").to_pylist(), strict=True)
        )
        assert shown == differences(self.models["main"].committed, self.models["dev"].committed)

    @rule(branch=branches, amount=st.integers(1, 5), prefix=st.sampled_from(["", "a", "b/"]))
    def folded_listings_page_through_the_same_names(self, branch: str, amount: int, prefix: str) -> None:
        names, after, has_more = [], "", True
        while has_more:
            page = self.run(
                self.lake.catalog.objects.list(
                    "lake", branch, prefix=prefix, delimiter="/", after=after, amount=amount
                )
            )
            found = sorted([*page.rows.column("key").to_pylist(), *page.prefixes], key=str.encode)
            assert len(found) <= amount
            names += found
            after, has_more = page.last, page.has_more
        keys = [p for p in self.models[branch].view if p.startswith(prefix)]
        folded = {p if (at := p.find("/", len(prefix))) < 0 else p[: at + 1] for p in keys}
        assert names == sorted(folded, key=str.encode)

    @invariant()
    def every_branch_shows_its_dict(self) -> None:
        for name, model in self.models.items():
            assert self.run(self.lake.show(name)) == model.view
            assert self.run(self.lake.show(f"{name}@")) == model.committed

    def _rows(self, ref: str) -> dict[str, tuple[str, int]]:
        rows = self.run(self.lake.catalog.objects.list("lake", ref, amount=1000)).rows
        columns = [rows.column(name).to_pylist() for name in ("key", "address", "mtime")]
        return {key: (address, mtime) for key, address, mtime in zip(*columns, strict=True)}

    def _advance(self, branch: str, objects: Objects, line: frozenset[int]) -> None:
        number = max(self.commits) + 1
        self.commits[number] = objects
        self.models[branch] = Model(objects, line | {number})


def differences(left: Objects, right: Objects) -> dict[str, str]:
    added = dict.fromkeys(right.keys() - left.keys(), "added")
    removed = dict.fromkeys(left.keys() - right.keys(), "removed")
    changed = {p: "changed" for p in left.keys() & right.keys() if left[p] != right[p]}
    return added | removed | changed


def three_way(
    base: Objects, source: Objects, dest: Objects, strategy: MergeStrategy
) -> tuple[Objects, set[str]]:
    merged, conflicts = {}, set()
    for path in base.keys() | source.keys() | dest.keys():
        was, theirs, ours = base.get(path), source.get(path), dest.get(path)
        result = theirs if ours == was else ours
        if theirs not in (was, ours) and ours != was:
            conflicts.add(path)
            result = theirs if strategy is MergeStrategy.SOURCE_WINS else ours
        if result is not None:
            merged[path] = result
    return merged, conflicts if strategy is MergeStrategy.NONE else set()


TestEngineMatchesDicts = EngineMatchesDicts.TestCase
TestEngineMatchesDicts.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
