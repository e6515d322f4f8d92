"""Every scenario on a few seeds.

SEEDS=500 pytest tests/simulation                   more seeds of each scenario
SEED=123 pytest tests/simulation -k heads           one seed of one, as printed by a failure
python -m lakebed.testing.simulation heads --seed 123 --trace trace.txt     the same, with what happened
make simulate SEEDS=1000                            many of all, and how often everything worth meeting was met
"""

import os
from collections import Counter

import pytest

from lakebed.testing.simulation.run import play
from lakebed.testing.simulation.scenarios import SCENARIOS

# A few seconds each, and enough that each scenario reaches what it is about.
COUNTS = {
    "staging": 16,
    "segments": 16,
    "segment-conditions": 12,
    "slow-segments": 8,
    "compaction": 8,
    "compaction-races": 6,
    "compaction-faults": 5,
    "compaction-rest": 4,
    "compaction-restore": 5,
    "compaction-crowd": 4,
    "compaction-repositories": 6,
    "compaction-namesakes": 4,
    "compaction-heads": 4,
    "compaction-resets": 4,
    "compaction-stale": 4,
    "compaction-commits": 4,
    "heads": 16,
    "conditions": 8,
    "stashes": 30,
    "slow-stashes": 20,
    "branches": 30,
    "slow-readers": 15,
    "stand-stills": 14,
    "repositories": 20,
    "refs": 60,
    "refs-without-fences": 60,
}


def seeds(scenario: str) -> range:
    one, many = os.environ.get("SEED"), os.environ.get("SEEDS")  # noqa: TID251  how a person asks for more
    if one is not None:
        return range(int(one), int(one) + 1)
    return range(int(many) if many is not None else COUNTS[scenario])


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_the_engine_keeps_its_promises_whatever_befalls_it(scenario: str) -> None:
    met: Counter[str] = Counter()
    wanted = seeds(scenario)
    for seed in wanted:
        try:
            met += play(scenario, seed).met
        except Exception as error:
            error.add_note(
                f"replay: python -m lakebed.testing.simulation {scenario} --seed {seed} --trace FILE"
            )
            raise

    missed = [what for what in SCENARIOS[scenario].reaches if not met[what]]
    assert not missed or len(wanted) == 1, "the scenario never reached the interesting part"


def test_every_scenario_is_played() -> None:
    assert set(COUNTS) == set(SCENARIOS)
