"""Verify a repository: everything that its refs lead to is there, and is what it says it is.

It writes nothing but a pin, and is safe beside a running server. The order makes it so:

    1. pin        what leaves a branch from here on is kept until the end, however long it takes
    2. refs       branches, tags, stashes, then commits
    3. trees      every distinct metarange and range that those reach, read from the store, past every cache
    4. staged     the rows of every layer
    5. objects    the folders that all of those name, listed; then joined with what they name

What is listed comes after what is named, because an object is stored before anything
names it. A layer that was dropped meanwhile has become part of a commit or was thrown
away, so it is left out.

Every file and every object is looked at once, however many commits share it.
"""

from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.committed.names import metarange_key, range_key
from lakebed.committed.pipeline import in_order
from lakebed.env.work import Workers
from lakebed.errors import CorruptError, ErrorKind, LakebedError, NotFoundError
from lakebed.format.blocks import empty_changes
from lakebed.format.columns import column
from lakebed.format.merge import without_tombstones
from lakebed.format.metaranges import RangeInfo, decode_metarange, range_infos
from lakebed.format.ranges import decode_range
from lakebed.format.records import decode_branch
from lakebed.format.rows import OPEN_KEY, ROW_PREFIX, decode_rows
from lakebed.format.segments import decode_dataset, decode_footer
from lakebed.format.tree_names import hash_of
from lakebed.kv.port import KVStore, Page, prefix_end
from lakebed.limits import RANGES_AHEAD, SCAN_PAGE_ITEMS
from lakebed.model.branch import Branch
from lakebed.model.ids import RangeId
from lakebed.model.layers import SegmentLayer, TokenLayer
from lakebed.model.repository import Repository
from lakebed.model.segments import segment_key
from lakebed.objects.external import ExternalAddresses
from lakebed.objects.port import ObjectStore
from lakebed.refs.keys import branch_key
from lakebed.refs.pins import Held, Pins
from lakebed.staging.record import names_layer
from lakebed.versioning.findings import FindingKind, Progress, Report, Verified, finding
from lakebed.versioning.object_check import ObjectCheck
from lakebed.versioning.reachable import Reachable, ReachedTree, StagedLayer, find_reachable
from lakebed.versioning.references import References

A = TypeVar("A")


@dataclass(frozen=True, slots=True)
class _ReachedRange:
    info: RangeInfo
    where: str
    with_objects: bool


@dataclass(slots=True, kw_only=True)
class Verifier:
    """Looks through one repository, once."""

    kv: KVStore
    pins: Pins
    repo: Repository
    store: ObjectStore
    external: ExternalAddresses
    workers: Workers
    temp: Path
    report: Report
    progress: Progress = field(default=lambda _what, _done, _total: None)
    done: Verified = field(default_factory=Verified)
    _held: Held | None = field(default=None, init=False)

    async def run(self, *, data: bool = False) -> Verified:
        """Report everything that is wrong; with `data`, also of the bytes of objects.

        Raises:
            UnavailableError: it was held up for so long that what it would find missing may have been let go.
        """
        async with AsyncExitStack() as stack:
            try:
                self._held = await stack.enter_async_context(self.pins.held(self.repo, "lakebed verify"))
            except LakebedError:
                # A database that takes no writes is what this may have been called for; nothing is let go there either.
                self._held = None
            return await self._run(data=data)

    async def _run(self, *, data: bool) -> Verified:
        reached = await find_reachable(self.kv, self.repo, self.report)
        self.done.branches, self.done.tags, self.done.commits = (
            reached.branches,
            reached.tags,
            reached.commits,
        )
        with TemporaryDirectory(prefix="verify-", dir=self.temp) as folder, References(Path(folder)) as named:
            await self._check_ranges(await self._check_trees(reached), named)
            for layer in reached.layers:
                await self._check_layer(layer, named)
            objects = ObjectCheck(
                store=self.store,
                external=self.external,
                workers=self.workers,
                report=self.report,
                progress=self.progress,
                done=self.done,
            )
            await objects.list_folders(named)
            self._require_pin()
            await objects.check(named, data=data)
        return self.done

    async def _check_trees(self, reached: Reachable) -> dict[RangeId, _ReachedRange]:
        """Read every metarange, and return the ranges that they list."""
        found: dict[RangeId, _ReachedRange] = {}
        total = len(reached.trees)

        async def read(tree: ReachedTree) -> tuple[ReachedTree, pa.Table | None]:
            decode = partial(decode_metarange, expected_hash=hash_of(tree.id))
            kinds = (FindingKind.METARANGE_MISSING, FindingKind.METARANGE_DAMAGED)
            return tree, await self._read(metarange_key(tree.id), tree.where, decode, kinds)

        async for tree, block in in_order(_each(reached.trees.values()), read, ahead=RANGES_AHEAD):
            self._require_pin()
            self.done.trees += 1
            self.progress("trees", self.done.trees, total)
            for info in range_infos(block) if block is not None else ():
                known = found.get(info.id)
                if known is None or (tree.with_objects and not known.with_objects):
                    found[info.id] = _ReachedRange(info, tree.where, tree.with_objects)
        return found

    async def _check_ranges(self, ranges: dict[RangeId, _ReachedRange], named: References) -> None:
        async def read(reached: _ReachedRange) -> tuple[_ReachedRange, pa.Table | None]:
            kinds = (FindingKind.RANGE_MISSING, FindingKind.RANGE_DAMAGED)
            decode = partial(_decode_listed, reached.info)
            return reached, await self._read(range_key(reached.info.id), reached.where, decode, kinds)

        async for reached, block in in_order(_each(ranges.values()), read, ahead=RANGES_AHEAD):
            self._require_pin()
            self.done.ranges += 1
            self.progress("ranges", self.done.ranges, len(ranges))
            if block is not None and reached.with_objects:
                await self.workers.run(named.name, block, reached.where)

    async def _check_layer(self, staged: StagedLayer, named: References) -> None:
        self._require_pin()
        match staged.layer:
            case TokenLayer():
                await self._check_token(staged, staged.layer, named)
            case SegmentLayer():
                await self._check_segment(staged, staged.layer, named)

    async def _check_token(self, staged: StagedLayer, layer: TokenLayer, named: References) -> None:
        """Read the rows of a layer. One that was dropped on the way is somebody's commit by now."""
        rows, held = 0, list[Page]()
        async for page in self.kv.scan(layer.token, start=ROW_PREFIX, end=prefix_end(ROW_PREFIX)):
            held.append(page)
            if sum(map(len, held)) >= SCAN_PAGE_ITEMS:
                rows += await self._check_rows(held, staged, named)
                held = []
        rows += await self._check_rows(held, staged, named)
        if rows and await self.kv.get(layer.token, OPEN_KEY) is None and await self._is_named(staged):
            what = f"rows of {layer.token} are being dropped although the branch still shows them"
            self.report(finding(FindingKind.ROWS_DAMAGED, staged.where, what))

    async def _check_segment(self, staged: StagedLayer, layer: SegmentLayer, named: References) -> None:
        key = segment_key(layer.id)
        if await self.store.head(key) is None and staged.branch is not None:
            # Either it is lost, or the layer has left the branch and the file has been swept.
            if await self._is_named(staged):
                self.report(
                    finding(FindingKind.SEGMENT_MISSING, staged.where, f"{key} is not in the storage")
                )
            return
        kinds = (FindingKind.SEGMENT_MISSING, FindingKind.SEGMENT_DAMAGED)
        block = await self._read(key, staged.where, partial(_decode_layer, layer), kinds)
        if block is None:
            return
        self.done.staged += block.num_rows
        self.progress("staged changes", self.done.staged, None)
        await self.workers.run(named.name, without_tombstones(block), staged.where)

    async def _check_rows(self, pages: list[Page], staged: StagedLayer, named: References) -> int:
        rows = sum(map(len, pages))
        self.done.staged += rows
        self.progress("staged changes", self.done.staged, None)
        try:
            entries = await self.workers.run(_decode_entries, pages)
        except CorruptError as error:
            self.report(finding(FindingKind.ROWS_DAMAGED, staged.where, str(error)))
        else:
            await self.workers.run(named.name, entries, staged.where)
        return rows

    def _require_pin(self) -> None:
        if self._held is not None:
            self._held.require()

    async def _is_named(self, staged: StagedLayer) -> bool:
        if staged.branch is None:
            return False
        item = await self.kv.get(self.repo.partition, branch_key(staged.branch))
        record = decode_branch(item.value) if item is not None else None
        return isinstance(record, Branch) and names_layer(record, staged.layer)

    async def _read(
        self,
        key: str,
        where: str,
        decode: Callable[[bytes], pa.Table],
        kinds: tuple[FindingKind, FindingKind],
    ) -> pa.Table | None:
        """Return a file's table, or report what is wrong with it: missing, or damaged."""
        missing, damaged = kinds
        try:
            return await self.workers.run(decode, await self.store.get(key))
        except NotFoundError:
            self.report(finding(missing, where, f"{key} is not in the storage"))
        except CorruptError as error:
            self.report(finding(damaged, where, f"{key}: {error}"))
        except LakebedError as error:
            self.report(finding(FindingKind.UNREADABLE, where, f"{key}: {error}"))
        return None


def _decode_listed(info: RangeInfo, data: bytes) -> pa.Table:
    """Return the rows of a range that is what its metarange says.

    Raises:
        CorruptError: it is not.
    """
    block = decode_range(data, expected_hash=info.hash)
    keys = column(block, "key")
    said = (info.count, info.min_key, info.max_key, info.bytes)
    found = (len(keys), keys[0].as_py(), keys[-1].as_py(), len(data))
    if said != found:
        raise CorruptError(ErrorKind.UNREADABLE, f"its metarange says {said}, the file has {found}")
    return block


def _decode_layer(layer: SegmentLayer, data: bytes) -> pa.Table:
    """Return the changes of a layer that is what its branch says; `CorruptError` if it is not."""
    footer = decode_footer(data, size=len(data))
    dataset = footer.datasets.get(layer.dataset)
    if dataset is not None and dataset.layer(layer.id, seq=layer.seq) != layer:
        raise CorruptError(ErrorKind.UNREADABLE, f"the branch says {layer}, the file has {dataset}")
    start, stop = (dataset.start, dataset.stop) if dataset is not None else (0, 0)
    return decode_dataset(footer, layer.dataset, data[start:stop])


def _decode_entries(pages: list[Page]) -> pa.Table:
    """Return the staged rows that are no tombstones: those name nothing."""
    block = pa.concat_tables([empty_changes(), *(decode_rows(*page.spans()) for page in pages)])
    return block.filter(pc.invert(block.column("deleted")))


async def _each(items: Iterable[A]) -> AsyncGenerator[A, None]:
    for item in items:
        yield item
