"""Import: objects that lie elsewhere become entries, without moving a byte.

The sources are listed, sorted into a tree of their own, laid into the branch's
tree in place of what was below the destination prefixes, and committed. It is a
change of HEAD like any other (see `head`): the branch must be clean, and what
was listed in one try serves the next, under the same nonce. It ends within half a
minute after its repository was deleted.
"""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path as FilePath

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.errors import ErrorKind, InvalidInputError, NotFoundError
from lakebed.format.blocks import ENTRY_SCHEMA, entry_block
from lakebed.limits import PATH_BYTES_MAX
from lakebed.model.commits import Commit
from lakebed.model.entries import CONTENT_TYPE_DEFAULT, Entry
from lakebed.model.ids import BranchName, MetarangeId, Nonce, parse_path
from lakebed.model.repository import Repository
from lakebed.objects.external import ExternalAddresses, ExternalObject
from lakebed.objects.port import ObjectInfo
from lakebed.versioning.commit import CommitRequest, store_commit
from lakebed.versioning.head import Attempt, HeadChanges
from lakebed.versioning.local_files import FileChunk, hash_files, path_column, walk_files
from lakebed.versioning.parts import Parts
from lakebed.versioning.sorted_rows import SortedRows

_STRATEGY_KEY = ".lakefs.merge.strategy"

# Chunks being hashed at a time: enough to keep the processes busy.
_CHUNKS_AHEAD = 6


class ImportKind(StrEnum):
    """What an import path names."""

    PREFIX = "common_prefix"
    OBJECT = "object"


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportPath:
    """`address` goes to `destination`: all that is below it for a prefix, or one object."""

    kind: ImportKind
    address: str
    destination: str


Progress = Callable[[int], None]
"""Told how many objects have been taken in so far."""


class Importer:
    """Imports objects from outside a repository."""

    def __init__(self, parts: Parts, heads: HeadChanges, external: ExternalAddresses, temp: FilePath) -> None:
        self._parts = parts
        self._heads = heads
        self._external = external
        self._temp = temp

    async def run(
        self,
        repo: Repository,
        name: BranchName,
        paths: Sequence[ImportPath],
        request: CommitRequest,
        *,
        progress: Progress = lambda _count: None,
    ) -> Commit:
        """Import `paths` and commit. Nothing is visible before the commit; cancelling leaves nothing.

        Raises:
            InvalidInputError: a source may not be imported, `DIRTY_BRANCH`.
            NotFoundError: a source does not exist.
        """
        sources = await self.check(paths)
        metadata = {_STRATEGY_KEY: "source-wins", **request.metadata}
        request = replace(request, metadata=metadata)
        gathered: MetarangeId | None = None
        gathered_by: Nonce | None = None

        async def build(attempt: Attempt) -> Commit:
            nonlocal gathered, gathered_by
            await self._heads.require_clean(attempt)
            dest = await self._parts.base_tree(repo, attempt.started)
            trees = await self._parts.trees_of(repo)
            if gathered is None or gathered_by != attempt.nonce:
                gathered = await self._gather(attempt, sources, dest, progress)
                gathered_by = attempt.nonce
            replaced = await trees.replace_prefixes(
                dest,
                [path.destination for path in paths if path.kind is ImportKind.PREFIX],
                gathered,
                nonce=attempt.nonce,
            )
            return await store_commit(
                self._parts, attempt, request, tree=replaced.id, parents=(attempt.started.commit_id,)
            )

        return await self._heads.run(repo, name, build)

    async def check(self, paths: Sequence[ImportPath]) -> list[tuple[ImportPath, ExternalObject]]:
        """Return each path with what its address means; errors as for `run`."""
        if not paths:
            raise InvalidInputError(ErrorKind.INVALID_ARGUMENT, "an import needs at least one path")
        return [(path, await self._external.resolve(path.address)) for path in paths]

    async def _gather(
        self,
        attempt: Attempt,
        sources: Sequence[tuple[ImportPath, ExternalObject]],
        dest: MetarangeId,
        progress: Progress,
    ) -> MetarangeId:
        """Write every source's entries as a tree of their own and return it."""
        trees = await self._parts.trees_of(attempt.repo)
        count = 0
        with tempfile.TemporaryDirectory(prefix="import-", dir=self._temp) as folder:
            rows = SortedRows(FilePath(folder), self._parts.workers)
            for path, source in sources:
                async for block in self._blocks(attempt.repo, path, source, dest):
                    _check_keys(block)
                    await rows.add(block)
                    count += block.num_rows
                    progress(count)
            written = await trees.write(rows.blocks(), nonce=attempt.nonce)
        return written.id

    async def _blocks(
        self, repo: Repository, path: ImportPath, source: ExternalObject, dest: MetarangeId
    ) -> AsyncIterator[pa.Table]:
        if path.kind is ImportKind.OBJECT:
            yield await self._object_block(path, source)
        elif source.file is not None:
            async for block in self._file_blocks(repo, path, source.file, dest):
                yield block
        else:
            prefix = source.key
            async for page in source.store.list(prefix):
                yield _info_block(page, path, prefix)

    async def _file_blocks(
        self, repo: Repository, path: ImportPath, root: FilePath, dest: MetarangeId
    ) -> AsyncIterator[pa.Table]:
        """Hash local files in worker processes, a few chunks ahead of the reader. A file is its own prefix, as on S3."""
        if await self._parts.workers.run(root.is_file):
            yield await self._file_block(root, path.destination)
            return
        if not await self._parts.workers.run(root.is_dir):
            raise _no_source(path)
        trees = await self._parts.trees_of(repo)
        again = (
            await anext(trees.scan(dest, start=path.destination, prefix=path.destination), None) is not None
        )
        running: list[asyncio.Task[pa.Table]] = []
        chunks = walk_files(f"{root}/")
        try:
            while True:
                chunk = await self._parts.workers.run(next, chunks, None)
                if chunk is not None:
                    running.append(
                        asyncio.create_task(self._hash(repo, chunk, path, root, dest if again else None))
                    )
                if chunk is None and not running:
                    return
                if chunk is None or len(running) >= _CHUNKS_AHEAD:
                    yield await running.pop(0)
        finally:
            for task in running:
                task.cancel()

    async def _hash(
        self, repo: Repository, chunk: FileChunk, path: ImportPath, root: FilePath, dest: MetarangeId | None
    ) -> pa.Table:
        key_prefix = path.destination + chunk.relative
        address_prefix = f"local://{root}/{chunk.relative}"
        known = None
        if dest is not None:
            trees = await self._parts.trees_of(repo)
            keys = path_column(key_prefix, chunk.names, chunk.folder)
            found = await trees.lookup_many(dest, keys)
            # What is known of a path helps only if it is about this very file.
            names = pc.utf8_slice_codeunits(found.column("key"), start=len(key_prefix))
            addresses = pc.binary_join_element_wise(address_prefix, names, "")
            known = found.filter(pc.equal(found.column("address"), addresses))
        return await self._parts.processes.run(
            hash_files,
            chunk.folder,
            chunk.names,
            key_prefix=key_prefix,
            address_prefix=address_prefix,
            known=known,
        )

    async def _object_block(self, path: ImportPath, source: ExternalObject) -> pa.Table:
        destination = parse_path(path.destination)
        if source.file is not None:
            if not await self._parts.workers.run(source.file.is_file):
                raise _no_source(path)
            return await self._file_block(source.file, destination)
        info = await source.store.head(source.key)
        if info is None:
            raise _no_source(path)
        return entry_block([_entry(info, destination, path.address)])

    async def _file_block(self, file: FilePath, destination: str) -> pa.Table:
        block = await self._parts.processes.run(
            hash_files, str(file.parent), [file.name], key_prefix="", address_prefix=""
        )
        return block.set_column(0, ENTRY_SCHEMA.field("key"), [[parse_path(destination)]]).set_column(
            1, ENTRY_SCHEMA.field("address"), [[f"local://{file}"]]
        )


def _info_block(page: Sequence[ObjectInfo], path: ImportPath, prefix: str) -> pa.Table:
    """Objects of a store, as they are listed: the checksum is the store's ETag."""
    below = [(info, info.key[len(prefix) :]) for info in page if not info.key.endswith("/")]
    return entry_block([_entry(info, path.destination + rest, path.address + rest) for info, rest in below])


def _entry(info: ObjectInfo, key: str, address: str) -> Entry:
    return Entry(
        path=parse_path(key),
        address=address,
        checksum=info.etag,
        size_bytes=info.size_bytes,
        mtime=info.mtime,
        content_type=CONTENT_TYPE_DEFAULT,
    )


def _no_source(path: ImportPath) -> NotFoundError:
    return NotFoundError(ErrorKind.OBJECT_NOT_FOUND, f"import source {path.address} does not exist")


def _check_keys(block: pa.Table) -> None:
    keys = block.column("key")
    if not len(keys):
        return
    longest = pc.max(pc.binary_length(keys)).as_py()
    if longest > PATH_BYTES_MAX:
        raise InvalidInputError(
            ErrorKind.INVALID_PATH,
            f"an imported path has {longest} bytes, {PATH_BYTES_MAX} are the most: use a shorter destination",
        )
