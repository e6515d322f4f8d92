"""Objects that clients send in parts through this server. Order matters.

    <repo>-<uid>:  uploads/<id>            the upload
                   parts/<id>/<number>     a part that has arrived, written while the upload is open

Completing. Each of 1, 3 and 5 is one swap of the upload's record:
    1. fix       the list of parts, by the ETag that follows from it     open -> completing
    2. complete  the store's upload
    3. claim     the upload, with the nonce of this call                 completing -> staging
    4. stage     the entry
    5. mark      the upload completed                                    staging -> completed
    6. remove    the parts' records

    crash                   a repeat with the same parts             a repeat with other parts
    before 1                completes                                completes
    between 1 and 3         completes: if the store has no such      refused: the object may be made already
                            upload any more, it has the object
    between 3 and 5         the same success if the entry stands,    as with the same parts
                            or a committed one that is alike;
                            otherwise 503 for `CLAIM_SECONDS`, then
                            refused: upload again
    after 5                 the same success                         the same success

If the store refuses 2, or staging fails for certain in 4, the call takes back 1 or 3. Nothing is staged twice: another
client may have overwritten the path since, and an overwritten row leaves nothing behind that proves it was there.

Aborting:
    1. mark      the upload aborted        from here no part is taken, and a sweep does the rest
    2. abort     the store's upload
    3. remove    the records

A part is written to the store first and recorded second, fenced on the upload's record, so
none is ever recorded for an upload that has ended. State is in the KV only: any process
can go on with any upload.
"""

import hashlib
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from lakebed.auth.actions import Action
from lakebed.auth.arns import object_arn, repository_arn
from lakebed.auth.caller import Caller
from lakebed.catalog.digests import Digest
from lakebed.catalog.engine import Engine
from lakebed.catalog.link_tokens import require_settled
from lakebed.catalog.objects import Attributes
from lakebed.env.clock import Instant, after
from lakebed.env.ids import encode_base32
from lakebed.errors import (
    ConflictError,
    ErrorKind,
    InvalidInputError,
    LakebedError,
    NotFoundError,
    UnavailableError,
    is_unknown,
    quoted,
)
from lakebed.format.part_uploads import (
    decode_part_upload,
    decode_uploaded_part,
    encode_part_upload,
    encode_uploaded_part,
)
from lakebed.kv.port import Expect, Row, Version, VersionFence, prefix_end
from lakebed.limits import (
    MAINTENANCE_PAGE_ITEMS,
    METADATA_BYTES_MAX,
    PARTS_MAX,
    S3_COMPLETED_SECONDS,
    S3_PART_BYTES_MIN,
    S3_UPLOAD_LIFETIME_SECONDS,
    SWAP_ATTEMPTS_MAX,
)
from lakebed.model.entries import Entry
from lakebed.model.ids import BranchName, parse_path
from lakebed.model.metadata import require_small
from lakebed.model.part_uploads import PARTS_KEY, PartUpload, PartUploadState, UploadedPart, pack_parts
from lakebed.model.repository import Repository
from lakebed.objects.checks import check_part_number, cut_range, upload_missing
from lakebed.objects.port import ByteRange, ETag, ObjectStore, Part
from lakebed.refs.backoff import back_off
from lakebed.refs.keys import UPLOADS_PREFIX
from lakebed.refs.settle import settled_swap
from lakebed.staging.conditions import Condition

_MD5_DIGITS = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadOf:
    """Which upload."""

    repo_name: str
    branch: str
    path: str
    id: str


@dataclass(frozen=True, slots=True)
class _Found:
    repo: Repository
    upload: PartUpload
    version: Version


class PartUploads:
    """Use cases on uploads in parts."""

    def __init__(self, engine: Engine, caller: Caller) -> None:
        self._engine = engine
        self._caller = caller

    async def begin(self, repo_name: str, branch: str, path: str, attributes: Attributes) -> PartUpload:
        """Begin an upload of the object at `path`."""
        self._caller.require(Action.WRITE_OBJECT, object_arn(repo_name, path))
        engine = self._engine
        repo = await engine.repo(repo_name)
        name = await engine.writable(repo, branch, action="staging_write")
        target = parse_path(path)
        require_small(attributes.metadata or {})
        await engine.parts.branches.get(repo, name)
        store = await engine.store_of(repo)
        now = await engine.parts.kv.now()
        address = engine.slices.next_address(now)
        upload = PartUpload(
            id=f"{_id_prefix(now)}{engine.parts.ids.token()}{engine.parts.ids.token()}",
            branch=name,
            path=target,
            address=address,
            store_upload=await store.create_upload(address),
            initiator=self._caller.id,
            created_at=now,
            content_type=attributes.content_type,
            metadata=dict(attributes.metadata or {}),
        )
        await self._put(repo, upload, Expect.ABSENT)
        return upload

    async def put(
        self, of: UploadOf, number: int, chunks: AsyncIterator[bytes], *, size_bytes: int
    ) -> UploadedPart:
        """Keep one part; what is sent again replaces it. If `chunks` raises, nothing is kept.

        Raises:
            NotFoundError: `UPLOAD_NOT_FOUND`.
        """
        check_part_number(number)
        found = await self._open(of)
        store = await self._engine.store_of(found.repo)
        digest = Digest()
        part = await store.put_part_stream(
            found.upload.address,
            found.upload.store_upload,
            number,
            digest.watch(chunks, self._engine.transfers),
            size_bytes=size_bytes,
        )
        return await self._record(found, part, digest.hexdigest)

    async def copy(
        self,
        of: UploadOf,
        number: int,
        source: tuple[Repository, Entry],
        *,
        byte_range: ByteRange | None = None,
    ) -> UploadedPart:
        """Make a part of an object that `Objects.locate` has found; inside one repository the store copies."""
        check_part_number(number)
        found = await self._open(of)
        repo, entry = source
        if repo.uid != found.repo.uid or entry.is_external:
            start, end = cut_range(byte_range, entry.size_bytes)
            chunks = self._bytes(repo, entry, byte_range)
            return await self.put(of, number, chunks, size_bytes=end - start)
        store = await self._engine.store_of(repo)
        part = await store.copy_part(
            found.upload.address, found.upload.store_upload, number, entry.address, byte_range=byte_range
        )
        return await self._record(found, part, await self._md5(store, part, entry, byte_range))

    async def complete(
        self, of: UploadOf, wanted: Sequence[tuple[int, str]], *, condition: Condition | None = None
    ) -> str:
        """Make the object of these parts (numbers and MD5s) and stage it; return its ETag.

        Raises:
            NotFoundError: `UPLOAD_NOT_FOUND`.
            InvalidInputError: `INVALID_PART`, `PART_ORDER`, `PART_TOO_SMALL`.
            PreconditionError: the condition does not hold.
            UnavailableError: `OUTCOME_UNKNOWN`: it may be staged, or another call is staging it. Repeat the call.
        """
        for attempt in range(SWAP_ATTEMPTS_MAX):
            found = await self._find(of, writing=True)
            try:
                return await self._complete(found, wanted, condition)
            except ConflictError as error:
                if error.kind is not ErrorKind.VERSION_CHANGED:
                    raise
                # Another call completes or aborts it, too.
                await back_off(attempt, clock=self._engine.parts.clock, ids=self._engine.parts.ids)
        raise UnavailableError(ErrorKind.STORE_UNAVAILABLE, f"upload {of.id} changes too often: try again")

    async def abort(self, of: UploadOf) -> None:
        """Give an upload up, and free its parts.

        Raises:
            NotFoundError: `UPLOAD_NOT_FOUND`.
        """
        found = await self._find(of, writing=True)
        if not found.upload.is_under_way:
            raise upload_missing(of.id)
        await self._abort(found)

    async def parts(
        self, of: UploadOf, *, after_number: int = 0, amount: int
    ) -> tuple[PartUpload, list[UploadedPart], bool]:
        """Return an upload, some of its parts by number, and whether there are more."""
        found = await self._find(of, writing=False)
        if not found.upload.is_under_way:
            raise upload_missing(of.id)
        listed = [
            part for part in await self._parts_of(found.repo, found.upload.id) if part.number > after_number
        ]
        return found.upload, listed[:amount], len(listed) > amount

    async def under_way(self, repo_name: str, *, prefix: str = "") -> list[PartUpload]:
        """Return the uploads of a repository that are open and whose keys begin with `prefix`, by key and age.

        Records of uploads are kept by time, so all of them are read; page by page, and only what is shown is kept.
        """
        self._caller.require(Action.LIST_OBJECTS, repository_arn(repo_name))
        repo = await self._engine.repo(repo_name)
        opened: list[PartUpload] = []
        async for page in self._engine.parts.kv.scan(
            repo.partition,
            start=UPLOADS_PREFIX,
            end=prefix_end(UPLOADS_PREFIX),
            page_items_max=MAINTENANCE_PAGE_ITEMS,
        ):
            uploads = map(decode_part_upload, page.values)
            opened += [each for each in uploads if each.is_under_way and each.key.startswith(prefix)]
        return sorted(opened, key=lambda each: (each.key, each.created_at, each.id))

    async def sweep(self, repo: Repository) -> int:
        """Give up what nobody completed for long, and forget what ended. Return how many.

        Ids begin with the time: uploads that are too young to end are not read, however many there are.
        """
        kv = self._engine.parts.kv
        now = await kv.now()
        ended = 0
        async for page in kv.scan(
            repo.partition,
            start=UPLOADS_PREFIX,
            end=_upload_key(_id_prefix(after(now, -S3_UPLOAD_LIFETIME_SECONDS))),
            page_items_max=MAINTENANCE_PAGE_ITEMS,
        ):
            for item in page.items():
                ended += await self._end_old(_Found(repo, decode_part_upload(item.value), item.version), now)
        return ended

    async def _end_old(self, found: _Found, now: Instant) -> bool:
        age = found.upload.created_at
        match found.upload.state:
            case PartUploadState.OPEN | PartUploadState.COMPLETING if (
                after(age, S3_UPLOAD_LIFETIME_SECONDS) >= now
            ):
                return False
            case PartUploadState.STAGING | PartUploadState.COMPLETED if (
                after(age, S3_UPLOAD_LIFETIME_SECONDS + S3_COMPLETED_SECONDS) >= now
                # The collector still has to know where a fresh object came from.
                or after(found.upload.completed_at, 2 * self._engine.parts.lifetimes.grace_seconds) >= now
            ):
                return False
            case PartUploadState.STAGING | PartUploadState.COMPLETED:
                await self._remove(found.repo, found.upload.id)
            case _:
                await self._abort(found)
        return True

    async def _abort(self, found: _Found) -> None:
        upload = found.upload
        if upload.state is not PartUploadState.ABORTED:
            try:
                await self._put(found.repo, replace(upload, state=PartUploadState.ABORTED), found.version)
            except ConflictError as error:
                raise upload_missing(upload.id) from error
        store = await self._engine.store_of(found.repo)
        await store.abort_upload(upload.address, upload.store_upload)
        await self._remove(found.repo, upload.id)

    async def _open(self, of: UploadOf) -> _Found:
        found = await self._find(of, writing=True)
        if found.upload.state is not PartUploadState.OPEN:
            raise upload_missing(of.id)
        return found

    async def _find(self, of: UploadOf, *, writing: bool) -> _Found:
        self._caller.require(Action.WRITE_OBJECT, object_arn(of.repo_name, of.path))
        repo = await self._engine.repo(of.repo_name)
        if writing:
            await self._engine.writable(repo, of.branch, action="staging_write")
        if not of.id.isascii() or not of.id.isalnum():
            raise upload_missing(of.id)
        item = await self._engine.parts.kv.get(repo.partition, _upload_key(of.id))
        upload = decode_part_upload(item.value) if item is not None else None
        if (
            item is None
            or upload is None
            or upload.state is PartUploadState.ABORTED
            or (upload.branch, upload.path) != (of.branch, of.path)
        ):
            raise upload_missing(of.id)
        if writing:
            await self._engine.parts.branches.get(repo, BranchName(of.branch))
        return _Found(repo, upload, item.version)

    async def _parts_of(self, repo: Repository, upload: str) -> list[UploadedPart]:
        prefix = _parts_prefix(upload)
        return [
            decode_uploaded_part(value)
            async for page in self._engine.parts.kv.scan(
                repo.partition, start=prefix, end=prefix_end(prefix), page_items_max=PARTS_MAX
            )
            for value in page.values
        ]

    async def _record(self, found: _Found, part: Part, md5: str) -> UploadedPart:
        kept = UploadedPart(
            number=part.number,
            md5=md5,
            size_bytes=part.size_bytes,
            store_etag=part.etag,
            uploaded_at=await self._engine.parts.kv.now(),
        )
        row = Row(_part_key(found.upload.id, part.number), encode_uploaded_part(kept))
        fence = VersionFence(
            partition=found.repo.partition, key=_upload_key(found.upload.id), version=found.version
        )
        try:
            await self._engine.parts.kv.set_rows(found.repo.partition, [row], fence=fence)
        except ConflictError as error:
            raise upload_missing(found.upload.id) from error
        return kept

    async def _complete(
        self, found: _Found, wanted: Sequence[tuple[int, str]], condition: Condition | None
    ) -> str:
        """Do what is left to do; `ConflictError` (`VERSION_CHANGED`) if another call did some of it meanwhile."""
        match found.upload.state:
            case PartUploadState.COMPLETED:
                return found.upload.checksum
            case PartUploadState.STAGING:
                return await self._repeated(found)
        parts = _chosen(wanted, await self._parts_of(found.repo, found.upload.id))
        checksum = _etag(parts)
        if found.upload.state is PartUploadState.OPEN:
            found = await self._swapped(found, state=PartUploadState.COMPLETING, checksum=checksum)
        elif found.upload.checksum != checksum:
            raise InvalidInputError(
                ErrorKind.INVALID_PART,
                f"upload {found.upload.id} is being completed with other parts: repeat that call, or abort the upload",
            )
        upload = found.upload
        await self._complete_in_store(found, parts)
        entry = Entry(
            path=upload.path,
            address=upload.address,
            checksum=checksum,
            size_bytes=sum(part.size_bytes for part in parts),
            mtime=await self._engine.parts.kv.now(),
            content_type=upload.content_type,
            metadata={**upload.metadata, **_part_sizes(parts)},
        )
        claimed = await self._swapped(
            found,
            state=PartUploadState.STAGING,
            completed_at=entry.mtime,
            claimed_by=self._engine.parts.ids.token(),
        )
        try:
            await self._engine.parts.staging.write(found.repo, upload.branch, [entry], condition=condition)
        except LakebedError as error:
            if not is_unknown(error):
                await self._take_back(claimed, to=upload)
            raise
        try:
            await self._note_completed(claimed)
        except UnavailableError as error:
            raise UnavailableError(
                ErrorKind.OUTCOME_UNKNOWN, f"upload {upload.id} is staged: complete it again ({error})"
            ) from error
        return checksum

    async def _repeated(self, found: _Found) -> str:
        """Answer for the call that claimed an upload: by the entry that stands."""
        upload = found.upload
        standing = await self._engine.shown(found.repo, upload.branch, upload.path)
        if standing is not None and (standing.address == upload.address or _shows(standing, upload)):
            await self._note_completed(found)
            return upload.checksum
        now = await self._engine.parts.kv.now()
        require_settled(f"upload {upload.id} is being completed", upload.completed_at, now=now)
        raise NotFoundError(
            ErrorKind.UPLOAD_NOT_FOUND,
            f"upload {upload.id} was completed by an earlier call, and {upload.path!r} does not show it: "
            "begin a new upload and send the parts again",
        )

    async def _swapped(self, found: _Found, **changes: Any) -> _Found:
        upload = replace(found.upload, **changes)
        return _Found(found.repo, upload, await self._put(found.repo, upload, found.version))

    async def _take_back(self, found: _Found, *, to: PartUpload) -> None:
        # Best effort: what stays claimed costs the client another upload.
        with suppress(ConflictError, UnavailableError):
            await self._put(found.repo, to, found.version)

    async def _note_completed(self, found: _Found) -> None:
        now = await self._engine.parts.kv.now()
        try:
            await self._swapped(found, state=PartUploadState.COMPLETED, completed_at=now)
        except ConflictError:
            return  # A repeat of the call has noted it.
        await self._remove_parts(found.repo, found.upload.id)

    async def _complete_in_store(self, found: _Found, parts: Sequence[UploadedPart]) -> None:
        upload = found.upload
        store = await self._engine.store_of(found.repo)
        sent = [Part(part.number, ETag(part.store_etag), part.size_bytes) for part in parts]
        try:
            await store.complete_upload(upload.address, upload.store_upload, sent)
        except NotFoundError:
            made = await store.head(upload.address)
            if made is None:
                raise
        except InvalidInputError:
            # The store made nothing: other parts may do.
            await self._take_back(found, to=replace(upload, state=PartUploadState.OPEN, checksum=""))
            raise

    async def _md5(self, store: ObjectStore, part: Part, entry: Entry, byte_range: ByteRange | None) -> str:
        """Return the MD5 of a part that the store has copied: told by the store, or known, or computed."""
        for known in (part.etag, entry.checksum if part.size_bytes == entry.size_bytes else ""):
            if len(known) == _MD5_DIGITS and all(each in "0123456789abcdef" for each in known):
                return known
        digest = Digest()
        chunks = aiter(store.stream(entry.address, byte_range=byte_range))
        async for _ in digest.watch(chunks, self._engine.transfers):
            pass
        return digest.hexdigest

    async def _bytes(
        self, repo: Repository, entry: Entry, byte_range: ByteRange | None
    ) -> AsyncIterator[bytes]:
        if entry.is_external:
            source = await self._engine.external.resolve(entry.address)
            chunks = source.store.stream(source.key, byte_range=byte_range)
        else:
            chunks = (await self._engine.store_of(repo)).stream(entry.address, byte_range=byte_range)
        async for chunk in chunks:
            yield chunk

    async def _put(self, repo: Repository, upload: PartUpload, expected: Version | Expect) -> Version:
        parts = self._engine.parts
        return await settled_swap(
            parts.kv,
            repo.partition,
            _upload_key(upload.id),
            encode_part_upload(upload),
            expected=expected,
            clock=parts.clock,
            ids=parts.ids,
        )

    async def _remove(self, repo: Repository, upload: str) -> None:
        # The upload goes last: without it nobody would look for the rest.
        await self._remove_parts(repo, upload)
        await self._engine.parts.kv.delete_rows(repo.partition, [_upload_key(upload)])

    async def _remove_parts(self, repo: Repository, upload: str) -> None:
        numbers = [part.number for part in await self._parts_of(repo, upload)]
        await self._engine.parts.kv.delete_rows(
            repo.partition, [_part_key(upload, number) for number in numbers]
        )


def _chosen(wanted: Sequence[tuple[int, str]], kept: Sequence[UploadedPart]) -> list[UploadedPart]:
    """Return the parts that a client wants, if they are there as it says."""
    if not wanted:
        raise InvalidInputError(ErrorKind.NO_PARTS, "an upload is completed with at least one part")
    if any(a[0] >= b[0] for a, b in pairwise(wanted)):
        raise InvalidInputError(
            ErrorKind.PART_ORDER, "parts are completed in the order of their numbers, each once"
        )
    by_number = {part.number: part for part in kept}
    chosen: list[UploadedPart] = []
    for number, md5 in wanted:
        part = by_number.get(number)
        if part is None or part.md5 != md5:
            raise InvalidInputError(
                ErrorKind.INVALID_PART,
                f"part {number} was not uploaded, or its ETag is not {quoted(md5)}: upload it again, then complete",
            )
        chosen.append(part)
    for part in chosen[:-1]:
        if part.size_bytes < S3_PART_BYTES_MIN:
            raise InvalidInputError(
                ErrorKind.PART_TOO_SMALL,
                f"part {part.number} has {part.size_bytes} bytes: all but the last have at least {S3_PART_BYTES_MIN}",
            )
    return chosen


def _etag(parts: Sequence[UploadedPart]) -> str:
    """Return the ETag of an object made of these parts: it tells one list of parts from another."""
    md5s = b"".join(bytes.fromhex(part.md5) for part in parts)
    return f"{hashlib.md5(md5s, usedforsecurity=False).hexdigest()}-{len(parts)}"


def _shows(entry: Entry, upload: PartUpload) -> bool:
    """Return whether an entry is alike to the one that an upload has staged: a commit may have kept that one's address."""
    metadata = {name: value for name, value in entry.metadata.items() if name != PARTS_KEY}
    shown = (entry.checksum, entry.content_type, metadata)
    return not entry.is_external and shown == (upload.checksum, upload.content_type, dict(upload.metadata))


def _part_sizes(parts: Sequence[UploadedPart]) -> dict[str, str]:
    """Return the metadata that says where parts begin, unless it would be too long."""
    packed = pack_parts([part.size_bytes for part in parts])
    return {PARTS_KEY: packed} if len(packed) <= METADATA_BYTES_MAX else {}


def _id_prefix(begun: Instant) -> str:
    """Return what ids of uploads that began then start with. Ids of an older lakebed are random, and sort before these."""
    return f"w{encode_base32(begun, width=12)}"


def _upload_key(upload: str) -> bytes:
    return UPLOADS_PREFIX + upload.encode()


def _parts_prefix(upload: str) -> bytes:
    return b"parts/%s/" % upload.encode()


def _part_key(upload: str, number: int) -> bytes:
    return b"%s%05d" % (_parts_prefix(upload), number)
