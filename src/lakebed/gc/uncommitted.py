"""`prepare_uncommitted`: every address that something uncommitted may refer to, a page at a time. Order matters.

    1. branches   each from one record: rows of its staging token, sealed and retired layers, shadowed or not; ranges of
                  compacted and retired trees that its commit does not share
    2. stashes    after the branches: what is stashed leaves a branch, what is popped stays in its record for a grace
    3. links      addresses given out, open or used less than a grace ago
    4. uploads    in parts, open or completed less than a grace ago
    5. copies     after everything they may copy from

An address moves from one place to another only along these: staged, then stashed; given out, then linked; copied, then
deleted at its source. The place it leaves is read before the place it may go to, or remembers it for a grace after; so
an address in use is met at least once, if all is read within half a grace. Commits are listed later still: what is
committed meanwhile was staged here.

Nothing is left out in silence: whatever cannot be read is an error, and then there is no page. A page is written under
the name of its try. A try that was given up may still be writing, and must not replace a longer page by a shorter one.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.env.clock import SECOND, Instant, after
from lakebed.errors import ConflictError, CorruptError, ErrorKind
from lakebed.format.gc import UNCOMMITTED_FILE, UncommittedSource, encode_table, uncommitted_key
from lakebed.format.links import decode_link
from lakebed.format.part_uploads import decode_part_upload
from lakebed.format.records import decode_branch, decode_copy, decode_stash
from lakebed.gc.cursor import Cursor, Stage
from lakebed.gc.layer_addresses import (
    GoneError,
    LayerAddresses,
    LayerSource,
    Source,
    TreeSource,
    sources_of,
)
from lakebed.kv.port import Item
from lakebed.limits import (
    COPY_LIFETIME_SECONDS,
    GC_PAGE_ROWS,
    GC_PAGE_SECONDS,
    SWAP_ATTEMPTS_MAX,
)
from lakebed.model.branch import Branch, BranchRecord
from lakebed.model.ids import EMPTY_TREE, MetarangeId
from lakebed.model.layers import TokenLayer
from lakebed.model.part_uploads import PartUploadState
from lakebed.model.repository import Repository
from lakebed.model.stash import Stash, StashState
from lakebed.objects.port import ObjectStore
from lakebed.refs.keys import (
    BRANCHES_PREFIX,
    COPIES_PREFIX,
    LINKS_PREFIX,
    STASHES_PREFIX,
    UPLOADS_PREFIX,
    branch_key,
    copy_address,
    link_address,
)
from lakebed.refs.pins import Pins
from lakebed.refs.scans import scan_records
from lakebed.versioning.parts import Parts

_STAGES = tuple(Stage)


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedPage:
    """A page: its key, how many addresses it has, and where the next one begins; None if it is the last."""

    run: str
    key: str
    rows: int
    following: Cursor | None


@dataclass(frozen=True, slots=True)
class _Step:
    """A block of addresses, and where to go on behind it; None where a page must not end."""

    block: pa.Table | None
    label: UncommittedSource
    cursor: Cursor | None


class UncommittedLists:
    """Prepares pages of uncommitted addresses."""

    def __init__(
        self,
        parts: Parts,
        store_of: Callable[[Repository], Awaitable[ObjectStore]],
        *,
        page_rows: int = GC_PAGE_ROWS,
    ) -> None:
        self._parts = parts
        self._store_of = store_of
        self._layers = LayerAddresses(parts)
        self._page_rows = page_rows
        self._pins = Pins(parts.kv, clock=parts.clock, ids=parts.ids)

    async def page(self, repo: Repository, cursor: Cursor) -> PreparedPage:
        """Write one page.

        Raises:
            ConflictError: `TOO_LATE`: reading all of it takes too long to be one picture.
            CorruptError: something cannot be read.
        """
        await self._require_soon(cursor)
        async with self._pins.held(repo, "the listing of what is uncommitted") as held:
            prepared = await self._page(repo, cursor)
            held.require()
        await self._require_soon(cursor)
        return prepared

    async def _page(self, repo: Repository, cursor: Cursor) -> PreparedPage:
        begun = self._parts.clock.monotonic()
        blocks: list[pa.Table] = []
        rows = 0
        following: Cursor | None = None
        async with aclosing(self._steps(repo, cursor)) as steps:
            async for step in steps:
                if step.block is not None and step.block.num_rows:
                    blocks.append(await self._parts.workers.run(_labelled, step.block, step.label))
                    rows += blocks[-1].num_rows
                full = rows >= self._page_rows or self._parts.clock.monotonic() - begun > GC_PAGE_SECONDS
                if full and step.cursor is not None:
                    following = msgspec.structs.replace(step.cursor, page=cursor.page + 1)
                    break
        data = await self._parts.workers.run(_encode, blocks)
        key = uncommitted_key(cursor.run, cursor.page, self._parts.ids.token())
        await (await self._store_of(repo)).put(key, data)
        return PreparedPage(run=cursor.run, key=key, rows=rows, following=following)

    async def _require_soon(self, cursor: Cursor) -> None:
        seconds = self._parts.lifetimes.listing_seconds
        if await self._parts.kv.now() > after(cursor.started_at, seconds):
            raise ConflictError(
                ErrorKind.TOO_LATE,
                f"listing what is uncommitted took longer than {seconds:.0f} s, and what was read first may be out of date: "
                "run again, and if that does not help, commit or compact first, or raise grace_seconds",
            )

    async def _steps(self, repo: Repository, cursor: Cursor) -> AsyncGenerator[_Step, None]:
        for stage in _STAGES[_STAGES.index(cursor.stage) :]:
            if stage is not cursor.stage:
                cursor = Cursor(run=cursor.run, started_at=cursor.started_at, stage=stage)
            async with aclosing(self._stage(repo, cursor)) as steps:
                async for step in steps:
                    yield step

    def _stage(self, repo: Repository, cursor: Cursor) -> AsyncGenerator[_Step, None]:
        match cursor.stage:
            case Stage.BRANCHES:
                return self._branches(repo, cursor)
            case Stage.STASHES:
                return self._stashes(repo, cursor)
            case Stage.LINKS:
                return self._records(repo, cursor, LINKS_PREFIX, UncommittedSource.LINK, self._link)
            case Stage.UPLOADS:
                return self._records(repo, cursor, UPLOADS_PREFIX, UncommittedSource.UPLOAD, self._upload)
            case Stage.COPIES:
                return self._records(repo, cursor, COPIES_PREFIX, UncommittedSource.COPY, _copy)
            case Stage.DONE:
                return _nothing()

    async def _branches(self, repo: Repository, cursor: Cursor) -> AsyncGenerator[_Step, None]:
        if cursor.record:
            record = decode_branch(cursor.record)
            async with aclosing(self._branch(repo, record, cursor)) as steps:
                async for step in steps:
                    yield step
            cursor = _behind(cursor, record.name)
        async for items in scan_records(self._parts.kv, repo.partition, BRANCHES_PREFIX, after=cursor.after):
            for item in items:
                record = decode_branch(item.value)
                here = msgspec.structs.replace(cursor, record=item.value)
                async with aclosing(self._branch(repo, record, here)) as steps:
                    async for step in steps:
                        yield step
                cursor = _behind(cursor, record.name)

    async def _branch(
        self, repo: Repository, record: BranchRecord, cursor: Cursor
    ) -> AsyncGenerator[_Step, None]:
        """Yield what a branch has; if a layer that is not read yet was dropped, all of it again from the record of then."""
        for _ in range(SWAP_ATTEMPTS_MAX):
            try:
                async with aclosing(self._sources(repo, record, cursor)) as steps:
                    async for step in steps:
                        yield step
            except GoneError:
                item = await self._parts.kv.get(repo.partition, branch_key(record.name))
                if item is None:
                    return
                record = decode_branch(item.value)
                cursor = msgspec.structs.replace(cursor, record=item.value, source=0, at=b"")
            else:
                return
        raise ConflictError(
            ErrorKind.TOO_MANY_RETRIES, f"layers of {record.name} go faster than they can be read: try again"
        )

    async def _sources(
        self, repo: Repository, record: BranchRecord, cursor: Cursor
    ) -> AsyncGenerator[_Step, None]:
        sources = sources_of(record, await self._base_of(repo, record))
        at = cursor.at
        for number in range(cursor.source, len(sources)):
            source = sources[number]
            async with aclosing(self._source(repo, record, source, at)) as blocks:
                async for found, next_at in blocks:
                    here = msgspec.structs.replace(cursor, source=number, at=next_at)
                    if not next_at:
                        here = msgspec.structs.replace(here, source=number + 1)
                    yield _Step(found, source.label, here)
            at = b""
        yield _Step(None, UncommittedSource.ROW, _behind(cursor, record.name))

    async def _base_of(self, repo: Repository, record: BranchRecord) -> MetarangeId:
        """Return the tree whose ranges are listed as committed: for what a deleted branch has left, the default branch's."""
        if isinstance(record, Branch):
            return await self._parts.base_tree(repo, record)
        if not record.retired_trees:
            return EMPTY_TREE
        item = await self._parts.kv.get(repo.partition, branch_key(repo.default_branch))
        default = decode_branch(item.value) if item is not None else None
        return await self._parts.base_tree(repo, default) if isinstance(default, Branch) else EMPTY_TREE

    async def _source(
        self, repo: Repository, record: BranchRecord, source: Source, at: bytes
    ) -> AsyncGenerator[tuple[pa.Table, bytes], None]:
        """Yield the blocks of a layer or tree. One that the branch still names has none if it has no rows yet, or none any
        more: it was retired for longer than a grace.
        """
        empty = True
        try:
            async with aclosing(self._layers.read(repo, source, at=at)) as blocks:
                async for found in blocks:
                    empty = False
                    yield found.block, found.next_at
        except GoneError as error:
            item = await self._parts.kv.get(repo.partition, branch_key(record.name))
            if item is None or source not in sources_of(decode_branch(item.value), _base(source)):
                raise
            is_token = isinstance(source, LayerSource) and isinstance(source.layer, TokenLayer)
            # The cleaner drops a retired token when its grace is over, also where its record has not let it go yet.
            is_over = is_token and source.label is UncommittedSource.RETIRED
            if not is_over and not (is_token and empty and not at):
                raise CorruptError(
                    ErrorKind.FILE_MISSING, f"{error}, and branch {record.name} still names it"
                ) from error

    async def _stashes(self, repo: Repository, cursor: Cursor) -> AsyncGenerator[_Step, None]:
        async for items in scan_records(self._parts.kv, repo.partition, STASHES_PREFIX, after=cursor.after):
            for item in items:
                stash = decode_stash(item.value)
                async with aclosing(self._stash(repo, stash, item)) as blocks:
                    async for block in blocks:
                        yield _Step(block, UncommittedSource.STASH, None)
                cursor = _behind(cursor, stash.id)
                yield _Step(None, UncommittedSource.STASH, cursor)

    async def _stash(self, repo: Repository, stash: Stash, item: Item) -> AsyncGenerator[pa.Table, None]:
        for layer in stash.layers:
            source = LayerSource(layer=layer, label=UncommittedSource.STASH)
            try:
                async with aclosing(self._layers.read(repo, source)) as blocks:
                    async for found in blocks:
                        yield found.block
            except GoneError:
                await self._require_over(repo, item)
                return

    async def _require_over(self, repo: Repository, item: Item) -> None:
        """Raise unless the stash has nothing: it never got rows, or it was dropped, or popped longer than a grace ago."""
        current = await self._parts.kv.get(repo.partition, item.key)
        if current is None:
            return
        stash = decode_stash(current.value)
        if stash.state in (StashState.STANDING, StashState.POPPING):
            raise CorruptError(ErrorKind.FILE_MISSING, f"what stash {stash.id} holds is not there")

    def _link(self, item: Item, started_at: Instant) -> str | None:
        """Return an address that was given out, used or not, unless its token expired longer than a grace ago.

        A link claims the token before it stages its entry, which may take a while.
        """
        token = decode_link(item.value)
        return link_address(item.key) if self._within_grace(token.expires_at, started_at) else None

    def _upload(self, item: Item, started_at: Instant) -> str | None:
        """Return where an upload in parts goes, unless it was aborted, or completed longer than a grace ago."""
        upload = decode_part_upload(item.value)
        match upload.state:
            case PartUploadState.OPEN | PartUploadState.COMPLETING | PartUploadState.STAGING:
                return upload.address
            case PartUploadState.COMPLETED if self._within_grace(upload.completed_at, started_at):
                return upload.address
            case _:
                return None

    def _within_grace(self, at: Instant, started_at: Instant) -> bool:
        return after(at, self._parts.lifetimes.grace_seconds) >= started_at

    async def _records(
        self,
        repo: Repository,
        cursor: Cursor,
        folder: bytes,
        label: UncommittedSource,
        address_of: Callable[[Item, Instant], str | None],
    ) -> AsyncGenerator[_Step, None]:
        async for items in scan_records(self._parts.kv, repo.partition, folder, after=cursor.after):
            addresses = [address_of(item, cursor.started_at) for item in items]
            block = pa.table(
                {
                    "address": pa.array([each for each in addresses if each], pa.string()),
                    "mtime": pa.array([cursor.started_at] * sum(map(bool, addresses)), pa.int64()),
                }
            )
            cursor = _behind(cursor, items[-1].key[len(folder) :].decode())
            yield _Step(block, label, cursor)


async def _nothing() -> AsyncGenerator[_Step, None]:
    nothing: tuple[_Step, ...] = ()
    for step in nothing:
        yield step


def _behind(cursor: Cursor, name: str) -> Cursor:
    return msgspec.structs.replace(cursor, after=name, record=b"", source=0, at=b"")


def _base(source: Source) -> MetarangeId:
    return source.base if isinstance(source, TreeSource) else EMPTY_TREE


def _copy(item: Item, started_at: Instant) -> str | None:
    """Return the address of an object that has got another path lately."""
    made_at = decode_copy(item.value)
    return copy_address(item.key) if after(made_at, COPY_LIFETIME_SECONDS) >= started_at else None


def _labelled(block: pa.Table, label: UncommittedSource) -> pa.Table:
    """Return the addresses inside the namespace as rows of a page."""
    inside = block.filter(pc.invert(pc.match_substring(block.column("address"), "://")))
    return pa.table(
        [
            inside.column("address"),
            pc.divide(inside.column("mtime"), pa.scalar(SECOND, pa.int64())),
            pa.repeat(pa.scalar(label.value, pa.string()), inside.num_rows),
        ],
        schema=UNCOMMITTED_FILE.schema,
    )


def _encode(blocks: list[pa.Table]) -> bytes:
    return encode_table(UNCOMMITTED_FILE, pa.concat_tables([UNCOMMITTED_FILE.schema.empty_table(), *blocks]))
