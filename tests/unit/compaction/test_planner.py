from dataclasses import replace

from tests.unit.compaction.examples import LIMITS, NOW, branch, later, pending, segment, token, tokens

from lakebed.compaction.load import Load
from lakebed.compaction.planner import plan
from lakebed.compaction.sensor import seal_reason
from lakebed.model.compaction import JobKind, source_of, sources_of
from lakebed.model.diffs import ChangeCounts
from lakebed.model.ids import StagingToken


def planned(of, *, busy=(), loads=None, at=NOW, limits=LIMITS, forced=False):
    specs = plan(of, busy={*busy}, loads=loads or {}, now=at, limits=limits, forced=forced)
    return {spec.kind: [source.seq for source in spec.sources] for spec in specs}


def test_a_few_layers_of_a_busy_branch_are_left_alone():
    assert planned(branch(*tokens(2))) == {}


def test_enough_layers_are_folded():
    assert planned(branch(*tokens(3))) == {JobKind.FOLD: [3, 2, 1]}


def test_two_layers_of_a_quiet_branch_are_folded():
    of = branch(*tokens(2))

    assert planned(of, at=later(29)) == {}
    assert planned(of, at=later(31)) == {JobKind.FOLD: [2, 1]}


def test_everything_of_a_quiet_branch_goes_into_the_tree_without_further_writes():
    assert planned(branch(*tokens(2)), at=later(61)) == {JobKind.L2: [2, 1]}
    assert planned(branch(token(1)), at=later(61)) == {JobKind.L2: [1]}


def test_a_branch_without_layers_has_nothing_to_do():
    assert planned(branch(), at=later(3600), forced=True) == {}


def test_many_layers_go_into_the_tree():
    assert planned(branch(*tokens(6))) == {JobKind.L2: [6, 5, 4, 3, 2, 1]}


def test_tombstones_entries_and_bytes_go_into_the_tree_at_once():
    for facts in ({"tombstones": 2_000}, {"entries": 20_000}, {"bytes": 16 << 20}):
        assert planned(branch(segment(1, **facts))) == {JobKind.L2: [1]}, facts


def test_under_load_a_large_tree_waits_for_a_share_of_itself_or_for_a_pause():
    def due(tombstones, quiet, **fields):
        counts = ChangeCounts(removed=1_000_000)
        of = branch(segment(1, tombstones=tombstones), compacted_counts=counts, **fields)
        return planned(of, at=later(quiet)) == {JobKind.L2: [1]}

    writing = {"staging_token": StagingToken("t")}
    assert not due(100_000, 0)
    assert due(250_000, 0)
    assert due(100_000, 2)
    assert not due(100_000, 2, **writing)
    assert due(100_000, 6, **writing)
    assert not due(1_000, 6)


def test_what_is_known_of_a_token_counts_like_a_segments_statistics():
    of = branch(token(1))

    assert planned(of, loads={of.sealed[0].token: Load(tombstones=1_999)}) == {}
    assert planned(of, loads={of.sealed[0].token: Load(tombstones=2_000)}) == {JobKind.L2: [1]}


def test_a_run_ends_at_a_busy_layer_and_the_tree_takes_only_what_is_older():
    of = branch(*tokens(9))
    busy = [source_of(of.sealed[5])]

    assert planned(of, busy=busy) == {JobKind.FOLD: [8, 7, 6, 5], JobKind.L2: [3, 2, 1]}


def test_a_busy_oldest_layer_keeps_everything_out_of_the_tree():
    of = branch(*tokens(7))

    assert planned(of, busy=[source_of(of.sealed[-1])]) == {JobKind.FOLD: [5, 4, 3, 2]}


def test_the_newest_layer_alone_is_not_folded():
    of = branch(*tokens(4))

    assert planned(of, busy=sources_of(of.sealed[1:]), at=later(31)) == {}


def test_a_live_operation_on_head_keeps_the_tree_and_the_layers_below_it():
    of = branch(*tokens(7), pending=pending(below=4))

    assert planned(of) == {JobKind.FOLD: [7, 6, 5, 4]}
    assert planned(replace(of, pending=pending())) == {}
    assert planned(replace(of, pending=pending(later(-61)))) == {JobKind.L2: [7, 6, 5, 4, 3, 2, 1]}


def test_folds_stay_within_a_level_so_that_large_layers_are_not_rewritten_for_small_ones():
    large, small = segment(1, level=1), [segment(seq) for seq in (4, 3, 2)]

    assert planned(branch(*small, large)) == {JobKind.FOLD: [4, 3, 2]}
    assert planned(branch(*small[1:], large)) == {JobKind.FOLD: [3, 2, 1]}
    assert planned(branch(*[segment(seq, level=1) for seq in (3, 2, 1)])) == {JobKind.FOLD: [3, 2, 1]}


def test_a_job_reads_no_more_than_it_may_and_at_least_one_layer():
    rows = [segment(seq, entries=400, level=0) for seq in (4, 3, 2, 1)]
    limits = replace(LIMITS, fold_rows_max=1_200, l2_rows_max=1_000, l2_entries=1_600)

    assert planned(branch(*rows), limits=limits) == {JobKind.L2: [2, 1]}
    assert planned(branch(*rows), limits=replace(limits, l2_entries=10_000)) == {JobKind.FOLD: [3, 2, 1]}
    assert planned(branch(*rows), limits=replace(limits, l2_rows_max=1)) == {
        JobKind.FOLD: [4, 3, 2],
        JobKind.L2: [1],
    }


def test_who_asks_for_it_gets_everything_into_the_tree():
    assert planned(branch(*tokens(2)), forced=True) == {JobKind.L2: [2, 1]}


def test_the_same_shape_gives_the_same_job():
    of = branch(*tokens(3))
    one, two = (plan(of, busy=set(), loads={}, now=at, limits=LIMITS) for at in (NOW, later(31)))

    assert [s.id for s in one] == [s.id for s in two]


def test_staged_rows_are_sealed_when_they_are_many_or_when_writers_pause():
    def due(rows, quiet):
        reason = seal_reason(Load(tombstones=rows), written_at=NOW, now=later(quiet), limits=LIMITS)
        return reason is not None

    assert not due(999, 3600)
    assert not due(1_000, 1)
    assert due(1_000, 2)
    assert due(100_000, 0)
