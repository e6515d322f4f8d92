"""A whole engine in memory with an empty repository."""

from collections.abc import AsyncIterator

import pytest

from lakebed.staging.appending import SegmentUse
from lakebed.testing.lake import Lake, open_lake


@pytest.fixture(params=SegmentUse)
async def lake(request: pytest.FixtureRequest) -> AsyncIterator[Lake]:
    async with open_lake(staging_segments=request.param) as lake:
        yield lake
