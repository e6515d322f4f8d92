"""A few of the kills of `tests.server.kills`, which is run a hundred times before a release: `make kills`."""

from pathlib import Path

import pytest

from tests.server.kills import VICTIMS, run

pytestmark = pytest.mark.server


def test_kill_9_of_each_kind_of_process_under_load_loses_and_revives_nothing(tmp_path: Path) -> None:
    assert run(tmp_path, list(VICTIMS), seed=1) > 10
