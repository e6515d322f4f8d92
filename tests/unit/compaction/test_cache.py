import pytest
from tests.unit.format.test_segments import CHANGES, MAIN

from lakebed.committed.cache import RangeCache
from lakebed.env.work import InlineWorkers
from lakebed.format.blocks import block_changes
from lakebed.format.segments import decode_footer, encode_segment
from lakebed.model.segments import cached_dataset

DATA = encode_segment({"i": MAIN})
LAYER = decode_footer(DATA, size=len(DATA)).datasets["i"].layer("00000001-n", seq=1)


async def never():
    pytest.fail("it is in the folder")


async def test_a_dataset_is_mapped_by_other_processes_like_a_range(tmp_path):
    await RangeCache(tmp_path, workers=InlineWorkers()).put(cached_dataset(LAYER), MAIN)

    found = await RangeCache(tmp_path, workers=InlineWorkers()).get(cached_dataset(LAYER), never)
    assert block_changes(found.block) == CHANGES
