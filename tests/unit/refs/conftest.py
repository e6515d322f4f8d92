"""Every test of refs runs on a store with fences and on one without."""

import pytest

from lakebed.model.repository import Repository
from tests.unit.refs.world import World, bare_repo


@pytest.fixture(params=[True, False], ids=["fences", "no-fences"])
def world(request: pytest.FixtureRequest) -> World:
    return World(fences=request.param)


@pytest.fixture
def repo() -> Repository:
    return bare_repo()
