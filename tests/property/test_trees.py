"""Trees against dicts: whatever is done to them, in whatever order, they hold what a dict would."""

import asyncio
from collections import Counter
from unittest.mock import patch

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.property import rowcode
from tests.property.entries_strategies import changes, entry, paths, trees

from lakebed.committed import apply
from lakebed.committed.cache import RangeCache
from lakebed.committed.trees import MergedInto, Trees
from lakebed.env.work import InlineWorkers
from lakebed.format.blocks import block_entries, change_block, entry_block
from lakebed.format.cut import CutRule
from lakebed.format.tree_names import writer_of
from lakebed.model.diffs import ChangeCounts, DiffType, MergeStrategy
from lakebed.model.entries import Tombstone
from lakebed.model.ids import EMPTY_TREE, Nonce
from lakebed.objects.drivers.memory import MemoryObjects

# So small that a few entries make several ranges, and every rule of cutting applies now and then.
RULES = st.sampled_from(
    [
        CutRule(entries_expected=3, entries_max=100),
        CutRule(entries_expected=200, entries_max=6),
        CutRule(entries_expected=5, entries_max=8, bytes_max=600),
    ]
)
strategies = st.sampled_from(MergeStrategy)


class Forest:
    """Trees over an empty namespace, and a nonce for each operation."""

    def __init__(self, rule):
        workers = InlineWorkers()
        self.store = MemoryObjects()
        self.trees = Trees(self.store, RangeCache(None, workers=workers), workers, rule=rule)
        self.operations = 0

    @property
    def nonce(self):
        self.operations += 1
        return Nonce(f"operation{self.operations:011}")

    async def plant(self, rows, *, step=7):
        async def blocks():
            block = entry_block(rows.values())
            for at in range(0, block.num_rows, step):
                yield block.slice(at, step)

        return (await self.trees.write(blocks(), nonce=self.nonce)).id

    async def rows(self, tree, **bounds):
        found = [entry async for block in self.trees.scan(tree, **bounds) for entry in block_entries(block)]
        assert [e.path for e in found] == sorted({e.path for e in found})
        return {e.path: e for e in found}

    async def cuts(self, tree):
        return [(r.min_key, r.max_key, r.hash, r.count) for r in await self.trees.ranges(tree)]

    async def files(self):
        return {info.key async for page in self.store.list() for info in page}


def run(coroutine):
    return asyncio.run(coroutine)


@given(RULES, trees, st.lists(changes, max_size=5), st.integers(1, 30))
def test_a_tree_after_any_changes_holds_what_a_dict_would(rule, start, runs, step):
    # Changes are taken in steps of so many rows: the smaller, the more ranges are edited in several parts.
    with patch.object(apply, "_BLOCK_ROWS", step):
        run(after_any_changes(rule, start, runs, step))


@given(RULES, trees, st.lists(changes, max_size=5), st.integers(1, 9))
def test_cuts_do_not_depend_on_history(rule, start, runs, step):
    with patch.object(apply, "_BLOCK_ROWS", step):
        run(independent_of_history(rule, start, runs))


async def after_any_changes(rule, start, runs, step):
    forest = Forest(rule)
    tree, model = await forest.plant(start), dict(start)
    for change in runs:
        before, block = tree, change_block(change.values())
        if step % 2:
            block = blocks_of(block, step)
        applied = await forest.trees.apply(tree, block, nonce=forest.nonce)
        tree, old = applied.id, model
        model, counts = rowcode.apply_changes(model, change)

        assert await forest.rows(tree) == model
        assert applied.counts == counts
        assert (tree == before) == (model == old)
    assert (tree == EMPTY_TREE) == (not model)
    for path in sorted({*start, *(p for change in runs for p in change)}):
        assert await forest.trees.lookup(tree, path) == model.get(path)


async def independent_of_history(rule, start, runs):
    forest = Forest(rule)
    tree, model = await forest.plant(start), dict(start)
    for change in runs:
        tree = (await forest.trees.apply(tree, change_block(change.values()), nonce=forest.nonce)).id
        model, _ = rowcode.apply_changes(model, change)
    fresh = await forest.plant({path: model[path] for path in sorted(model)}, step=3)

    assert await forest.cuts(tree) == await forest.cuts(fresh)


@given(trees, st.integers(0, 3))
def test_equal_keys_are_cut_alike_whatever_their_values(rows, content):
    async def check():
        forest = Forest(CutRule(entries_expected=3, entries_max=8))
        ours = await forest.plant(rows)
        theirs = await forest.plant({path: entry(path, content, 1) for path in rows})

        assert [c[:2] for c in await forest.cuts(ours)] == [c[:2] for c in await forest.cuts(theirs)]

    run(check())


@given(RULES, trees, changes)
def test_ranges_that_no_change_falls_into_are_shared(rule, start, change):
    async def check():
        forest = Forest(rule)
        base = await forest.plant(start)
        before = await forest.trees.ranges(base)
        stored = await forest.files()
        tree = (await forest.trees.apply(base, change_block(change.values()), nonce=forest.nonce)).id
        after = await forest.trees.ranges(tree)

        assert {r.hash for r in before} & {r.hash for r in after} == {r.hash for r in {*before} & {*after}}
        assert len(await forest.files()) - len(stored) == len({*after} - {*before}) + (
            tree not in {base, EMPTY_TREE}
        )

    run(check())


@given(RULES, trees, paths, paths, paths)
def test_scan_yields_what_lies_within_its_bounds(rule, rows, start, prefix, after):
    async def check():
        forest = Forest(rule)
        tree = await forest.plant(rows)

        assert await forest.rows(tree, start=start) == {p: e for p, e in rows.items() if p >= start}
        assert await forest.rows(tree, prefix=prefix) == {
            p: e for p, e in rows.items() if p.startswith(prefix)
        }
        assert await forest.rows(tree, start=start, prefix=prefix, after=after) == {
            p: e for p, e in rows.items() if p >= start and p.startswith(prefix) and p > after
        }

    run(check())


@given(RULES, trees, st.sets(paths))
def test_lookup_many_finds_what_exists(rule, rows, wanted):
    async def check():
        forest = Forest(rule)
        found = await forest.trees.lookup_many(await forest.plant(rows), sorted(wanted))

        assert block_entries(found) == [rows[path] for path in sorted(wanted) if path in rows]

    run(check())


@given(RULES, trees, changes, paths, paths)
def test_diff_equals_comparing_dicts(rule, left, change, prefix, after):
    async def check():
        forest = Forest(rule)
        ours = await forest.plant(left)
        theirs = (await forest.trees.apply(ours, change_block(change.values()), nonce=forest.nonce)).id
        right, counts = rowcode.apply_changes(left, change)

        found = await differences(forest, ours, theirs)
        assert found == rowcode.diff(left, right)
        assert Counter(kind for kind, _ in found) == Counter(
            {DiffType.ADDED: counts.added, DiffType.CHANGED: counts.changed, DiffType.REMOVED: counts.removed}
        )
        assert await differences(forest, ours, theirs, prefix=prefix, after=after) == [
            (kind, e) for kind, e in found if e.path.startswith(prefix) and e.path > after
        ]
        mirrored = {
            DiffType.ADDED: DiffType.REMOVED,
            DiffType.REMOVED: DiffType.ADDED,
            DiffType.CHANGED: DiffType.CHANGED,
        }
        assert [(mirrored[kind], e.path) for kind, e in await differences(forest, theirs, ours)] == [
            (kind, e.path) for kind, e in found
        ]
        assert await differences(forest, theirs, theirs) == []

    run(check())


@given(RULES, trees, changes, changes, strategies)
@settings(max_examples=200)
def test_merge_equals_deciding_path_by_path(rule, base, ours, theirs, strategy):
    async def check():
        forest = Forest(rule)
        root = await forest.plant(base)
        source = (await forest.trees.apply(root, change_block(ours.values()), nonce=forest.nonce)).id
        dest = (await forest.trees.apply(root, change_block(theirs.values()), nonce=forest.nonce)).id
        source_rows, dest_rows = rowcode.apply_changes(base, ours)[0], rowcode.apply_changes(base, theirs)[0]
        await check_merge(forest, (root, source, dest), (base, source_rows, dest_rows), strategy)

    run(check())


@given(RULES, trees, trees, trees, strategies)
def test_merge_of_unrelated_trees_equals_deciding_path_by_path(rule, base, source, dest, strategy):
    async def check():
        forest = Forest(rule)
        ids = [await forest.plant(rows) for rows in (base, source, dest)]
        await check_merge(forest, ids, (base, source, dest), strategy)

    run(check())


@given(
    rule=RULES,
    base=trees,
    ours=changes,
    theirs=st.lists(changes, min_size=2, max_size=4),
    strategy=strategies,
    anew=st.booleans(),
)
def test_a_merge_done_again_is_what_it_would_be_if_it_were_the_first(
    *, rule, base, ours, theirs, strategy, anew
):
    """Also where each dest has files of its own (`anew`), with rows that another had, too."""

    async def check():
        forest, nonce = Forest(rule), Nonce("operation")
        root = await forest.plant(base)
        source = (await forest.trees.apply(root, change_block(ours.values()), nonce=forest.nonce)).id
        dest, earlier = root, None
        for moved in theirs:
            dest = (await forest.trees.apply(dest, change_block(moved.values()), nonce=forest.nonce)).id
            if anew:
                dest = await forest.plant(await forest.rows(dest))
            first = await forest.trees.merge(root, source, dest, strategy=strategy, nonce=forest.nonce)
            again = await forest.trees.merge(
                root, source, dest, strategy=strategy, earlier=earlier, nonce=nonce
            )
            assert (again.conflicts, again.conflicts_total) == (first.conflicts, first.conflicts_total)
            assert again.counts == first.counts
            assert await forest.rows(again.id) == await forest.rows(first.id)
            assert await forest.cuts(again.id) == await forest.cuts(first.id)
            # Of an older dest nothing is left but what the new one has, too.
            ours_now = {info.id for tree in (dest, source) for info in await forest.trees.ranges(tree)}
            theirs_now = {info.id for info in await forest.trees.ranges(again.id)} - ours_now
            assert all(name.endswith(writer_of(nonce)) for name in theirs_now)
            earlier = None if again.conflicts else MergedInto(dest=dest, merged=again)

    run(check())


async def check_merge(forest, ids, rows, strategy):
    root, source, dest = ids
    stored = await forest.files()
    merged = await forest.trees.merge(root, source, dest, strategy=strategy, nonce=forest.nonce)
    model, conflicts = rowcode.merge(*rows, strategy)

    if conflicts and strategy is MergeStrategy.NONE:
        assert merged.id == dest
        assert merged.conflicts == tuple(conflicts)
        assert merged.conflicts_total == len(conflicts)
        assert await forest.files() == stored
        return
    assert merged.conflicts == ()
    assert await forest.rows(merged.id) == model
    assert merged.counts == counted(rowcode.diff(rows[2], model))
    assert await forest.cuts(merged.id) == await forest.cuts(await forest.plant(model))
    if model == rows[2]:
        assert merged.id == dest


@given(RULES, trees, changes, changes)
def test_merge_is_what_applying_the_diff_would_do(rule, base, ours, theirs):
    async def check():
        forest = Forest(rule)
        root = await forest.plant(base)
        source = (await forest.trees.apply(root, change_block(ours.values()), nonce=forest.nonce)).id
        dest = (await forest.trees.apply(root, change_block(theirs.values()), nonce=forest.nonce)).id
        merged = await forest.trees.merge(
            root, source, dest, strategy=MergeStrategy.SOURCE_WINS, nonce=forest.nonce
        )
        script = [as_change(kind, e) for kind, e in await differences(forest, root, source)]
        applied = await forest.trees.apply(dest, change_block(script), nonce=forest.nonce)

        assert await differences(forest, applied.id, merged.id) == []

    run(check())


@given(RULES, trees, st.lists(paths | st.just(""), max_size=3), trees)
def test_replacing_prefixes_drops_what_is_below_them_and_adds_the_source(rule, dest, prefixes, source):
    async def check():
        forest = Forest(rule)
        ours, theirs = await forest.plant(dest), await forest.plant(source)
        replaced = await forest.trees.replace_prefixes(ours, prefixes, theirs, nonce=forest.nonce)

        model = {p: e for p, e in dest.items() if not p.startswith(tuple(prefixes))} | source
        assert await forest.rows(replaced.id) == {p: model[p] for p in sorted(model)}
        assert replaced.counts == counted(rowcode.diff(dest, model))
        again = await forest.trees.replace_prefixes(replaced.id, prefixes, theirs, nonce=forest.nonce)
        assert again.id == replaced.id
        assert again.counts == ChangeCounts()

    run(check())


async def blocks_of(block, step):
    for at in range(0, block.num_rows, step):
        yield block.slice(at, step)


async def differences(forest, left, right, **bounds):
    return [
        (DiffType(kind), e)
        async for block in forest.trees.diff(left, right, **bounds)
        for kind, e in zip(block.column("type").to_pylist(), block_entries(block), strict=True)
    ]


def as_change(kind, e):
    return Tombstone(path=e.path) if kind is DiffType.REMOVED else e


def counted(found):
    kinds = Counter(kind for kind, _ in found)
    return ChangeCounts(
        added=kinds[DiffType.ADDED], changed=kinds[DiffType.CHANGED], removed=kinds[DiffType.REMOVED]
    )
