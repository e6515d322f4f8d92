"""Merge of sorted runs of change blocks, a block at a time.

Only fetching the next block of a run is awaited; which write counts is decided
by `newest_wins` on whole blocks.
"""

from collections.abc import AsyncGenerator, Sequence

import pyarrow as pa

from lakebed.format.merge import newest_wins
from lakebed.format.search import count_up_to


async def merge_runs(runs: Sequence[AsyncGenerator[pa.Table, None]]) -> AsyncGenerator[pa.Table, None]:
    """Yield the change blocks of `runs`, newest run first, as one run with each key once. Tombstones are kept.

    The runs are closed with it.

    A step takes from every run the keys up to the smallest last key of the blocks at
    hand: beyond it, a run whose next block is not there yet could still have a say.
    """
    try:
        if len(runs) == 1:
            async for block in runs[0]:
                yield block
            return
        heads: list[pa.Table | None] = [await anext(run, None) for run in runs]
        while any(head is not None for head in heads):
            bound = min(head.column("key")[-1].as_py() for head in heads if head is not None)
            parts = []
            for index, head in enumerate(heads):
                if head is None:
                    continue
                taken = count_up_to(head, bound)
                parts.append(head.slice(0, taken))
                heads[index] = head.slice(taken) if taken < head.num_rows else await anext(runs[index], None)
            yield newest_wins([part for part in parts if part.num_rows])
    finally:
        for run in runs:
            await run.aclose()
