"""Fixtures named for the state they hold."""

import pytest
from hypothesis import settings

settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci")


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"
