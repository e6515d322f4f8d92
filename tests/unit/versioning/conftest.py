"""A whole engine in memory with an empty repository."""

from collections.abc import AsyncIterator

import pytest

from lakebed.testing.lake import Lake, open_lake


@pytest.fixture
async def lake() -> AsyncIterator[Lake]:
    async with open_lake() as lake:
        yield lake
