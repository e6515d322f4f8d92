"""`TreeReader`: metaranges and ranges of one namespace, through the cache.

A file that is damaged when it comes in is fetched once more, since the damage may
have happened on the way; then `CorruptError` names it.
"""

from collections import OrderedDict
from collections.abc import Callable
from functools import partial

import pyarrow as pa

from lakebed.committed.cache import Fetch, RangeCache
from lakebed.committed.names import metarange_key, range_key
from lakebed.committed.opened import OpenRange
from lakebed.committed.spans import Span
from lakebed.committed.tree import Tree
from lakebed.env.work import Workers
from lakebed.errors import CorruptError, ErrorKind, NotFoundError
from lakebed.format.blocks import empty_entries
from lakebed.format.metaranges import RangeInfo, decode_metarange, range_infos
from lakebed.format.ranges import decode_range
from lakebed.format.tree_names import hash_of
from lakebed.limits import OPEN_TREES_MAX
from lakebed.model.ids import EMPTY_TREE, MetarangeId
from lakebed.objects.port import ObjectStore
from lakebed.telemetry.log import get_logger

log = get_logger(__name__)


class TreeReader:
    """Opens trees and ranges.

    `scope` keeps repositories apart in the cache that they share: a tree id of one
    must not open what only another has.
    """

    def __init__(self, store: ObjectStore, cache: RangeCache, workers: Workers, *, scope: str) -> None:
        self._store = store
        self._cache = cache
        self._workers = workers
        self._suffix = f".{scope}" if scope else ""
        self._trees: OrderedDict[MetarangeId, Tree] = OrderedDict()

    def peek_tree(self, tree: MetarangeId) -> Tree | None:
        """Return a tree that is open already."""
        opened = self._trees.get(tree)
        if opened is not None:
            self._trees.move_to_end(tree)
        return opened

    async def tree(self, tree: MetarangeId) -> Tree:
        """Return the tree.

        Raises:
            CorruptError: its file is missing, damaged, or of a newer version.
        """
        opened = self.peek_tree(tree)
        if opened is not None:
            return opened
        ranges: tuple[RangeInfo, ...] = ()
        if tree != EMPTY_TREE:
            key = metarange_key(tree)
            decode = partial(decode_metarange, expected_hash=hash_of(tree))
            found = await self._cache.get(self.cached_name(tree), partial(self._fetch, key, decode))
            ranges = range_infos(found.block)
        opened = Tree(tree, ranges)
        self._trees[tree] = opened
        if len(self._trees) > OPEN_TREES_MAX:
            self._trees.popitem(last=False)
        return opened

    def peek(self, info: RangeInfo) -> OpenRange | None:
        """Return a range that is open already."""
        return self._cache.peek(self.cached_name(info.id))

    async def range(self, info: RangeInfo) -> OpenRange:
        """Return the range; errors as for `tree`."""
        key = range_key(info.id)
        decode = partial(decode_range, expected_hash=info.hash)
        return await self._cache.get(self.cached_name(info.id), partial(self._fetch, key, decode))

    async def rows(self, info: RangeInfo | None, span: Span) -> pa.Table:
        """Return the rows of a range that lie in a span."""
        if info is None:
            return empty_entries()
        opened = await self.range(info)
        return opened.block if span.holds(info) else opened.between(span.start, span.stop)

    async def count(self, info: RangeInfo | None, span: Span) -> int:
        """Return how many rows of a range lie in a span; reads it only if the metarange cannot tell."""
        if info is None:
            return 0
        return info.count if span.holds(info) else (await self.rows(info, span)).num_rows

    async def keep(self, name: str, table: pa.Table) -> None:
        """Put what was just written into the cache."""
        await self._cache.put(self.cached_name(name), table)

    async def remember(self, name: str, make: Fetch) -> OpenRange:
        """Return a table that was or is now computed from this namespace's files; see `RangeCache.remember`."""
        return await self._cache.remember(self.cached_name(name), make)

    def cached_name(self, name: str) -> str:
        return name + self._suffix

    async def _fetch(self, key: str, decode: Callable[[bytes], pa.Table]) -> pa.Table:
        data = await self._get(key)
        try:
            return await self._workers.run(decode, data)
        except CorruptError as error:
            if error.kind is ErrorKind.NEWER_VERSION:
                raise _naming(key, error) from error
            log.warning("file_damaged", file=key, error=str(error))
        data = await self._get(key)
        try:
            return await self._workers.run(decode, data)
        except CorruptError as error:
            raise _naming(key, error) from error

    async def _get(self, key: str) -> bytes:
        try:
            return await self._store.get(key)
        except NotFoundError as error:
            raise CorruptError(
                ErrorKind.FILE_MISSING, f"{key} is missing from the namespace: restore it from a backup"
            ) from error


def _naming(key: str, error: CorruptError) -> CorruptError:
    return CorruptError(error.kind, f"{key}: {error}")
