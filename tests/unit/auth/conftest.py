"""Fixtures named for the state they hold."""

import pytest

from tests.unit.auth.world import PAIR, World


@pytest.fixture
def world() -> World:
    """Nothing is set up."""
    return World()


@pytest.fixture
async def installed(world: World) -> World:
    """Set up: `admin` with the key pair `PAIR`."""
    await world.auth.setup.set_up("admin", pair=PAIR)
    return world
