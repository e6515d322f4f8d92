"""Rows that arrive in any order, as one sorted stream of entry blocks, in bounded memory.

Rows are sorted in runs; all but the last go to a temporary folder, and the
stream is the merge of the runs. Where a key came twice, the later row counts.
"""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path

import polars as pl
import pyarrow as pa

from lakebed.env.work import Workers
from lakebed.format.blocks import CHANGE_SCHEMA, ENTRY_SCHEMA
from lakebed.format.merge import as_changes, without_tombstones
from lakebed.staging.runs import merge_runs

# One run: about 300 MB of rows with paths and addresses of ordinary length.
RUN_ROWS = 1_000_000
_BLOCK_ROWS = 50_000


class SortedRows:
    """Collects entry blocks, then yields them sorted. `folder` must exist and is the caller's to remove."""

    def __init__(self, folder: Path, workers: Workers, *, run_rows: int = RUN_ROWS) -> None:
        self._folder = folder
        self._workers = workers
        self._run_rows = run_rows
        self._loose: list[pa.Table] = []
        self._loose_rows = 0
        self._runs: list[Path] = []

    async def add(self, block: pa.Table) -> None:
        """Take rows in any order."""
        self._loose.append(block)
        self._loose_rows += block.num_rows
        if self._loose_rows >= self._run_rows:
            run = await self._workers.run(_sort, self._take())
            path = self._folder / f"run-{len(self._runs):06d}.arrow"
            await self._workers.run(_write_run, run, path)
            self._runs.append(path)

    async def blocks(self) -> AsyncGenerator[pa.Table, None]:
        """Yield everything taken so far, sorted, each key once."""
        last = await self._workers.run(_sort, self._take())
        runs = [_slices(last), *(_read_run(path) for path in reversed(self._runs))]
        async with aclosing(merge_runs(runs)) as blocks:
            async for block in blocks:
                yield without_tombstones(block)

    def _take(self) -> list[pa.Table]:
        loose, self._loose, self._loose_rows = self._loose, [], 0
        return loose


def _sort(blocks: list[pa.Table]) -> pa.Table:
    table = pa.concat_tables(blocks) if blocks else ENTRY_SCHEMA.empty_table()
    frame = pl.from_arrow(table)
    assert isinstance(frame, pl.DataFrame), "a table becomes a frame"
    ordered = frame.sort("key", maintain_order=True).unique("key", keep="last", maintain_order=True)
    rows = ordered.to_arrow().cast(ENTRY_SCHEMA).combine_chunks()
    return as_changes(rows)


def _write_run(run: pa.Table, path: Path) -> None:
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, run.schema) as writer:
        writer.write_table(run, max_chunksize=_BLOCK_ROWS)


async def _slices(run: pa.Table) -> AsyncGenerator[pa.Table, None]:
    for start in range(0, run.num_rows, _BLOCK_ROWS):
        yield run.slice(start, _BLOCK_ROWS)


async def _read_run(path: Path) -> AsyncGenerator[pa.Table, None]:
    with pa.memory_map(str(path)) as source:
        reader = pa.ipc.open_file(source)
        for index in range(reader.num_record_batches):
            yield pa.Table.from_batches([reader.get_batch(index)], schema=CHANGE_SCHEMA)
