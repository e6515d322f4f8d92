"""`SegmentFiles`: segments of every repository, read and written through the cache of ranges.

A dataset is cached like a range, decoded and mapped, under the hash of its rows. A small
one comes with one request, which also brings the footer; of a large one the footer is fetched first, because its Bloom
filter mostly says that the rest is not needed. Footers are kept in memory, up to a number of bytes.

A file that is damaged when it comes in is fetched once more, since the damage may have happened on the way.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from functools import partial

import pyarrow as pa

from lakebed.committed.cache import RangeCache
from lakebed.committed.opened import OpenRange
from lakebed.env.work import Workers
from lakebed.errors import AlreadyExistsError, CorruptError, ErrorKind, NotFoundError
from lakebed.format.bloom import Bloom
from lakebed.format.segments import (
    SegmentFooter,
    decode_dataset,
    decode_footer,
    encode_segment,
    footer_bytes,
)
from lakebed.limits import (
    SEGMENT_CACHED_BYTES_MIN,
    SEGMENT_FOOTER_BYTES,
    SEGMENT_FOOTERS_BYTES_MAX,
    SEGMENT_WHOLE_BYTES,
)
from lakebed.model.ids import RepoUid
from lakebed.model.layers import SegmentLayer
from lakebed.model.repository import Repository
from lakebed.model.segments import cached_dataset, segment_key
from lakebed.objects.port import ByteRange, ObjectStore, PutMode
from lakebed.telemetry.log import get_logger

log = get_logger(__name__)


class SegmentFiles:
    """Reads and writes segments; see `staging.port.Segments` for the contract."""

    def __init__(
        self,
        store_of: Callable[[Repository], Awaitable[ObjectStore]],
        cache: RangeCache,
        workers: Workers,
        *,
        footers_bytes_max: int = SEGMENT_FOOTERS_BYTES_MAX,
    ) -> None:
        self._store_of = store_of
        self._cache = cache
        self._workers = workers
        self._footers = _Footers(footers_bytes_max)

    def rules_out(self, repo: Repository, layer: SegmentLayer, key_hash: int) -> bool:
        bloom = self.bloom(repo, layer)
        return bloom is not None and not bloom.may_hold(key_hash)

    def bloom(self, repo: Repository, layer: SegmentLayer) -> Bloom | None:
        footer = self._footers.find(repo.uid, layer.id)
        dataset = footer.datasets.get(layer.dataset) if footer is not None else None
        return dataset.bloom if dataset is not None else None

    def peek(self, repo: Repository, layer: SegmentLayer) -> OpenRange | None:
        return self._cache.peek(_cached_name(repo, layer))

    async def learn(self, repo: Repository, layer: SegmentLayer) -> None:
        if layer.bytes >= SEGMENT_WHOLE_BYTES:
            await self._footer(repo, layer)

    async def open(self, repo: Repository, layer: SegmentLayer) -> OpenRange:
        return await self._cache.get(_cached_name(repo, layer), partial(self._fetch, repo, layer))

    async def write(self, repo: Repository, segment_id: str, dataset: str, changes: pa.Table) -> SegmentLayer:
        return (await self.write_all(repo, segment_id, {dataset: changes}))[dataset]

    async def write_all(
        self, repo: Repository, segment_id: str, datasets: Mapping[str, pa.Table]
    ) -> dict[str, SegmentLayer]:
        data, footer = await self._workers.run(_encode, datasets)
        layers = {name: footer.datasets[name].layer(segment_id, seq=0) for name in datasets}
        store = await self._store_of(repo)
        await asyncio.gather(
            _put(store, segment_key(segment_id), data),
            *(self._keep(repo, layer, datasets[name]) for name, layer in layers.items()),
        )
        self._footers.keep(repo.uid, segment_id, footer)
        return layers

    async def _keep(self, repo: Repository, layer: SegmentLayer, changes: pa.Table) -> None:
        """Keep what was written, so that its writer fetches nothing."""
        name, table = _cached_name(repo, layer), changes.combine_chunks()
        if table.nbytes < SEGMENT_CACHED_BYTES_MIN:
            self._cache.keep(name, table)
        else:
            await self._cache.put(name, table)

    async def _fetch(self, repo: Repository, layer: SegmentLayer) -> pa.Table:
        try:
            return await self._fetch_once(repo, layer)
        except CorruptError as error:
            if error.kind is ErrorKind.NEWER_VERSION:
                raise _naming(layer, error) from error
            log.warning("file_damaged", file=segment_key(layer.id), error=str(error))
            self._footers.drop(repo.uid, layer.id)
        try:
            return await self._fetch_once(repo, layer)
        except CorruptError as error:
            raise _naming(layer, error) from error

    async def _fetch_once(self, repo: Repository, layer: SegmentLayer) -> pa.Table:
        store = await self._store_of(repo)
        footer = self._footers.find(repo.uid, layer.id)
        if footer is None and layer.bytes < SEGMENT_WHOLE_BYTES:
            data = await store.get(segment_key(layer.id), byte_range=ByteRange(0, SEGMENT_WHOLE_BYTES))
            if len(data) < SEGMENT_WHOLE_BYTES:
                footer = self._footers.keep(repo.uid, layer.id, decode_footer(data, size=len(data)))
                return await self._workers.run(_decode_whole, footer, layer, data)
        if footer is None:
            footer = await self._footer(repo, layer)
        dataset = footer.datasets.get(layer.dataset)
        if dataset is None or dataset.hash != layer.hash:
            raise _other_rows(layer)
        data = await store.get(segment_key(layer.id), byte_range=ByteRange(dataset.start, dataset.stop))
        return await self._workers.run(decode_dataset, footer, layer.dataset, data)

    async def _footer(self, repo: Repository, layer: SegmentLayer) -> SegmentFooter:
        found = self._footers.find(repo.uid, layer.id)
        if found is not None:
            return found
        store, key = await self._store_of(repo), segment_key(layer.id)
        info = await store.head(key)
        if info is None:
            raise NotFoundError(ErrorKind.KEY_NOT_FOUND, f"{key} is not in the storage")
        size = info.size_bytes
        tail = await store.get(key, byte_range=ByteRange(max(0, size - SEGMENT_FOOTER_BYTES)))
        needed = footer_bytes(tail)
        if needed > len(tail):
            tail = await store.get(key, byte_range=ByteRange(max(0, size - needed)))
        footer = await self._workers.run(decode_footer, tail, size=size)
        return self._footers.keep(repo.uid, layer.id, footer)


class _Footers:
    """The footers used last, up to a number of bytes."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._bytes = 0
        self._kept: OrderedDict[tuple[RepoUid, str], SegmentFooter] = OrderedDict()

    def find(self, repo: RepoUid, segment_id: str) -> SegmentFooter | None:
        footer = self._kept.get((repo, segment_id))
        if footer is not None:
            self._kept.move_to_end((repo, segment_id))
        return footer

    def keep(self, repo: RepoUid, segment_id: str, footer: SegmentFooter) -> SegmentFooter:
        self.drop(repo, segment_id)
        self._kept[repo, segment_id] = footer
        self._bytes += len(footer.tail)
        while self._bytes > self._bytes_max and len(self._kept) > 1:
            self.drop(*next(iter(self._kept)))
        return footer

    def drop(self, repo: RepoUid, segment_id: str) -> None:
        footer = self._kept.pop((repo, segment_id), None)
        if footer is not None:
            self._bytes -= len(footer.tail)


async def _put(store: ObjectStore, key: str, data: bytes) -> None:
    try:
        await store.put(key, data, when=PutMode.CREATE)
    except AlreadyExistsError:
        # Ours: a try of the same upload whose reply was lost. The id is drawn for it alone.
        return


def _encode(datasets: Mapping[str, pa.Table]) -> tuple[bytes, SegmentFooter]:
    data = encode_segment(datasets)
    return data, decode_footer(data, size=len(data))


def _decode_whole(footer: SegmentFooter, layer: SegmentLayer, data: bytes) -> pa.Table:
    dataset = footer.datasets.get(layer.dataset)
    if dataset is None or dataset.hash != layer.hash:
        raise _other_rows(layer)
    return decode_dataset(footer, layer.dataset, data[dataset.start : dataset.stop])


def _cached_name(repo: Repository, layer: SegmentLayer) -> str:
    # Repositories share the cache: the layer of one must not open what only another has.
    return f"{cached_dataset(layer)}.{repo.uid}"


def _other_rows(layer: SegmentLayer) -> CorruptError:
    return CorruptError(
        ErrorKind.CHECKSUM_MISMATCH, f"the branch lists other rows of dataset {layer.dataset!r} than it has"
    )


def _naming(layer: SegmentLayer, error: CorruptError) -> CorruptError:
    return CorruptError(error.kind, f"{segment_key(layer.id)}: {error}")
