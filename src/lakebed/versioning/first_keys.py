"""The first path that a branch shows from some path on: what folding a listing asks once for each folder.

Beginning the merged stream for a single key costs a hundred times as much as this,
which compares the next key of the tree with the next staged ones. What was read is
kept: folders come in key order, and mostly the next one lies in the same rows.
"""

from contextlib import aclosing

from lakebed.committed.trees import Trees
from lakebed.model.branch import Branch
from lakebed.model.ids import MetarangeId
from lakebed.model.repository import Repository
from lakebed.staging.reader import LayerReader, StagedKeys
from lakebed.versioning.paging import BlockKeys, Scan, successor

# Staged rows read at a time: few, for one that stays is mostly among them, and more with each window of deleted ones.
_ROWS = 8
_ROWS_MAX = 128
# Beyond so many deleted paths in a row, whole blocks are cheaper than single keys.
_TOMBSTONES_MAX = 256


class FirstKeys:
    """A `Peek` at one branch record; `scan` begins the stream that it stands for."""

    def __init__(
        self,
        repo: Repository,
        branch: Branch,
        tree: MetarangeId,
        *,
        prefix: str,
        trees: Trees,
        reader: LayerReader,
        scan: Scan,
    ) -> None:
        self._repo = repo
        self._branch = branch
        self._tree = tree
        self._prefix = prefix
        self._trees = trees
        self._reader = reader
        self._scan = scan
        self._keys: BlockKeys | None = None
        self._staged: StagedKeys | None = None

    async def __call__(self, start: str) -> str | None:
        """Return the first path from `start` on, or None."""
        cursor, seen, rows = max(start, self._prefix), 0, _ROWS
        below = await self._in_tree(cursor)
        while seen < _TOMBSTONES_MAX:
            staged = await self._in_layers(cursor, rows)
            for path, deleted in staged.after(cursor):
                if below is not None and below < path:
                    return below
                if not deleted:
                    return path
                seen += 1
                if below == path:
                    below = await self._in_tree(successor(path))
            if staged.stop is None or (below is not None and below < staged.stop):
                return below
            cursor, rows = staged.stop, min(rows * 4, _ROWS_MAX)
        return await self._in_blocks(cursor)

    async def _in_tree(self, start: str) -> str | None:
        """Return the tree's first key from `start` on."""
        key = start.encode()
        if self._keys is not None and self._keys[0] <= key <= self._keys[self._keys.rows - 1]:
            return self._keys[self._keys.position(key)].decode()
        async with aclosing(self._trees.scan(self._tree, start=start, prefix=self._prefix)) as blocks:
            block = await anext(blocks, None)
        if block is None:
            return None
        self._keys = BlockKeys(block)
        return self._keys[0].decode()

    async def _in_layers(self, start: str, rows: int) -> StagedKeys:
        """Return staged paths, among them the first ones from `start` on."""
        if self._staged is None or not self._staged.covers(start):
            self._staged = await self._reader.keys(
                self._repo, self._branch, start=start, prefix=self._prefix, rows=rows
            )
        return self._staged

    async def _in_blocks(self, start: str) -> str | None:
        async with aclosing(self._scan(start)) as blocks:
            async for block in blocks:
                if block.num_rows:
                    return BlockKeys(block)[0].decode()
        return None
