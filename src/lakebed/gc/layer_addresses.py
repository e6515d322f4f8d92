"""Every address in one layer or tree, shadowed or not, a block at a time and without an object per entry.

A layer that has left its branch is read as long as it is there. Gone is not empty: whoever meets a layer that was
dropped reads the record again that named it (see `staging.reader`).
"""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.errors import ConflictError, CorruptError, ErrorKind, NotFoundError
from lakebed.format.gc import UncommittedSource
from lakebed.format.rows import OPEN_KEY, ROW_PREFIX, decode_addresses
from lakebed.kv.port import Page, prefix_end
from lakebed.model.branch import Branch, BranchRecord
from lakebed.model.ids import EMPTY_TREE, MetarangeId
from lakebed.model.layers import Layer, SegmentLayer, TokenLayer, layer_name
from lakebed.model.repository import Repository
from lakebed.staging.record import layers_of
from lakebed.versioning.parts import Parts

_ROWS_END = prefix_end(ROW_PREFIX)


class GoneError(ConflictError):
    """A layer or tree is not there any more: read again the record that named it."""

    def __init__(self, what: str) -> None:
        super().__init__(ErrorKind.VERSION_CHANGED, f"{what} was dropped while it was being read")


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A block with the columns `address` and `mtime`, and where to go on behind it."""

    block: pa.Table
    next_at: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerSource:
    """A layer, and what the addresses in it are called."""

    layer: Layer
    label: UncommittedSource


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeSource:
    """A tree without the ranges that it shares with `base`, whose addresses are committed."""

    tree: MetarangeId
    base: MetarangeId
    label: UncommittedSource = UncommittedSource.COMPACTED


Source = LayerSource | TreeSource


def sources_of(record: BranchRecord, base: MetarangeId) -> list[Source]:
    """Return everything uncommitted that a branch record names; `base` is the tree of the branch's commit."""
    found: list[Source] = []
    trees = [retired.tree for retired in record.retired_trees]
    if isinstance(record, Branch):
        found += [LayerSource(layer=layer, label=_label(layer)) for layer in layers_of(record)]
        trees += [record.compacted] if record.compacted is not None else []
    found += [LayerSource(layer=retired.layer, label=UncommittedSource.RETIRED) for retired in record.retired]
    return found + [TreeSource(tree=tree, base=base) for tree in trees]


class LayerAddresses:
    """Reads the addresses of layers and trees."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    async def read(self, repo: Repository, source: Source, *, at: bytes = b"") -> AsyncGenerator[Found, None]:
        """Yield the addresses of a source, from `at` on.

        Raises:
            GoneError: it was dropped, or nothing was ever written to it.
            CorruptError: a row or a file is damaged.
        """
        if isinstance(source, TreeSource):
            blocks = self._tree(repo, source, at)
        elif isinstance(source.layer, TokenLayer):
            blocks = self._token(source.layer, at)
        else:
            blocks = self._segment(repo, source.layer)
        async with aclosing(blocks):
            async for found in blocks:
                yield found

    async def _token(self, layer: TokenLayer, at: bytes) -> AsyncGenerator[Found, None]:
        kv = self._parts.kv
        async for page in kv.scan(layer.token, start=at or ROW_PREFIX, end=_ROWS_END):
            await self._require_open(layer)
            block = await self._parts.workers.run(_decode_page, page)
            yield Found(block=block, next_at=page.last_key + b"\0")
        await self._require_open(layer)

    async def _require_open(self, layer: TokenLayer) -> None:
        # Asked after the rows were read: still open now means that nothing had been dropped before.
        if await self._parts.kv.get(layer.token, OPEN_KEY) is None:
            raise GoneError(layer_name(layer))

    async def _segment(self, repo: Repository, layer: SegmentLayer) -> AsyncGenerator[Found, None]:
        try:
            opened = await self._parts.segments.open(repo, layer)
        except NotFoundError as error:
            raise GoneError(layer_name(layer)) from error
        changes = opened.between(b"", None)
        kept = changes.select(["address", "mtime"]).filter(pc.invert(changes.column("deleted")))
        yield Found(block=kept, next_at=b"")

    async def _tree(self, repo: Repository, source: TreeSource, at: bytes) -> AsyncGenerator[Found, None]:
        trees = await self._parts.trees_of(repo)
        try:
            # By hash, which covers addresses: equal content may well lie at another address.
            shared = (
                {info.hash for info in await trees.ranges(source.base)}
                if source.base != EMPTY_TREE
                else frozenset()
            )
            ranges = await trees.ranges(source.tree)
            for number in range(int(at or b"0"), len(ranges)):
                if ranges[number].hash in shared:
                    continue
                block = await trees.range(ranges[number])
                yield Found(block=block.select(["address", "mtime"]), next_at=b"%d" % (number + 1))
        except CorruptError as error:
            if error.kind is ErrorKind.FILE_MISSING:
                raise GoneError(f"tree {source.tree}") from error
            raise


def _decode_page(page: Page) -> pa.Table:
    _, values = page.spans()
    return decode_addresses(values)


def _label(layer: Layer) -> UncommittedSource:
    return UncommittedSource.ROW if isinstance(layer, TokenLayer) else UncommittedSource.SEGMENT
