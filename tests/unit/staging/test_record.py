"""What each step does to a branch record with segments and a compacted tree."""

from dataclasses import replace

import pytest

from lakebed.errors import ConflictError, ErrorKind
from lakebed.limits import PENDING_TIMEOUT_SECONDS
from lakebed.model.branch import Branch, Slot
from lakebed.model.diffs import ChangeCounts
from lakebed.model.ids import MetarangeId, Nonce, StagingToken
from lakebed.model.layers import RetiredTree, SegmentLayer
from lakebed.refs.branches import bury, new_branch
from lakebed.staging.record import abandon, append_segment, begin, finish, knows_layer, layers_of, reset
from tests.unit.compaction.examples import C2, NOW, branch, later, pending, segment, tokens

TREE = MetarangeId("tree")
ME = Nonce("me")
RETIRED = (RetiredTree(tree=TREE, at=later(1)),)


def compacted() -> Branch:
    return replace(
        branch(*tokens(1), compacted=TREE),
        compacted_counts=ChangeCounts(added=1),
        l2_slot=Slot(job="a", token=1),
        fold_slot=Slot(job="b", token=2),
        last_token=2,
        parked=True,
    )


def without_tree(record: Branch) -> bool:
    nothing = (record.compacted, record.compacted_counts, record.l2_slot, record.fold_slot) == (None,) * 4
    return nothing and not record.parked


def own(record: Branch, segment_id: str = "00000001-abc") -> SegmentLayer:
    return replace(segment(0, id=segment_id), dataset=record.incarnation)


def test_a_pending_entry_tells_which_layers_it_builds_on():
    record = replace(branch(*tokens(3)), staging_token=StagingToken("open"))

    begun = begin(record, ME, (record.commit_id,), NOW)

    assert begun.pending[ME].below == begun.next_seq
    assert all(layer.seq < begun.next_seq for layer in begun.sealed)


def test_an_entry_of_a_dead_owner_goes_when_the_next_begins():
    record = replace(branch(), pending=pending())

    begun = begin(record, ME, (record.commit_id,), later(PENDING_TIMEOUT_SECONDS + 1))

    assert set(begun.pending) == {ME}


def test_a_reset_retires_the_compacted_tree_and_stops_who_makes_another():
    after = reset(compacted(), StagingToken("new"), later(1))

    assert without_tree(after)
    assert after.retired_trees == RETIRED


def test_a_new_head_retires_the_compacted_tree_and_stops_who_makes_another():
    started = begin(compacted(), ME, (), NOW)

    after = finish(started, ME, started=started, commit_id=C2, now=later(1))

    assert without_tree(after)
    assert after.retired_trees == RETIRED


def test_an_operation_that_finds_no_change_drops_the_tree_and_one_that_does_not_look_keeps_it():
    started = begin(compacted(), ME, (), NOW)

    dropped = abandon(started, ME, clean=started, now=later(1))
    kept = abandon(started, ME, clean=None, now=later(1))

    assert without_tree(dropped)
    assert dropped.retired_trees == RETIRED
    assert (kept.compacted, kept.l2_slot, kept.retired_trees) == (TREE, started.l2_slot, ())


def test_a_deleted_branch_and_its_namesake_list_the_trees_that_left():
    tombstone = bury(compacted(), later(1))
    again = new_branch(tombstone.name, C2, Nonce("again"), now=later(2), previous=tombstone)

    assert tombstone.retired_trees == again.retired_trees == RETIRED


def test_a_segment_lies_above_what_was_staged_before_and_below_what_comes_later():
    record = replace(branch(*tokens(2)), staging_token=StagingToken("open"))

    after = append_segment(record, own(record))

    assert after.staging_token is None
    assert [layer.seq for layer in after.sealed] == sorted((x.seq for x in after.sealed), reverse=True)
    assert after.sealed[0] == replace(own(record), seq=record.next_seq + 1)
    assert layers_of(record)[0] == after.sealed[1]
    assert knows_layer(after, own(record))
    assert not knows_layer(record, own(record))


@pytest.mark.parametrize("what", ["era", "incarnation"])
def test_a_segment_that_may_have_been_swept_or_is_for_a_namesake_is_refused(what):
    record = replace(branch(), min_era=2)
    fits = own(record, "00000002-abc")
    other = own(record, "00000001-abc") if what == "era" else replace(fits, dataset="other")

    assert append_segment(record, fits).sealed
    with pytest.raises(ConflictError) as caught:
        append_segment(record, other)
    assert caught.value.kind is ErrorKind.FENCE_LOST
