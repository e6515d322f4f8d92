"""`TokenFilters`: which paths a sealed token may hold, without asking the database.

Rows of a sealed token never change, so its keys are read once, in the background, for a branch that is being read and has
many layers. What a filter says stays true when the token is dropped: a reader of a record that names it sees what it held.

A token without its `open` row tells nothing: it may never have been written to, or be on its way out.
"""

from collections import OrderedDict

import numpy as np
import pyarrow as pa

from lakebed.env.work import Workers
from lakebed.format.bloom import Bloom, bloom_of
from lakebed.format.cut import Words, key_hashes
from lakebed.format.rows import OPEN_KEY, ROW_PREFIX
from lakebed.kv.port import KVStore, prefix_end
from lakebed.limits import TOKEN_FILTER_ROWS_MAX, TOKEN_FILTERS_MAX
from lakebed.model.ids import StagingToken

# Read in the background: a page must not hold up those who wait for an answer.
_PAGE_ROWS = 2_000


class TokenFilters:
    """The filters of sealed tokens, those learned last."""

    def __init__(self, kv: KVStore, workers: Workers) -> None:
        self._kv = kv
        self._workers = workers
        self._kept: OrderedDict[StagingToken, Bloom | None] = OrderedDict()
        self.learned = 0
        """How many there were so far: it tells whether there are others than before."""

    def find(self, token: StagingToken) -> Bloom | None:
        """Return the filter of a sealed token, if it was learned."""
        return self._kept.get(token)

    async def learn(self, token: StagingToken) -> None:
        """Read the keys of a sealed token, unless that was done or it has too many."""
        if token in self._kept:
            return
        hashes: list[Words] = []
        rows = 0
        end = prefix_end(ROW_PREFIX)
        async for page in self._kv.scan(token, start=ROW_PREFIX, end=end, page_items_max=_PAGE_ROWS):
            rows += len(page)
            if rows > TOKEN_FILTER_ROWS_MAX:
                self._keep(token, None)
                return
            hashes.append(await self._workers.run(_hashes, page.keys))
        # Asked after the rows were read: still open now means that nothing had been dropped before.
        if await self._kv.get(token, OPEN_KEY) is not None:
            self._keep(token, bloom_of(np.concatenate([np.zeros(0, np.uint64), *hashes])))

    def _keep(self, token: StagingToken, bloom: Bloom | None) -> None:
        self._kept[token] = bloom
        self.learned += bloom is not None
        if len(self._kept) > TOKEN_FILTERS_MAX:
            self._kept.popitem(last=False)


def _hashes(keys: list[bytes]) -> Words:
    return key_hashes(pa.array([key[len(ROW_PREFIX) :].decode() for key in keys], pa.string()))
