"""How often each planted mistake is found.

    python -m tests.simulation.shares 0 100             in the seeds from 0 to 99
    python -m tests.simulation.shares 0 20 release      only of one plant, or of one scenario

A plant that few seeds find is lost with the next change of the engine, which moves every draw: aim at a fifth of them.
"""

import logging
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import Any, NamedTuple

import pytest
from tests.simulation import test_adoption_planted, test_gc_planted, test_planted, test_teeth

from lakebed.errors import CorruptError
from lakebed.telemetry import log
from lakebed.testing.simulation.run import play


class Case(NamedTuple):
    """One plant, and where it is looked for."""

    name: str
    plant: test_teeth.Plant
    scenario: str
    law: str = ""


def cases() -> Iterator[Case]:
    """Yield every plant of these tests."""
    for name, (plant, scenario) in _params(test_planted.test_a_planted_bug_is_found):
        yield Case(name, plant, scenario)
    together = test_gc_planted.together
    for name, (plant, scenario) in _params(test_gc_planted.test_what_goes_wrong_without_a_safeguard_is_found):
        yield Case(name, plant, scenario)
    for test in (
        test_gc_planted.test_of_two_safeguards_that_stand_for_each_other_one_is_needed,
        test_gc_planted.test_a_rail_stops_what_would_go_wrong_elsewhere,
    ):
        for name, (one, other, scenario) in _params(test):
            yield Case(name, together(one, other), scenario)
    for name, (plant, scenario, law) in _params(test_teeth.test_what_goes_wrong_without_a_safeguard_is_found):
        yield Case(name, plant, scenario, law)
    for name, (before, gone, part, scenario) in _params(
        test_teeth.test_a_part_of_the_guard_stands_behind_other_safeguards
    ):
        plant = test_teeth.together(before, test_teeth.without(*gone, part))
        yield Case(f"guard: {name}", plant, scenario, test_teeth.HIDDEN)
    for name, (plant,) in _params(test_adoption_planted.test_what_goes_wrong_without_a_safeguard_is_found):
        yield Case(name, plant, "adoption")


def _params(test: Any) -> Iterator[tuple[str, Any]]:
    (mark,) = (mark for mark in test.pytestmark if mark.name == "parametrize")
    for param in mark.args[1]:
        values = getattr(param, "values", None)
        if callable(values) or values is None:
            yield param[0].__name__, param
        else:
            yield param.id, values


def find(index: int, first: int, count: int) -> list[int]:
    """Return the seeds that find a plant."""
    log.configure(level=logging.CRITICAL)
    case = list(cases())[index]
    found = []
    for seed in range(first, first + count):
        with pytest.MonkeyPatch.context() as patch:
            case.plant(patch)
            try:
                play(case.scenario, seed)
            except (AssertionError, CorruptError) as error:
                if case.law in str(error):
                    found.append(seed)
    return found


def main(first: int, count: int, *words: str) -> None:
    """Print a line for each plant."""
    wanted = {
        index: case
        for index, case in enumerate(cases())
        if not words or case.name in words or case.scenario in words
    }
    with ProcessPoolExecutor(2) as pool:
        jobs = {index: pool.submit(find, index, first, count) for index in wanted}
        for index, case in wanted.items():
            found = jobs[index].result()
            gaps = [b - a for a, b in zip([first - 1, *found], [*found, first + count], strict=True)]
            sys.stdout.write(
                f"{case.name:45} {case.scenario:22} {len(found) / count:5.0%}  longest gap {max(gaps) - 1}\n"
            )
            sys.stdout.flush()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:])
