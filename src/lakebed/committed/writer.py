"""`TreeWriter`: pieces to files. Order matters.

    1. ranges      several at a time, each under a name nobody else uses
    2. metarange   once all of its ranges are stored

Crash after 1: ranges that nothing names, protected by the operation's nonce while
it may still be alive, and collected after that. 2 before 1 would let a reader
find a tree with holes.

A name holds the hash of the rows and the operation's nonce: meeting one's own
name again (an operation that is retried) means the same content is there already.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Sequence
from contextlib import aclosing

import pyarrow as pa

from lakebed.committed.names import metarange_key, range_key
from lakebed.committed.pieces import Piece, cut_pieces
from lakebed.committed.pipeline import in_order
from lakebed.committed.reader import TreeReader
from lakebed.committed.tree import Tree
from lakebed.env.work import Workers
from lakebed.errors import AlreadyExistsError
from lakebed.format.cut import CutRule
from lakebed.format.hashing import range_hash
from lakebed.format.metaranges import RangeInfo, encode_metarange, metarange_block, metarange_hash
from lakebed.format.ranges import encode_range
from lakebed.format.tree_names import tree_file_name
from lakebed.limits import RANGE_WRITES_AHEAD
from lakebed.model.ids import EMPTY_TREE, MetarangeId, Nonce, RangeId
from lakebed.objects.port import ObjectStore, PutMode


class TreeWriter:
    """Makes trees of pieces."""

    def __init__(self, store: ObjectStore, reader: TreeReader, workers: Workers, *, rule: CutRule) -> None:
        self._store = store
        self._reader = reader
        self._workers = workers
        self._rule = rule

    async def build(
        self, pieces: AsyncGenerator[Piece, None], *, nonce: Nonce, known: Sequence[Tree] = ()
    ) -> Tree:
        """Store the tree made of `pieces` and return it.

        Rows that a tree of `known` has as a range already, and a whole tree that is
        one of them, are not stored again; the first of `known` is preferred.
        """
        stored = {r.hash: r for tree in reversed(known) for r in tree.ranges}

        async def write(found: RangeInfo | pa.Table) -> RangeInfo:
            return found if isinstance(found, RangeInfo) else await self._write_range(found, nonce, stored)

        cut = cut_pieces(pieces, rule=self._rule, read=self._read, workers=self._workers)
        async with aclosing(in_order(cut, write, ahead=RANGE_WRITES_AHEAD)) as written:
            ranges = tuple([info async for info in written])
        for tree in known:
            if tree.ranges == ranges:
                return tree
        return Tree(await self._write_metarange(ranges, nonce), ranges)

    async def _read(self, info: RangeInfo) -> pa.Table:
        return (await self._reader.range(info)).block

    async def _write_range(self, block: pa.Table, nonce: Nonce, stored: dict[str, RangeInfo]) -> RangeInfo:
        # Hashing and encoding take about as long, and neither needs the other.
        encoding = asyncio.ensure_future(self._workers.run(encode_range, block))
        try:
            digest = await self._workers.run(range_hash, block)
            if digest in stored:
                return stored[digest]
            name = RangeId(tree_file_name(digest, nonce))
            size, _ = await asyncio.gather(
                self._put_encoded(range_key(name), encoding), self._reader.keep(name, block)
            )
        finally:
            encoding.cancel()
        keys = block.column("key")
        return RangeInfo(
            id=name,
            hash=digest,
            min_key=keys[0].as_py(),
            max_key=keys[-1].as_py(),
            count=block.num_rows,
            bytes=size,
        )

    async def _put_encoded(self, key: str, encoding: Awaitable[bytes]) -> int:
        data = await encoding
        await self._put(key, data)
        return len(data)

    async def _write_metarange(self, ranges: Sequence[RangeInfo], nonce: Nonce) -> MetarangeId:
        if not ranges:
            return EMPTY_TREE
        block = metarange_block(ranges)
        data = await self._workers.run(encode_metarange, block)
        name = MetarangeId(tree_file_name(metarange_hash(block), nonce))
        await asyncio.gather(self._put(metarange_key(name), data), self._reader.keep(name, block))
        return name

    async def _put(self, key: str, data: bytes) -> None:
        try:
            await self._store.put(key, data, when=PutMode.CREATE)
        except AlreadyExistsError:
            # Ours, from an earlier attempt of this operation: hash and nonce are in the key.
            return
