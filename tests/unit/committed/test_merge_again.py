"""A merge that is done again because HEAD has moved costs what has moved, not what it costs to do it all."""

from collections.abc import AsyncIterator

import pyarrow as pa
import pytest

from lakebed.committed import merge
from lakebed.committed.cache import RangeCache
from lakebed.committed.trees import MergedInto, Trees
from lakebed.env.clock import Instant
from lakebed.env.work import InlineWorkers
from lakebed.format.blocks import change_block, entry_block
from lakebed.format.cut import CutRule
from lakebed.model.entries import Entry
from lakebed.model.ids import EMPTY_TREE, Nonce, Path
from lakebed.objects.drivers.memory import MemoryObjects

MERGE = Nonce("the-merge")


def entry(number: int, checksum: str = "1") -> Entry:
    return Entry(
        path=Path(f"k{number:04}"), address=checksum, checksum=checksum, size_bytes=1, mtime=Instant(1)
    )


async def test_only_what_has_moved_is_merged_again(monkeypatch: pytest.MonkeyPatch) -> None:
    workers = InlineWorkers()
    trees = Trees(
        MemoryObjects(),
        RangeCache(None, workers=workers),
        workers,
        rule=CutRule(entries_expected=10, entries_max=20),
    )
    compared = 0
    original = merge.merge_blocks

    def merge_blocks(*blocks: pa.Table, **rest: object) -> object:
        nonlocal compared
        compared += sum(block.num_rows for block in blocks)
        return original(*blocks, **rest)

    monkeypatch.setattr(merge, "merge_blocks", merge_blocks)

    async def blocks() -> AsyncIterator[pa.Table]:
        yield entry_block([entry(number) for number in range(2000)])

    async def changed(tree, numbers, checksum):
        rows = change_block([entry(number, checksum) for number in numbers])
        return (await trees.apply(tree, rows, nonce=Nonce("a-commit"))).id

    base = (await trees.write(blocks(), nonce=Nonce("a-commit"))).id
    source = await changed(base, range(0, 2000, 4), "source")
    dest = await changed(base, range(1, 2000, 4), "dest")
    first = await trees.merge(base, source, dest, nonce=MERGE)
    whole, compared = compared, 0
    assert whole > 2000, "both sides have changed everything there is"

    moved = await changed(dest, [1001], "moved")
    again = await trees.merge(base, source, moved, earlier=MergedInto(dest=dest, merged=first), nonce=MERGE)

    assert 0 < compared < whole / 50
    assert again.counts == first.counts
    assert again.id != first.id != EMPTY_TREE
    found = await trees.lookup(again.id, "k1001")
    assert found is not None
    assert found.checksum == "moved"
