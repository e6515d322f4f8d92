"""Objects that clients upload in parts, straight to the store, by URLs that we sign.

An upload is an address that was given out (see `link_tokens`) whose token also names the
store's id of the upload: whoever holds neither cannot touch it, and the collector can
abort what nobody completed.

Completing has an order:

    1. complete   the store makes the object of the parts
    2. link       the entry is staged, the token marked used

Crash before 1: nothing happened. After 1: the object is there and nobody sees it; asked
again, the store has no such upload, but it has the object, and 2 follows. After 2: the
answer is what stands.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from lakebed.auth.actions import Action
from lakebed.auth.arns import object_arn
from lakebed.auth.caller import Caller
from lakebed.catalog.engine import Engine
from lakebed.catalog.link_tokens import FoundToken, LinkTokens, require_open
from lakebed.catalog.planned import unsupported
from lakebed.env.clock import Instant
from lakebed.errors import ErrorKind, InvalidInputError, NotFoundError
from lakebed.limits import COPY_PART_BYTES_MAX, PRESIGN_SECONDS
from lakebed.model.entries import Entry
from lakebed.model.ids import BranchName, parse_path
from lakebed.model.metadata import require_small
from lakebed.model.repository import Repository
from lakebed.objects.checks import cut_range, upload_missing
from lakebed.objects.port import ByteRange, ETag, ObjectStore, Part


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """An upload that a client has begun, and a URL for each part it asked for."""

    upload: str
    address: str
    urls: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadOf:
    """Which upload: where its object goes, and what it was given out under."""

    repo_name: str
    branch: str
    path: str
    upload: str
    address: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CopySource:
    """What a part is copied from."""

    repo_name: str
    ref: str
    path: str
    bytes_of: Callable[[int], ByteRange | None]
    """Which bytes of an object of so many are wanted; None for all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Completed:
    """What a client says about the object it sent in parts."""

    parts: Sequence[tuple[int, str]]
    """Numbers and ETags."""
    content_type: str
    metadata: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Open:
    """An upload that was found, and where it is."""

    repo: Repository
    branch: BranchName
    found: FoundToken
    store: ObjectStore
    now: Instant


class Multipart:
    """Use cases on uploads in parts."""

    def __init__(self, engine: Engine, caller: Caller) -> None:
        self._engine = engine
        self._caller = caller
        self._tokens = LinkTokens(engine)

    async def begin(self, repo_name: str, branch: str, path: str, *, parts: int = 0) -> Begun:
        """Begin an upload of the object at `path`, with URLs for its first `parts` parts.

        Raises:
            InvalidInputError: `UNSUPPORTED`: the repository's store cannot sign.
        """
        self._caller.require(Action.WRITE_OBJECT, object_arn(repo_name, path))
        engine = self._engine
        repo = await engine.repo(repo_name)
        name = await engine.writable(repo, branch, action="staging_write")
        target = parse_path(path)
        await engine.parts.branches.get(repo, name)
        store = await self._store(repo)
        now = await engine.parts.kv.now()
        address = engine.slices.next_address(now)
        # First the upload, which holds nothing yet: the token must name it before anyone can send a part.
        upload = await store.create_upload(address)
        await self._tokens.give_out(repo, name, target, address=address, now=now, upload=upload)
        urls = await store.sign_parts(address, upload, range(1, parts + 1), seconds=PRESIGN_SECONDS)
        return Begun(upload=upload, address=f"{repo.namespace}/{address}", urls=urls)

    async def part_url(self, upload: UploadOf, number: int) -> str:
        """Return a fresh URL for one part."""
        opened = await self._open(upload)
        (url,) = await opened.store.sign_parts(
            opened.found.address, upload.upload, [number], seconds=PRESIGN_SECONDS
        )
        return url

    async def copy_part(self, upload: UploadOf, number: int, source: CopySource) -> ETag:
        """Make a part of an object, or of some of its bytes; inside one repository they do not pass the server.

        Raises:
            InvalidInputError: `TOO_LARGE`: too many bytes to be carried over from another repository.
        """
        self._caller.require(Action.READ_OBJECT, object_arn(source.repo_name, source.path))
        opened = await self._open(upload)
        engine = self._engine
        repo = await engine.repo(source.repo_name)
        entry = await engine.view.stat(repo, await engine.source(repo, source.ref), parse_path(source.path))
        byte_range = source.bytes_of(entry.size_bytes)
        address, store = opened.found.address, opened.store
        start, end = cut_range(byte_range, entry.size_bytes)
        if repo.uid == opened.repo.uid and not entry.is_external:
            part = await store.copy_part(address, upload.upload, number, entry.address, byte_range=byte_range)
            return part.etag
        if end - start > COPY_PART_BYTES_MAX:
            raise InvalidInputError(
                ErrorKind.TOO_LARGE,
                f"{end - start} bytes are too many to copy at a time from another repository, "
                f"{COPY_PART_BYTES_MAX} are the most: give a range",
            )
        data = await self._read(repo, entry, byte_range)
        return (await store.put_part(address, upload.upload, number, data)).etag

    async def complete(self, upload: UploadOf, completed: Completed) -> Entry:
        """Make the object of its parts and stage it.

        Raises:
            NotFoundError: `UPLOAD_NOT_FOUND`.
            InvalidInputError: `LINK_REFUSED`; `INVALID_ARGUMENT`: parts that are not there as given.
            ConflictError: `TOO_LATE`.
        """
        require_small(completed.metadata)
        opened = await self._open(upload, used=True)
        address, token = opened.found.address, opened.found.token
        checksum = token.checksum
        if token.used_at is None:
            checksum = await self._completed(opened, upload.upload, completed.parts)
            size_bytes = await self._size(opened.store, address)
        else:
            made = await opened.store.head(address)
            size_bytes = made.size_bytes if made is not None else 0
        entry = Entry(
            path=parse_path(upload.path),
            address=address,
            checksum=checksum,
            size_bytes=size_bytes,
            mtime=opened.now,
            content_type=completed.content_type,
            metadata=dict(completed.metadata),
        )
        return await self._tokens.redeem(opened.repo, opened.branch, opened.found, entry, now=opened.now)

    async def abort(self, upload: UploadOf) -> None:
        """Give an upload up, and free its parts. Asked again, it is the same success.

        Raises:
            NotFoundError: `UPLOAD_NOT_FOUND`: there is none, or it was completed.
        """
        opened = await self._open(upload, expired=True)
        # First the token: what is aborted can no longer be linked, also if we do not get any further.
        await self._tokens.end(opened.repo, opened.found, now=opened.now)
        await opened.store.abort_upload(opened.found.address, upload.upload)

    async def _open(self, upload: UploadOf, *, used: bool = False, expired: bool = False) -> _Open:
        """Find an upload that is open, and also one that is `used` or `expired` if so wanted."""
        self._caller.require(Action.WRITE_OBJECT, object_arn(upload.repo_name, upload.path))
        repo = await self._engine.repo(upload.repo_name)
        name = await self._engine.writable(repo, upload.branch, action="staging_write")
        await self._engine.parts.branches.get(repo, name)
        store = await self._store(repo)
        now = await self._engine.parts.kv.now()
        found = await self._tokens.find(repo, name, parse_path(upload.path), upload.address)
        token = found.token
        if not token.upload or token.upload != upload.upload or (token.used_at is not None and not used):
            raise upload_missing(upload.upload)
        if token.used_at is None and not expired:
            require_open(found, now)
        return _Open(repo, name, found, store, now)

    async def _store(self, repo: Repository) -> ObjectStore:
        store = await self._engine.store_of(repo)
        if not (store.capabilities.sign and store.capabilities.multipart):
            raise unsupported(
                "this storage has no presigned multipart uploads: upload the object in one request"
            )
        return store

    async def _completed(self, opened: _Open, upload: str, parts: Sequence[tuple[int, str]]) -> ETag:
        """Return the ETag of the object, made now or by an earlier try that got no further."""
        address = opened.found.address
        sent = [Part(number, ETag(etag.strip(' "')), 0) for number, etag in parts]
        try:
            return await opened.store.complete_upload(address, upload, sent)
        except NotFoundError:
            made = await opened.store.head(address)
            if made is None:
                raise
            return made.etag

    async def _size(self, store: ObjectStore, address: str) -> int:
        made = await store.head(address)
        if made is None:
            raise NotFoundError(ErrorKind.DATA_MISSING, f"the bytes at {address} are gone")
        return made.size_bytes

    async def _read(self, repo: Repository, entry: Entry, byte_range: ByteRange | None) -> bytes:
        if entry.is_external:
            source = await self._engine.external.resolve(entry.address)
            return await source.store.get(source.key, byte_range=byte_range)
        return await (await self._engine.store_of(repo)).get(entry.address, byte_range=byte_range)
