"""Every safeguard of garbage collection is needed: taken out, the simulation finds what goes wrong within a few seeds.

Some stand behind others: while one of two is in place nothing goes wrong, so they are taken out together. Which of them
that is true of is shown, too: with only one of the two out, nothing goes wrong.

    what must be noticed                        planted here as
    -----------------------------------------   ----------------------------------------------------------------------
    rail: a read failed or was partial          failed listings, failed ranges
    rail: nothing is live                       nothing live (a test of its own: the server must be wrong first)
    rail: a large share                         share
    rail: clocks are apart                      clocks
    rail: another repository's state            another's state (the same)
    rail: another run has the lease             lease at publish, lease in a sweep
    the order of the listings                   store before uncommitted, uncommitted before committed
    the two marks                               two marks
    condemn, then list                          condemn, then list; release; tags
    publish, then check                         publish, then check; ready trees
    address instead of identity                 compacted trees by identity; compacted trees
    used tokens kept for a grace                used links, open links, late links, links taken twice
    the slice bound                             slices that are being written to, with the age of the object
    what an optimized run must remember         committed addresses in unread slices, new commits by id
    what the server must list                   copies, uploads, stashes, shadowed rows, compacted trees, nonces of files
    quarantine                                  copies before deletion, object back before its copy goes
    marks do not outlive a restored dump        marks discarded by a restore
"""

from collections.abc import Callable

import pytest
from tests.simulation import gc_job_plants as job_plants
from tests.simulation import gc_plants as plants

from lakebed.errors import CorruptError, PreconditionError
from lakebed.testing.simulation.run import play

# Each is found in at least every fifth seed: see `python -m tests.simulation.shares`.
SEEDS = 30
# With one of two safeguards in place there is nothing to find, and each seed costs a second or two.
SEEDS_IN_PLACE = 2

Plant = Callable[[pytest.MonkeyPatch], None]


def together(*each: Plant) -> Plant:
    def plant(patch: pytest.MonkeyPatch) -> None:
        for one in each:
            one(patch)

    return plant


@pytest.mark.parametrize(
    ("plant", "scenario"),
    [
        pytest.param(plants.used_links_not_listed, "gc-moves", id="used links"),
        pytest.param(plants.open_links_not_listed, "gc-moves", id="open links"),
        pytest.param(plants.copies_not_listed, "gc-race-moves", id="copies"),
        pytest.param(plants.stashes_not_listed, "gc-moves", id="stashes"),
        pytest.param(plants.compacted_trees_not_listed, "gc-compacted", id="compacted trees"),
        pytest.param(plants.shadowed_rows_not_listed, "gc-compacted", id="shadowed rows"),
        pytest.param(plants.one_mark_is_enough, "gc-readers", id="two marks"),
        pytest.param(plants.new_commits_chosen_by_date, "gc-slices", id="new commits by id"),
        pytest.param(
            plants.committed_addresses_ahead_forgotten,
            "gc-slices",
            id="committed addresses in unread slices",
        ),
        pytest.param(plants.ready_trees_not_read, "gc-race-trees", id="ready trees"),
        pytest.param(plants.nonces_protect_nothing, "gc-heads", id="nonces of files"),
        pytest.param(
            plants.refs_listed_before_commits_are_condemned, "gc-race-refs", id="condemn, then list"
        ),
        pytest.param(plants.refs_published_without_a_check, "gc-refs", id="publish, then check"),
        pytest.param(plants.condemned_commits_not_released, "gc-race-refs", id="release"),
        pytest.param(plants.commits_condemned_though_named, "gc-refs", id="tags"),
        pytest.param(plants.everything_without_rules_expires, "gc-leases", id="no rules"),
        pytest.param(plants.lease_not_checked_at_publish, "gc-leases", id="lease at publish"),
        pytest.param(job_plants.lease_not_asked_for, "gc-dumps", id="lease in a sweep"),
        pytest.param(
            job_plants.marks_not_discarded_by_a_restore, "gc-dumps", id="marks discarded by a restore"
        ),
        pytest.param(
            job_plants.compacted_trees_compared_by_identity,
            "gc-compacted",
            id="compacted trees by identity",
        ),
        pytest.param(job_plants.failed_listings_are_empty, "gc-unreadable", id="failed listings"),
        pytest.param(job_plants.failed_ranges_are_empty, "gc-unreadable", id="failed ranges"),
        pytest.param(job_plants.uploads_not_listed, "gc-manners", id="uploads"),
        pytest.param(job_plants.clocks_not_compared, "gc-manners", id="clocks"),
        pytest.param(job_plants.shares_not_counted, "gc-crashed-sweeps", id="share"),
        pytest.param(job_plants.late_links_taken, "gc-manners", id="late links"),
        pytest.param(job_plants.links_taken_twice, "gc-manners", id="links taken twice"),
        pytest.param(
            job_plants.deleted_before_it_is_put_aside, "gc-crashed-sweeps", id="copies before deletion"
        ),
        pytest.param(
            job_plants.copies_dropped_before_the_object_is_back,
            "gc-crashed-sweeps",
            id="object back before its copy goes",
        ),
        pytest.param(
            together(plants.store_listed_after_what_is_uncommitted, plants.young_objects_not_left_alone),
            "gc-moves",
            id="store before uncommitted",
        ),
    ],
)
def test_what_goes_wrong_without_a_safeguard_is_found(
    plant: Plant, scenario: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)

    with pytest.raises((AssertionError, CorruptError)):  # noqa: PT012  any of the seeds will do
        for seed in range(SEEDS):
            play(scenario, seed)


@pytest.mark.parametrize(
    ("plant", "companion", "scenario"),
    [
        # What is committed meanwhile leaves a retired layer behind, which is listed for a grace.
        pytest.param(
            job_plants.commits_listed_before_what_is_uncommitted,
            job_plants.retired_layers_not_listed,
            "gc",
            id="uncommitted before committed",
        ),
        # The slice says when the address was given out, the object when it was written: either is enough.
        pytest.param(
            job_plants.slices_that_are_being_written_to_listed,
            plants.young_objects_not_left_alone,
            "gc-pauses",
            id="slices that are being written to",
        ),
    ],
)
def test_of_two_safeguards_that_stand_for_each_other_one_is_needed(
    plant: Plant, companion: Plant, scenario: str
) -> None:
    for one in (plant, companion):
        with pytest.MonkeyPatch.context() as patch:
            one(patch)
            for seed in range(SEEDS_IN_PLACE):
                play(scenario, seed)

    with pytest.MonkeyPatch.context() as patch:
        together(plant, companion)(patch)
        with pytest.raises((AssertionError, CorruptError)):  # noqa: PT012  any of the seeds will do
            for seed in range(SEEDS):
                play(scenario, seed)


@pytest.mark.parametrize(
    ("fault", "rail", "scenario"),
    [
        pytest.param(
            job_plants.no_commit_told_to_be_live,
            job_plants.nothing_live_believed,
            "gc-slices",
            id="nothing live",
        ),
        pytest.param(
            job_plants.state_of_another_repository,
            job_plants.states_of_others_used,
            "gc-slices",
            id="another's state",
        ),
    ],
)
def test_a_rail_stops_what_would_go_wrong_elsewhere(
    fault: Plant, rail: Plant, scenario: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fault(monkeypatch)
    # Every run refuses, the last one too.
    with pytest.raises(PreconditionError):
        play(scenario, 0)

    rail(monkeypatch)
    with pytest.raises(AssertionError):  # noqa: PT012  any of the seeds will do
        for seed in range(SEEDS):
            play(scenario, seed)
