"""Objects of a ref: read, written, listed, copied, deleted.

An upload stores the bytes under a new name first and stages the entry second, so
a crash in between leaves an object nobody references, never an entry without
bytes.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from lakebed.auth.actions import Action
from lakebed.auth.arns import namespace_arn, object_arn, repository_arn
from lakebed.auth.caller import Caller
from lakebed.catalog.digests import Digest
from lakebed.catalog.engine import Engine
from lakebed.catalog.late_uploads import remove_if_gone
from lakebed.catalog.shared_addresses import may_share
from lakebed.errors import ErrorKind, NotFoundError
from lakebed.limits import INLINE_READ_BYTES_MAX, LIST_PAGE_DEFAULT, LIST_PAGE_MAX
from lakebed.model.entries import CONTENT_TYPE_DEFAULT, Change, Entry, Tombstone
from lakebed.model.ids import BranchName, Path, parse_path
from lakebed.model.metadata import require_small
from lakebed.model.repository import Repository
from lakebed.objects.checks import cut_range
from lakebed.objects.port import ByteRange, ObjectStore
from lakebed.staging.conditions import Condition, IfAbsent, IfSame, require
from lakebed.versioning.paging import BlockPage


@dataclass(frozen=True, slots=True, kw_only=True)
class Attributes:
    """What a client says about an object beside its bytes."""

    content_type: str = CONTENT_TYPE_DEFAULT
    metadata: Mapping[str, str] | None = None


class Objects:
    """Use cases on objects."""

    def __init__(self, engine: Engine, caller: Caller) -> None:
        self._engine = engine
        self._caller = caller

    async def stat(self, repo_name: str, ref: str, path: str) -> Entry:
        """Return the entry of `path` as `ref` shows it."""
        return (await self.locate(repo_name, ref, path))[1]

    async def locate(self, repo_name: str, ref: str, path: str) -> tuple[Repository, Entry]:
        """Return the entry of `path`, and the repository its address is relative to."""
        self._caller.require(Action.READ_OBJECT, object_arn(repo_name, path))
        reading = await self._engine.readings.find(repo_name, ref)
        return reading.repo, await self._engine.view.stat(reading.repo, reading.source, parse_path(path))

    async def list(
        self,
        repo_name: str,
        ref: str,
        *,
        prefix: str = "",
        after: str = "",
        delimiter: str = "",
        amount: int = LIST_PAGE_DEFAULT,
    ) -> BlockPage:
        """Return one page of what `ref` shows."""
        self._caller.require(Action.LIST_OBJECTS, repository_arn(repo_name))
        reading = await self._engine.readings.find(repo_name, ref)
        return await self._engine.view.list(
            reading.repo,
            reading.source,
            prefix=prefix,
            after=after,
            delimiter=delimiter,
            amount=max(1, min(amount, LIST_PAGE_MAX)),
        )

    async def namespace(self, repo_name: str) -> str:
        """Return what the addresses of a repository's entries are relative to."""
        return (await self._engine.repo(repo_name)).namespace

    def may_delete(self, repo_name: str, path: str) -> bool:
        """Return whether the caller may delete `path`: a bulk deletion answers for each path."""
        return self._caller.may(Action.DELETE_OBJECT, object_arn(repo_name, path))

    async def read(
        self, repo_name: str, ref: str, path: str, *, byte_range: ByteRange | None = None
    ) -> tuple[Entry, AsyncIterator[bytes]]:
        """Return the entry and its bytes in chunks."""
        repo, entry = await self.locate(repo_name, ref, path)
        return entry, self._bytes(repo, entry, byte_range)

    def open(
        self, repo: Repository, entry: Entry, *, byte_range: ByteRange | None = None
    ) -> AsyncIterator[bytes]:
        """Return the bytes of an entry that `locate` has found, in chunks."""
        return self._bytes(repo, entry, byte_range)

    async def content(
        self, repo: Repository, entry: Entry, *, byte_range: ByteRange | None = None
    ) -> bytes | AsyncIterator[bytes]:
        """Return the bytes of an entry that `locate` has found: a few as they are, many in chunks."""
        wanted = byte_range or ByteRange(0, entry.size_bytes)
        assert wanted.end is not None, "whoever reads a part has cut it to the object"
        if wanted.end - wanted.start > INLINE_READ_BYTES_MAX or wanted.end == wanted.start:
            return self._bytes(repo, entry, byte_range)
        store, key = await self._place(repo, entry)
        try:
            found = await store.get(key, byte_range=wanted)
        except NotFoundError as error:
            raise _data_missing(entry) from error
        if len(found) != wanted.end - wanted.start:
            raise _wrong_size(entry)
        return found

    async def upload(
        self,
        repo_name: str,
        branch: str,
        path: str,
        data: bytes | AsyncIterator[bytes],
        *,
        attributes: Attributes | None = None,
        condition: Condition | None = None,
        force: bool = False,
    ) -> Entry:
        """Store bytes and stage them at `path`.

        Raises:
            PreconditionError: the condition does not hold; nothing is visible.
        """
        self._caller.require(Action.WRITE_OBJECT, object_arn(repo_name, path))
        engine = self._engine
        repo, name = await engine.target(repo_name, branch, force=force)
        target = parse_path(path)
        attributes = attributes or Attributes()
        metadata = dict(attributes.metadata or {})
        require_small(metadata)
        await engine.parts.branches.get(repo, name)
        if isinstance(condition, IfAbsent):
            await self._refuse_early(repo, name, target)
        store = await engine.store_of(repo)
        now = await engine.parts.kv.now()
        address = engine.slices.next_address(now)
        digest = Digest()
        if isinstance(data, bytes):
            digest.update(data)
            await store.put(address, data)
        else:
            await store.put_stream(address, digest.watch(data, engine.transfers))
        entry = Entry(
            path=target,
            address=address,
            checksum=digest.hexdigest,
            size_bytes=digest.size_bytes,
            mtime=now,
            content_type=attributes.content_type,
            metadata=metadata,
        )
        try:
            await engine.parts.staging.write(repo, name, [entry], condition=condition)
        except NotFoundError:
            await remove_if_gone(engine, repo, address)
            raise
        return entry

    async def stage(
        self,
        repo_name: str,
        branch: str,
        entries: Sequence[Entry],
        *,
        condition: Condition | None = None,
        force: bool = False,
    ) -> None:
        """Stage entries whose bytes lie outside the repository's namespace.

        Raises:
            DeniedError: an address is not under a configured import prefix.
            InvalidInputError: an address is inside the namespace, or not an address at all.
        """
        for entry in entries:
            self._caller.require(Action.WRITE_OBJECT, object_arn(repo_name, entry.path))
            self._caller.require(Action.IMPORT_FROM_STORAGE, namespace_arn(entry.address))
            require_small(entry.metadata)
        repo, name = await self._engine.target(repo_name, branch, force=force)
        for entry in entries:
            place = await self._engine.external.check(entry.address)
            if place != entry.address:
                # Where symbolic links lead: a policy may name that place, and not this one.
                self._caller.require(Action.IMPORT_FROM_STORAGE, namespace_arn(place))
        await self._engine.parts.staging.write(repo, name, entries, condition=condition)

    async def delete(
        self,
        repo_name: str,
        branch: str,
        paths: Sequence[str],
        *,
        condition: Condition | None = None,
        force: bool = False,
    ) -> None:
        """Delete objects. Paths that do not exist are no error."""
        for path in paths:
            self._caller.require(Action.DELETE_OBJECT, object_arn(repo_name, path))
        repo, name = await self._engine.target(repo_name, branch, force=force)
        changes: list[Change] = [Tombstone(path=parse_path(path)) for path in paths]
        await self._engine.parts.staging.write(repo, name, changes, condition=condition)

    async def copy(
        self,
        repo_name: str,
        branch: str,
        dest_path: str,
        *,
        source_path: str,
        source_ref: str | None = None,
        shallow: bool = False,
        force: bool = False,
    ) -> Entry:
        """Copy an object inside a repository; `shallow` moves no bytes: both paths then share an address."""
        self._caller.require(Action.READ_OBJECT, object_arn(repo_name, source_path))
        self._caller.require(Action.WRITE_OBJECT, object_arn(repo_name, dest_path))
        engine = self._engine
        repo, name = await engine.target(repo_name, branch, force=force)
        source = await engine.source(repo, source_ref or branch)
        found = await engine.view.stat(repo, source, parse_path(source_path))
        target, now = parse_path(dest_path), await engine.parts.kv.now()
        if shallow and await may_share(engine, repo, source_ref or branch, found):
            copied = replace(found, path=target, mtime=now)
        else:
            address = engine.slices.next_address(now)
            await self._copy_bytes(repo, found, address)
            copied = replace(found, path=target, mtime=now, address=address)
        try:
            await engine.parts.staging.write(repo, name, [copied])
        except NotFoundError:
            if copied.address != found.address:
                await remove_if_gone(engine, repo, copied.address)
            raise
        return copied

    async def set_metadata(
        self, repo_name: str, branch: str, path: str, metadata: Mapping[str, str], *, force: bool = False
    ) -> Entry:
        """Replace the user metadata of an object.

        Raises:
            PreconditionError: the object was changed meanwhile.
        """
        self._caller.require(Action.WRITE_OBJECT, object_arn(repo_name, path))
        require_small(metadata)
        repo, name = await self._engine.target(repo_name, branch, force=force)
        found = await self._engine.view.stat(repo, await self._engine.source(repo, branch), parse_path(path))
        changed = replace(found, metadata=dict(metadata))
        await self._engine.parts.staging.write(repo, name, [changed], condition=IfSame(found))
        return changed

    async def _refuse_early(self, repo: Repository, name: BranchName, path: Path) -> None:
        """Spare the client an upload that cannot succeed. The condition is decided when it is staged."""
        found = await self._engine.shown(repo, name, path)
        if found is not None:
            require(IfAbsent(), found, path)

    async def _bytes(
        self, repo: Repository, entry: Entry, byte_range: ByteRange | None
    ) -> AsyncIterator[bytes]:
        """Yield an object's bytes, each chunk after the next has come: a short object is refused before any is sent."""
        start, end = cut_range(byte_range, entry.size_bytes)
        held, left = b"", end - start
        store, key = await self._place(repo, entry)
        try:
            async for chunk in store.stream(key, byte_range=byte_range):
                left -= len(chunk)
                if left < 0:
                    break
                if held:
                    yield held
                held = chunk
        except NotFoundError as error:
            raise _data_missing(entry) from error
        if left:
            raise _wrong_size(entry)
        yield held

    async def _place(self, repo: Repository, entry: Entry) -> tuple[ObjectStore, str]:
        """Return the store that has an entry's bytes, and their key there."""
        if entry.is_external:
            source = await self._engine.external.resolve(entry.address)
            return source.store, source.key
        return await self._engine.store_of(repo), entry.address

    async def _copy_bytes(self, repo: Repository, entry: Entry, address: str) -> None:
        store = await self._engine.store_of(repo)
        if entry.is_external:
            await store.put_stream(address, self._bytes(repo, entry, None))
        else:
            await store.copy(entry.address, address)


def _wrong_size(entry: Entry) -> NotFoundError:
    return NotFoundError(
        ErrorKind.DATA_MISSING,
        f"{entry.path!r} does not have the {entry.size_bytes} bytes that it was staged with at {entry.address}: "
        "stage it again with the size of its object",
    )


def _data_missing(entry: Entry) -> NotFoundError:
    return NotFoundError(ErrorKind.DATA_MISSING, f"the bytes of {entry.path!r} are gone from {entry.address}")
