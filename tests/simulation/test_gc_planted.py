"""Every safeguard of garbage collection is needed: taken out, the simulation finds what goes wrong within a few seeds.

Some stand behind others: while one of two is in place nothing goes wrong, so they are taken out together.
"""

from collections.abc import Callable

import pytest
from tests.simulation import gc_plants as plants

from lakebed.errors import CorruptError
from lakebed.testing.simulation.run import play

SEEDS = 15

Plant = Callable[[pytest.MonkeyPatch], None]


def together(*each: Plant) -> Plant:
    def plant(patch: pytest.MonkeyPatch) -> None:
        for one in each:
            one(patch)

    return plant


@pytest.mark.parametrize(
    ("plant", "scenario", "first"),
    [
        pytest.param(plants.used_links_not_listed, "gc-moves", 0, id="used links"),
        pytest.param(plants.open_links_not_listed, "gc-moves", 0, id="open links"),
        pytest.param(plants.copies_not_listed, "gc-copies", 18, id="copies"),
        pytest.param(plants.stashes_not_listed, "gc-moves", 0, id="stashes"),
        pytest.param(plants.compacted_trees_not_listed, "gc", 0, id="compacted trees"),
        pytest.param(plants.shadowed_rows_not_listed, "gc", 0, id="shadowed rows"),
        pytest.param(plants.one_mark_is_enough, "gc-readers", 0, id="two marks"),
        pytest.param(plants.new_commits_chosen_by_date, "gc", 0, id="new commits by id"),
        pytest.param(
            plants.committed_addresses_ahead_forgotten,
            "gc-slices",
            2,
            id="committed addresses in unread slices",
        ),
        pytest.param(plants.nonces_protect_nothing, "gc-heads", 0, id="nonces of files"),
        pytest.param(plants.refs_listed_before_commits_are_condemned, "gc-refs", 1, id="condemn, then list"),
        pytest.param(plants.refs_published_without_a_check, "gc-refs", 0, id="publish, then check"),
        pytest.param(plants.condemned_commits_not_released, "gc-refs", 7, id="release"),
        pytest.param(plants.commits_condemned_though_named, "gc-refs", 0, id="tags"),
        pytest.param(plants.everything_without_rules_expires, "gc-leases", 0, id="no rules"),
        pytest.param(plants.lease_not_checked_at_publish, "gc-leases", 6, id="lease at publish"),
        pytest.param(
            together(plants.store_listed_after_what_is_uncommitted, plants.young_objects_not_left_alone),
            "gc-moves",
            0,
            id="store before uncommitted",
        ),
    ],
)
def test_what_goes_wrong_without_a_safeguard_is_found(
    plant: Plant, scenario: str, first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)

    with pytest.raises((AssertionError, CorruptError)):  # noqa: PT012  any of the seeds will do
        for seed in range(first, first + SEEDS):
            play(scenario, seed)
