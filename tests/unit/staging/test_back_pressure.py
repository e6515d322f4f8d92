"""Writers by segment are told to wait like others, and one call is staged once though it is made twice at a time."""

import asyncio
from dataclasses import replace

import pytest

from lakebed.env.clock import Instant
from lakebed.errors import ErrorKind, UnavailableError
from lakebed.format.blocks import change_block
from lakebed.limits import SEALED_BYTES_SLOWDOWN
from lakebed.model.entries import Entry
from lakebed.model.ids import BranchName, Path
from lakebed.model.layers import SegmentLayer
from lakebed.staging.appending import SegmentUse
from lakebed.testing.lake import open_lake

MAIN = BranchName("main")


async def test_a_few_large_segments_make_writers_by_segment_wait_too() -> None:
    async with open_lake(staging_segments=SegmentUse.ALWAYS) as lake:
        await lake.put("main", a="1")
        branches = lake.engine.parts.branches

        def grown(current, _now):
            (layer,) = current.sealed
            assert isinstance(layer, SegmentLayer)
            return replace(current, sealed=(replace(layer, bytes=SEALED_BYTES_SLOWDOWN),))

        await branches.update(lake.repo, MAIN, grown, landed=lambda _current: False)

        with pytest.raises(UnavailableError) as refused:
            await lake.put("main", b="2")

        assert refused.value.kind is ErrorKind.TOO_MANY_LAYERS


async def test_a_call_that_is_handed_in_twice_at_once_is_one_layer() -> None:
    async with open_lake() as lake:
        staging = lake.engine.parts.staging
        entry = Entry(path=Path("a"), address="data/a", checksum="c", size_bytes=1, mtime=Instant(1))
        block = change_block([entry])

        await asyncio.gather(*(staging.hand_in(lake.repo, MAIN, block, call="one") for _ in range(3)))
        await staging.hand_in(lake.repo, MAIN, block, call="one")

        branch = (await lake.engine.parts.branches.get(lake.repo, MAIN)).value
        assert len(branch.sealed) == 1
