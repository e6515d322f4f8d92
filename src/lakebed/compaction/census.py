"""`Census`: how much lies in tokens, whose layers carry no statistics.

A sealed token never changes, so it is counted once and remembered. Counts are lost when a process
ends and when there are too many; that costs another count, never a wrong decision.
"""

from collections.abc import AsyncGenerator, Iterable

from lakebed.compaction.load import Load, Loads
from lakebed.env.work import Workers
from lakebed.format.rows import ROW_PREFIX, count_tombstones
from lakebed.kv.port import KVStore, Page, prefix_end
from lakebed.limits import (
    COMPACTION_COUNTED_ROWS,
    COMPACTION_COUNTED_TOKENS,
    COMPACTION_COUNTS_MAX,
    SCAN_PAGE_ITEMS,
)
from lakebed.model.ids import StagingToken

_ROWS_END = prefix_end(ROW_PREFIX)


class Census:
    """Counts tokens, a bounded number of rows at a time."""

    def __init__(self, kv: KVStore, workers: Workers, *, counts_max: int = COMPACTION_COUNTS_MAX) -> None:
        self._kv = kv
        self._workers = workers
        self._counts_max = counts_max
        self._known: dict[StagingToken, Load] = {}

    async def of_sealed(
        self,
        tokens: Iterable[StagingToken],
        *,
        rows_max: int = COMPACTION_COUNTED_ROWS,
        tokens_max: int = COMPACTION_COUNTED_TOKENS,
    ) -> dict[StagingToken, Load]:
        """Return what is known of the tokens, after counting so many, or until `rows_max` rows were met.

        One that is not there is counted by a later call; until then it counts nothing.
        """
        found: dict[StagingToken, Load] = {}
        for token in tokens:
            load = self._known.pop(token, None)
            if load is None and (rows_max <= 0 or tokens_max <= 0):
                continue
            if load is None:
                load = await self.count(token)
                rows_max -= load.rows
                tokens_max -= 1
            # What was asked for last is forgotten last.
            self._known[token] = found[token] = load
        while len(self._known) > self._counts_max:
            del self._known[next(iter(self._known))]
        return found

    def known(self) -> Loads:
        """Return what is remembered."""
        return self._known

    async def count(self, token: StagingToken, *, rows_max: int | None = None) -> Load:
        """Return how much lies in a token now, as far as so many rows."""
        total = Load()
        page_items = min(rows_max or SCAN_PAGE_ITEMS, SCAN_PAGE_ITEMS)
        pages = self._kv.scan(token, start=ROW_PREFIX, end=_ROWS_END, page_items_max=page_items)
        async for page in pages:
            total += await self._workers.run(_load_of, page)
            if rows_max is not None and total.rows >= rows_max:
                break
        if isinstance(pages, AsyncGenerator):
            # Left half-way it would be closed by the garbage collector, in a task of its own.
            await pages.aclose()
        return total


def _load_of(page: Page) -> Load:
    keys, values = page.spans()
    tombstones = count_tombstones(values)
    return Load(
        entries=len(values) - tombstones,
        tombstones=tombstones,
        bytes=int(keys.lengths.sum()) + int(values.lengths.sum()),
    )
