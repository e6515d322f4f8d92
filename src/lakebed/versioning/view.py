"""What a ref shows: the tree of a commit, and for a branch what is staged above it.

Reading is a merge of sorted runs, newest first; the tree is the oldest of them.
A page costs what it returns: blocks are slices of mapped files, a common prefix
costs one seek however many objects it holds, and staged rows are read a page at
a time.
"""

from collections.abc import AsyncGenerator
from contextlib import aclosing

import msgspec
import pyarrow as pa

from lakebed.committed.trees import Trees
from lakebed.errors import CorruptError, ErrorKind, LakebedError, NotFoundError, UnavailableError
from lakebed.format.blocks import ENTRY_SCHEMA
from lakebed.format.merge import as_changes, newest_wins, without_tombstones
from lakebed.format.search import count_up_to
from lakebed.limits import SCAN_PAGE_ITEMS, SWAP_ATTEMPTS_MAX
from lakebed.model.branch import Branch
from lakebed.model.entries import Entry
from lakebed.model.ids import CommitId, MetarangeId, Path
from lakebed.model.repository import Repository
from lakebed.refs.resolve import ResolvedRef
from lakebed.staging.reader import LayersMovedError
from lakebed.staging.record import layers_of
from lakebed.versioning.first_keys import FirstKeys
from lakebed.versioning.paging import BlockPage, Peek, Scan, flat_page, folded_page, successor
from lakebed.versioning.parts import Parts

# Rows of the tree that are looked at together with what is staged between them: a page, then more and more.
_PIECE_GROWTH = 4


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """What to read: a tree, and the branch record above it unless only what is committed counts."""

    tree: MetarangeId
    branch: Branch | None = None
    commit: CommitId | None = None
    """The commit whose tree it is, if that was asked for."""


class View:
    """Point reads and listings."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    async def source(self, repo: Repository, branch: Branch) -> Source:
        """Return what a plain branch ref shows."""
        tree = branch.compacted
        if tree is None:
            tree = await self._parts.base_tree(repo, branch)
        return Source(tree=tree, branch=branch)

    async def of(self, repo: Repository, resolved: ResolvedRef) -> Source:
        """Return what a reader of a resolved ref sees."""
        if resolved.staged and resolved.record is not None:
            return await self.source(repo, resolved.record.value)
        commit = await self._parts.commits.get(repo, resolved.commit_id)
        return Source(tree=commit.tree, commit=resolved.commit_id)

    async def stat(self, repo: Repository, source: Source, path: Path) -> Entry:
        """Return the entry of `path`, or raise `NotFoundError` (`OBJECT_NOT_FOUND`)."""
        entry = await self.find(repo, source, path)
        if entry is None:
            raise NotFoundError(ErrorKind.OBJECT_NOT_FOUND, f"object {path!r} not found")
        return entry

    async def find(self, repo: Repository, source: Source, path: Path) -> Entry | None:
        """Return the entry of `path`, or None."""
        if source.branch is not None:
            read, staged = await self._parts.staging.reader.lookup(repo, source.branch, path)
            if staged is not None:
                return staged.change if isinstance(staged.change, Entry) else None
            if read is not source.branch:
                source = await self.source(repo, read)
        trees = await self._parts.trees_of(repo)
        try:
            return await trees.lookup(source.tree, path)
        except CorruptError as error:
            raise await self._explained(repo, source, error) from error

    async def list(
        self,
        repo: Repository,
        source: Source,
        *,
        prefix: str = "",
        after: str = "",
        delimiter: str = "",
        amount: int,
    ) -> BlockPage:
        """Return up to `amount` entries and common prefixes greater than `after`."""
        for _ in range(SWAP_ATTEMPTS_MAX):
            scan = self._scan_from(repo, source, prefix=prefix, first_page=amount + 1)
            try:
                if delimiter:
                    return await folded_page(
                        scan,
                        ENTRY_SCHEMA,
                        prefix=prefix,
                        after=after,
                        delimiter=delimiter,
                        amount=amount,
                        peek=await self._first_keys(repo, source, prefix, scan),
                    )
                return await flat_page(scan, ENTRY_SCHEMA, after=after, amount=amount)
            except LayersMovedError:
                assert source.branch is not None, "only layers can move"
                moved = await self._parts.branches.get(repo, source.branch.name)
                source = await self.source(repo, moved.value)
        raise UnavailableError(
            ErrorKind.STORE_UNAVAILABLE, "layers go faster than they can be read: try again"
        )

    async def scan(
        self, repo: Repository, source: Source, *, start: str = "", prefix: str = "", first_page: int = 1000
    ) -> AsyncGenerator[pa.Table, None]:
        """Yield everything from `start` on as entry blocks in key order."""
        trees = await self._parts.trees_of(repo)
        if source.branch is None or not layers_of(source.branch):
            try:
                async with aclosing(trees.scan(source.tree, start=start, prefix=prefix)) as blocks:
                    async for block in blocks:
                        yield block
            except CorruptError as error:
                raise await self._explained(repo, source, error) from error
            return
        cursor = start
        async with aclosing(
            _pieces(trees, source.tree, start=start, prefix=prefix, first=first_page)
        ) as pieces:
            async for piece in pieces:
                stop = successor(piece.column("key")[-1].as_py())
                changes = self._parts.staging.reader.scan(
                    repo, source.branch, start=cursor, stop=stop, prefix=prefix, first_page=first_page
                )
                async with aclosing(_merged(piece, changes)) as blocks:
                    async for block in blocks:
                        yield block
                cursor = stop
        async with aclosing(
            self._parts.staging.reader.scan(
                repo, source.branch, start=cursor, prefix=prefix, first_page=first_page
            )
        ) as changes:
            async for block in changes:
                yield without_tombstones(block)

    async def _explained(self, repo: Repository, source: Source, error: CorruptError) -> LakebedError:
        """Return why a tree cannot be read: that of a commit which garbage collection has let go is no damage.

        Neither is that of a branch which was deleted, alone or with its repository, while a reader stood still for a grace.
        """
        if error.kind is not ErrorKind.FILE_MISSING:
            return error
        if source.branch is not None:
            try:
                await self._parts.branches.get(repo, source.branch.name)
            except NotFoundError as gone:
                return gone
        if source.commit is None:
            return error
        try:
            await self._parts.commits.require_standing(repo, source.commit)
        except NotFoundError:
            return NotFoundError(
                ErrorKind.DATA_MISSING,
                f"commit {source.commit} expired, and garbage collection has removed what it held: read a newer commit, or restore "
                "from a backup",
            )
        return error

    async def _first_keys(self, repo: Repository, source: Source, prefix: str, scan: Scan) -> Peek | None:
        """Return how to look ahead; where nothing is staged, the tree's own blocks tell as fast."""
        if source.branch is None or not layers_of(source.branch):
            return None
        return FirstKeys(
            repo,
            source.branch,
            source.tree,
            prefix=prefix,
            trees=await self._parts.trees_of(repo),
            reader=self._parts.staging.reader,
            scan=scan,
        )

    def _scan_from(self, repo: Repository, source: Source, *, prefix: str, first_page: int) -> Scan:
        return lambda start: self.scan(repo, source, start=start, prefix=prefix, first_page=first_page)


async def _merged(piece: pa.Table, staged: AsyncGenerator[pa.Table, None]) -> AsyncGenerator[pa.Table, None]:
    """Yield rows of the tree with the changes that are staged between them."""
    async with aclosing(staged):
        async for changes in staged:
            below = count_up_to(piece, changes.column("key")[-1].as_py())
            merged = newest_wins([changes, as_changes(piece.slice(0, below))])
            piece = piece.slice(below)
            yield without_tombstones(merged)
    if piece.num_rows:
        yield piece


async def _pieces(
    trees: Trees, tree: MetarangeId, *, start: str, prefix: str, first: int
) -> AsyncGenerator[pa.Table, None]:
    """Yield a tree's entries in pieces: as many rows as a page needs, then more and more."""
    rows = first
    async with aclosing(trees.scan(tree, start=start, prefix=prefix)) as blocks:
        async for block in blocks:
            at = 0
            while at < block.num_rows:
                yield block.slice(at, rows)
                at += rows
                rows = min(rows * _PIECE_GROWTH, SCAN_PAGE_ITEMS)
