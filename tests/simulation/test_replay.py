"""The same seed gives the same run: without that, a failure could not be looked at."""

import os
import subprocess
import sys

import pytest

from lakebed.testing.simulation.run import play


@pytest.mark.parametrize("scenario", ["heads", "stashes", "repositories", "refs-without-fences", "gc"])
def test_a_seed_gives_the_same_run_every_time(scenario: str) -> None:
    assert play(scenario, 1).digest == play(scenario, 1).digest


def test_another_seed_gives_another_run() -> None:
    assert play("refs", 1).digest != play("refs", 2).digest


def test_a_seed_gives_the_same_run_in_another_process() -> None:
    # Where the order of a set leaks into what is done, another hash seed shows it.
    command = [sys.executable, "-m", "lakebed.testing.simulation", "staging", "--seed", "1"]
    environment = {**os.environ, "PYTHONHASHSEED": "1"}  # noqa: TID251  the child needs it whole
    output = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout

    assert play("staging", 1).digest in output


def test_a_trace_says_what_happened_and_changes_nothing() -> None:
    lines: list[str] = []

    assert play("refs", 1, trace=lines).digest == play("refs", 1).digest
    assert any("create_branch" in line for line in lines)
