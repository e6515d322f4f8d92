"""Delete one chunk of what is marked. Order matters.

    1. aside    with a quarantine: every object is copied to where it can be restored from
    2. delete   in bulk; what is gone already is no error
    3. record   the chunk's list, under `deleted/`

Crash before 2: nothing is gone; the copies are made again, over themselves. In 2: the rest is deleted by
the next sweep, which begins the chunk again: copies of what is gone already stay as they are. Before 3: the
next sweep deletes nothing and records. 3 before 2 would leave objects that no sweep looks at again.
Runs wherever a store is at hand: beside the protocol, or on a Spark executor.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress

from lakebed.env.clock import Clock
from lakebed.errors import NotFoundError
from lakebed.format.gc import (
    CANDIDATES_FILE,
    Amount,
    DataFile,
    decode_table,
    deleted_key,
    encode_table,
    quarantined_key,
)
from lakebed.limits import DELETE_BATCH, GC_REQUESTS_AT_ONCE
from lakebed.spark.gc.ports import Store
from lakebed.spark.gc.together import together


async def sweep_chunk(
    store: Store,
    chunk: DataFile,
    *,
    aside: str,
    rate: float | None,
    clock: Clock,
    count: Callable[[int], None] = lambda _objects: None,
) -> Amount:
    """Delete what a chunk lists and record it; return what that was.

    `aside` is the run under whose quarantine the objects are kept, "" for none; `rate` are objects in a second.
    `count` hears of objects as they go.
    """
    table = decode_table(CANDIDATES_FILE, await store.get(chunk.key), rows=chunk.rows)
    addresses: list[str] = table.column("address").to_pylist()
    if aside:
        await put_aside(store, addresses, run=aside, count=count)

    async def delete(batch: Sequence[str]) -> None:
        await store.delete(batch)
        if not aside:  # Otherwise copying took its time, and was counted.
            count(len(batch))

    batches = [addresses[at : at + DELETE_BATCH] for at in range(0, len(addresses), DELETE_BATCH)]
    if rate is None:
        await together([delete(batch) for batch in batches], GC_REQUESTS_AT_ONCE)
    else:
        for batch in batches:
            await asyncio.gather(delete(batch), clock.sleep(len(batch) / rate))
    await store.put(deleted_key(chunk.key), encode_table(CANDIDATES_FILE, table))
    return Amount(table.num_rows, sum(table.column("size").to_pylist()))


async def put_aside(
    store: Store, addresses: Sequence[str], *, run: str, count: Callable[[int], None]
) -> None:
    """Copy objects to a run's quarantine; those that are gone were put aside before."""

    async def copy(address: str) -> None:
        with suppress(NotFoundError):
            await store.copy(address, quarantined_key(run, address))
        count(1)

    await together([copy(address) for address in addresses], GC_REQUESTS_AT_ONCE)
