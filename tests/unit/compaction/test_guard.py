"""Each part of the install guard, and what it is there to stop."""

from dataclasses import replace

import pytest
from tests.unit.compaction.examples import C2, MAIN, NOW, branch, later, pending, segment, spec, tokens

from lakebed.compaction.guard import Refusal, install_refusal
from lakebed.compaction.install import (
    RefusedError,
    claim,
    has_landed,
    install,
    stuck_sources,
    with_parked,
    without_stale_slots,
)
from lakebed.limits import PENDING_TIMEOUT_SECONDS
from lakebed.model.branch import DeletedBranch, Slot
from lakebed.model.compaction import (
    FoldOutput,
    Held,
    Job,
    JobKind,
    JobState,
    Schedule,
    TreeOutput,
    sources_of,
)
from lakebed.model.diffs import ChangeCounts
from lakebed.model.ids import MetarangeId, Nonce
from lakebed.model.layers import RetiredLayer, RetiredTree

COUNTS = ChangeCounts(added=1, removed=2)
TREE = TreeOutput(tree=MetarangeId("new-tree"), counts=COUNTS)
OLD = MetarangeId("old-tree")
FOLD = FoldOutput(layer=segment(99, id="00000001-i-7", level=1))

BEFORE = branch(*tokens(5), compacted=OLD)
L2 = spec(BEFORE, JobKind.L2, BEFORE.sealed[2:])
MIDDLE = spec(BEFORE, JobKind.FOLD, BEFORE.sealed[1:4])
CLAIMED = claim(claim(BEFORE, L2, token=6, now=NOW), MIDDLE, token=7, now=NOW)
BOTH = pytest.mark.parametrize(("job", "token"), [(L2, 6), (MIDDLE, 7)], ids=["l2", "fold"])


@BOTH
def test_nothing_changed_and_the_result_may_be_installed(job, token):
    assert install_refusal(CLAIMED, job, token=token, now=NOW) is None


@BOTH
def test_a_branch_created_again_takes_no_result_of_the_old_one(job, token):
    again = replace(CLAIMED, incarnation=Nonce("other"))

    assert install_refusal(again, job, token=token, now=NOW) is Refusal.INCARNATION


@BOTH
def test_a_deleted_branch_takes_no_result(job, token):
    gone = DeletedBranch(name=MAIN, next_seq=6, last_token=7, min_era=0, retired=(), updated_at=NOW)

    assert install_refusal(gone, job, token=token, now=NOW) is Refusal.INCARNATION
    assert install_refusal(None, job, token=token, now=NOW) is Refusal.INCARNATION


@BOTH
def test_only_the_newest_token_installs(job, token):
    taken = claim(CLAIMED, job, token=8, now=NOW)

    assert install_refusal(taken, job, token=token, now=NOW) is Refusal.TOKEN
    assert install_refusal(taken, job, token=8, now=NOW) is None


@BOTH
def test_a_slot_that_was_cleared_installs_nothing(job, token):
    cleared = replace(CLAIMED, l2_slot=None, fold_slot=None)

    assert install_refusal(cleared, job, token=token, now=NOW) is Refusal.TOKEN


def test_a_slot_is_for_one_job_even_under_one_token():
    other = replace(CLAIMED, fold_slot=Slot(job="another", token=7))

    assert install_refusal(other, MIDDLE, token=7, now=NOW) is Refusal.TOKEN


@BOTH
@pytest.mark.parametrize("gone", [2, 3], ids=["inner", "last"])
def test_a_source_that_left_refuses_the_result(job, token, gone):
    sealed = CLAIMED.sealed[:gone] + CLAIMED.sealed[gone + 1 :]

    assert install_refusal(replace(CLAIMED, sealed=sealed), job, token=token, now=NOW) is Refusal.SOURCES


@BOTH
def test_a_source_whose_place_another_layer_took_refuses_the_result(job, token):
    swapped = (*CLAIMED.sealed[:3], segment(2), CLAIMED.sealed[4])

    assert install_refusal(replace(CLAIMED, sealed=swapped), job, token=token, now=NOW) is Refusal.SOURCES


def test_only_the_oldest_layers_go_into_the_tree():
    newest = spec(BEFORE, JobKind.L2, BEFORE.sealed[:2])

    with pytest.raises(RefusedError) as caught:
        claim(BEFORE, newest, token=6, now=NOW)
    assert caught.value.refusal is Refusal.SOURCES


def test_another_compacted_tree_refuses_a_tree():
    for compacted in (None, MetarangeId("third")):
        moved = replace(CLAIMED, compacted=compacted)
        assert install_refusal(moved, L2, token=6, now=NOW) is Refusal.COMPACTED


def test_another_compacted_tree_does_not_matter_to_a_fold():
    moved = replace(CLAIMED, compacted=MetarangeId("third"))

    assert install_refusal(moved, MIDDLE, token=7, now=NOW) is None


@BOTH
def test_a_head_that_moved_refuses_the_result(job, token):
    moved = replace(CLAIMED, commit_id=C2)

    assert install_refusal(moved, job, token=token, now=NOW) is Refusal.BASE


@BOTH
@pytest.mark.parametrize("below", [None, 6, 3])
def test_a_live_operation_on_head_keeps_its_layers(job, token, below):
    busy = replace(CLAIMED, pending=pending(below=below))

    assert install_refusal(busy, job, token=token, now=NOW) is Refusal.PENDING


def test_layers_above_an_operation_on_head_may_be_folded_and_the_tree_may_not_change():
    busy = replace(CLAIMED, pending=pending(below=2))

    assert install_refusal(busy, MIDDLE, token=7, now=NOW) is None
    assert install_refusal(busy, L2, token=6, now=NOW) is Refusal.PENDING


@BOTH
def test_an_operation_whose_owner_died_is_in_nobodys_way(job, token):
    dead = replace(CLAIMED, pending=pending(later(-PENDING_TIMEOUT_SECONDS - 1)))

    assert install_refusal(dead, job, token=token, now=NOW) is None


def test_a_refused_install_leaves_the_branch_as_it_is_and_says_why():
    with pytest.raises(RefusedError, match="HEAD moved") as caught:
        install(replace(CLAIMED, commit_id=C2), L2, TREE, token=6, now=NOW)
    assert caught.value.refusal is Refusal.BASE
    assert caught.value.refusal.is_over


def test_a_tree_takes_the_place_of_the_oldest_layers_and_of_the_tree_before():
    after = install(CLAIMED, L2, TREE, token=6, now=NOW)

    assert after == replace(
        CLAIMED,
        sealed=CLAIMED.sealed[:2],
        compacted=TREE.tree,
        compacted_counts=COUNTS,
        l2_slot=None,
        retired=tuple(RetiredLayer(layer=layer, at=NOW) for layer in BEFORE.sealed[2:]),
        retired_trees=(RetiredTree(tree=OLD, at=NOW),),
    )
    assert has_landed(after, L2, TREE, token=6)
    assert not has_landed(CLAIMED, L2, TREE, token=6)


def test_a_tree_like_the_commits_is_no_compacted_tree():
    after = install(CLAIMED, L2, TreeOutput(tree=None, counts=ChangeCounts()), token=6, now=NOW)

    assert (after.compacted, after.compacted_counts) == (None, None)
    assert after.retired_trees == (RetiredTree(tree=OLD, at=NOW),)


def test_a_segment_takes_the_place_of_its_run():
    after = install(CLAIMED, MIDDLE, FOLD, token=7, now=NOW)

    made = replace(FOLD.layer, seq=4)
    assert after == replace(
        CLAIMED,
        sealed=(CLAIMED.sealed[0], made, CLAIMED.sealed[4]),
        fold_slot=None,
        retired=tuple(RetiredLayer(layer=layer, at=NOW) for layer in BEFORE.sealed[1:4]),
    )
    assert has_landed(after, MIDDLE, FOLD, token=7)
    assert not has_landed(CLAIMED, MIDDLE, FOLD, token=7)


def test_a_fold_of_nothing_leaves_nothing():
    after = install(CLAIMED, MIDDLE, FoldOutput(layer=None), token=7, now=NOW)

    assert after.sealed == (CLAIMED.sealed[0], CLAIMED.sealed[4])


def test_a_fold_and_a_tree_on_disjoint_runs_install_in_either_order():
    top = spec(BEFORE, JobKind.FOLD, BEFORE.sealed[:2])
    claimed = claim(claim(BEFORE, L2, token=6, now=NOW), top, token=7, now=NOW)

    one = install(install(claimed, L2, TREE, token=6, now=NOW), top, FOLD, token=7, now=NOW)
    two = install(install(claimed, top, FOLD, token=7, now=NOW), L2, TREE, token=6, now=NOW)
    assert (
        (one.sealed, one.compacted)
        == (two.sealed, two.compacted)
        == ((replace(FOLD.layer, seq=5),), TREE.tree)
    )


def test_nothing_is_installed_twice():
    after = install(CLAIMED, L2, TREE, token=6, now=NOW)

    with pytest.raises(RefusedError):
        install(after, L2, TREE, token=6, now=NOW)


@pytest.mark.parametrize("token", [0, 6, 7])
def test_a_slot_is_taken_only_with_a_token_above_all_before(token):
    with pytest.raises(RefusedError) as caught:
        claim(CLAIMED, L2, token=token, now=NOW)
    assert caught.value.refusal is Refusal.TOKEN


def test_a_claim_raises_the_last_token_and_overwrites_whoever_had_the_slot():
    after = claim(CLAIMED, L2, token=9, now=NOW)

    assert (after.l2_slot, after.last_token) == (Slot(job=L2.id, token=9), 9)
    assert after.fold_slot == CLAIMED.fold_slot


def test_a_slot_whose_job_is_over_is_cleared_and_one_that_is_not_known_yet_stays():
    job = Job(spec=MIDDLE, number=1, added_at=NOW, state=JobState.RUNNING, token=7)

    both = without_stale_slots(CLAIMED, Schedule(last_token=7, jobs=(job,)))
    assert (both.l2_slot, both.fold_slot) == (None, CLAIMED.fold_slot)
    assert without_stale_slots(CLAIMED, Schedule(last_token=5)) is CLAIMED
    parked = replace(job, state=JobState.PARKED)
    assert without_stale_slots(CLAIMED, Schedule(last_token=7, jobs=(parked,))).fold_slot is None
    assert without_stale_slots(CLAIMED, Schedule(epoch=1)).l2_slot is None


def test_a_branch_is_parked_while_a_layer_of_its_own_is_in_a_parked_job_or_held():
    job = Job(spec=MIDDLE, number=1, added_at=NOW, state=JobState.PARKED)
    held = Held(incarnation=CLAIMED.incarnation, source=MIDDLE.sources[0], until=NOW)
    for schedule in (Schedule(jobs=(job,)), Schedule(held=(held,))):
        stuck = stuck_sources(schedule)[CLAIMED.incarnation]
        parked = with_parked(CLAIMED, stuck)
        assert parked.parked
        assert with_parked(parked, stuck) is parked
        assert not with_parked(replace(parked, sealed=()), stuck).parked

    assert stuck_sources(Schedule(jobs=(replace(job, state=JobState.QUEUED),))) == {}
    assert not with_parked(replace(CLAIMED, parked=True), set()).parked
    assert with_parked(CLAIMED, set()) is CLAIMED


def test_a_branch_that_was_folded_whole_is_parked_no_longer():
    branch = replace(CLAIMED, parked=True)
    whole = replace(L2, sources=sources_of(branch.sealed))
    claimed = claim(branch, whole, token=9, now=NOW)

    after = install(claimed, whole, TREE, token=9, now=NOW)

    assert (after.sealed, after.parked) == ((), False)
