"""A bucket, or a prefix of one, on anything that speaks S3.

Objects go through obstore. Listings and multipart uploads are our own requests:
obstore changes some keys when it lists them, and has no uploads by id.

Nothing is retried here when it writes: whether a write that got no answer was
applied is the caller's to find out. Keys come in the server's order, which S3
defines as byte order; SeaweedFS lists folder by folder instead.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

import obstore
from obstore.exceptions import AlreadyExistsError as ObstoreExists
from obstore.exceptions import PreconditionError as ObstorePrecondition
from obstore.store import S3Store

from lakebed.env.clock import SECOND, Clock, Instant, SystemClock
from lakebed.env.work import ThreadWorkers, Workers
from lakebed.errors import ErrorKind, InvalidInputError, LakebedError
from lakebed.limits import (
    DELETE_BATCH,
    PART_BYTES,
    PARTS_IN_FLIGHT,
    S3_TIMEOUT_SECONDS,
    SIGN_SECONDS_MAX,
    STREAM_CHUNK_BYTES,
)
from lakebed.objects.checks import (
    check_part_number,
    check_parts,
    check_range,
    condition_failed,
    cut_range,
    key_exists,
    key_missing,
    wrong_size,
)
from lakebed.objects.chunks import gathered, held_back
from lakebed.objects.port import (
    ByteRange,
    Capabilities,
    ETag,
    IfMatch,
    ObjectInfo,
    OpenUpload,
    Part,
    PutMode,
    PutWhen,
)
from lakebed.objects.s3.names import whole_name
from lakebed.objects.s3.obstore_errors import ObstoreFailure, status_of, translate
from lakebed.objects.s3.place import S3Place
from lakebed.objects.s3.replies import clean_etag, failure, parse_list, parse_uploads
from lakebed.objects.s3.requests import S3Requests
from lakebed.objects.s3.signing import presigned_url
from lakebed.objects.s3.uploads import S3Uploads

# Requests of our own at a time: pages of listings and parts of uploads.
_THREADS: Final = 8
_SIGNABLE: Final = frozenset({"GET", "HEAD", "PUT", "DELETE"})
_RANGE_NOT_SATISFIABLE: Final = 416


class S3Objects:
    """An `ObjectStore` at an `S3Place`."""

    def __init__(self, place: S3Place, *, clock: Clock | None = None, workers: Workers | None = None) -> None:
        self._place = place
        self._clock = clock or SystemClock()
        self._own: ThreadWorkers | None = None
        if workers is None:
            workers = self._own = ThreadWorkers(_THREADS)
        self._workers = workers
        self._reads = _open(place, retries=3)
        self._writes = _open(place, retries=0)
        self._requests = S3Requests(place, self._clock)
        self._uploads = S3Uploads(self._requests)
        self.capabilities = Capabilities(if_match=True, sign=True, multipart=True)

    async def put(self, key: str, data: bytes, *, when: PutWhen = PutMode.CREATE) -> ETag:
        name = whole_name(self._place, key)
        mode: obstore.PutMode = {"e_tag": f'"{when.etag}"'} if isinstance(when, IfMatch) else when.value
        try:
            result = await obstore.put_async(self._writes, name, data, mode=mode, use_multipart=False)
        except ObstoreFailure as error:
            raise _put_failure(error, key, when) from error
        return clean_etag(result["e_tag"] or "")

    async def put_stream(
        self, key: str, chunks: AsyncIterator[bytes], *, when: PutWhen = PutMode.CREATE
    ) -> ETag:
        name = whole_name(self._place, key)
        pieces = gathered(chunks, PART_BYTES)
        begun = [await anext(pieces, b""), await anext(pieces, b"")]
        if not begun[1]:
            return await self.put(key, begun[0], when=when)
        upload = await self._workers.run(self._uploads.create, name)
        try:
            parts = await self._put_parts(key, upload, _chained(begun, pieces))
            return await self._workers.run(self._uploads.complete, name, upload, parts, key=key, when=when)
        except BaseException as error:
            if not _may_be_applied(error):
                await self._workers.run(self._uploads.abort, name, upload)
            raise

    async def get(self, key: str, *, byte_range: ByteRange | None = None) -> bytes:
        result = await self._get(key, byte_range)
        try:
            data = await result.bytes_async()
        except ObstoreFailure as error:
            raise translate(error, what=f"reading {key!r}", writing=False) from error
        return bytes(data)

    async def stream(self, key: str, *, byte_range: ByteRange | None = None) -> AsyncIterator[bytes]:
        result = await self._get(key, byte_range)
        chunks = result.stream(min_chunk_size=STREAM_CHUNK_BYTES)
        while True:
            try:
                chunk = await anext(chunks, None)
            except ObstoreFailure as error:
                raise translate(error, what=f"reading {key!r}", writing=False) from error
            if chunk is None:
                return
            yield bytes(chunk)

    async def head(self, key: str) -> ObjectInfo | None:
        name = whole_name(self._place, key)
        try:
            found = await obstore.head_async(self._reads, name)
        except FileNotFoundError:
            return None
        except ObstoreFailure as error:
            raise translate(error, what=f"looking at {key!r}", writing=False) from error
        return ObjectInfo(
            key=key,
            size_bytes=found["size"],
            mtime=Instant(round(found["last_modified"].timestamp() * SECOND)),
            etag=clean_etag(found["e_tag"] or ""),
        )

    async def list(
        self, prefix: str = "", *, start_after: str = "", page_items_max: int = 1000
    ) -> AsyncIterator[Sequence[ObjectInfo]]:
        query = {
            "list-type": "2",
            "encoding-type": "url",
            "prefix": self._place.name(prefix),
            "max-keys": str(min(page_items_max, 1000)),
        }
        if start_after:
            query["start-after"] = self._place.name(start_after)
        cut = len(self._place.name(""))
        while True:
            reply = await self._workers.run(self._requests.send, "GET", query=query)
            if reply.status != 200:
                raise failure(reply.status, reply.body, what=f"listing {prefix!r}", writing=False)
            page = await self._workers.run(parse_list, reply.body)
            # An object called like the prefix itself is a folder's marker, and no key.
            infos = [replace(info, key=info.key[cut:]) for info in page.objects if len(info.key) > cut]
            if infos:
                yield infos
            if page.next_token is None:
                return
            query["continuation-token"] = page.next_token

    async def delete(self, keys: Sequence[str]) -> None:
        names = [whole_name(self._place, key) for key in keys]
        for start in range(0, len(names), DELETE_BATCH):
            try:
                await obstore.delete_async(self._reads, names[start : start + DELETE_BATCH])
            except FileNotFoundError:
                continue
            except ObstoreFailure as error:
                raise translate(error, what=f"deleting {len(names)} objects", writing=True) from error

    async def copy(self, source: str, target: str) -> ETag:
        names = whole_name(self._place, source), whole_name(self._place, target)
        try:
            await obstore.copy_async(self._writes, *names)
        except FileNotFoundError as error:
            raise key_missing(source) from error
        except ObstoreFailure as error:
            raise translate(error, what=f"copying {source!r}", writing=True) from error
        copied = await self.head(target)
        if copied is None:
            raise key_missing(target)
        return copied.etag

    async def sign(
        self, method: str, key: str, *, seconds: int, answer: Mapping[str, str] | None = None
    ) -> str:
        _check_signable(method, seconds)
        path = self._place.path(whole_name(self._place, key))
        query = {f"response-{name}": value for name, value in (answer or {}).items()}
        return presigned_url(self._place, method, path, seconds=seconds, now=self._clock.now(), query=query)

    async def sign_parts(
        self, key: str, upload: str, numbers: Sequence[int], *, seconds: int
    ) -> Sequence[str]:
        _check_signable("PUT", seconds)
        for number in numbers:
            check_part_number(number)
        path, now = self._place.path(whole_name(self._place, key)), self._clock.now()

        def sign_all() -> Sequence[str]:
            return [
                presigned_url(
                    self._place,
                    "PUT",
                    path,
                    seconds=seconds,
                    now=now,
                    query={"partNumber": str(number), "uploadId": upload},
                )
                for number in numbers
            ]

        # Ten thousand of them take most of a second.
        return await self._workers.run(sign_all)

    async def create_upload(self, key: str) -> str:
        return await self._workers.run(self._uploads.create, whole_name(self._place, key))

    async def put_part(self, key: str, upload: str, number: int, data: bytes) -> Part:
        check_part_number(number)
        name = whole_name(self._place, key)
        return await self._workers.run(self._uploads.put_part, name, upload, number, data)

    async def _put_parts(self, key: str, upload: str, pieces: AsyncIterator[bytes]) -> Sequence[Part]:
        """Send a part for each piece, a few at a time: the next ones arrive and are signed meanwhile."""
        sending: deque[asyncio.Task[Part]] = deque()
        parts: deque[Part] = deque()
        try:
            async for piece in pieces:
                number = len(parts) + len(sending) + 1
                sending.append(asyncio.create_task(self.put_part(key, upload, number, piece)))
                if len(sending) == PARTS_IN_FLIGHT:
                    parts.append(await sending[0])
                    sending.popleft()
            while sending:
                parts.append(await sending[0])
                sending.popleft()
        finally:
            # After an error too: whoever aborts the upload then does so when nothing is on its way to it.
            await asyncio.gather(*sending, return_exceptions=True)
        return parts

    async def put_part_stream(
        self, key: str, upload: str, number: int, chunks: AsyncIterator[bytes], *, size_bytes: int
    ) -> Part:
        check_part_number(number)
        name = whole_name(self._place, key)
        sending = await self._workers.run(self._uploads.begin_part, name, upload, number, size_bytes)
        sent = 0
        try:
            # The last piece goes when all is well: a part that the server has not got whole does not exist.
            async for piece in held_back(gathered(chunks, STREAM_CHUNK_BYTES)):
                sent += len(piece)
                if sent > size_bytes:
                    break
                await self._workers.run(sending.write, piece)
            if sent != size_bytes:
                raise wrong_size(number, size_bytes)
            return await self._workers.run(self._uploads.end_part, sending, name, upload, number, size_bytes)
        finally:
            await self._workers.run(sending.close)

    async def copy_part(
        self, key: str, upload: str, number: int, source: str, *, byte_range: ByteRange | None = None
    ) -> Part:
        check_part_number(number)
        check_range(byte_range)
        name, source_name = whole_name(self._place, key), whole_name(self._place, source)
        info = await self.head(source)
        if info is None:
            raise key_missing(source)
        start, end = cut_range(byte_range, info.size_bytes)
        return await self._workers.run(
            self._uploads.copy_part, name, upload, number, self._place.source(source_name), (start, end)
        )

    async def complete_upload(self, key: str, upload: str, parts: Sequence[Part]) -> ETag:
        check_parts(parts)
        name = whole_name(self._place, key)
        return await self._workers.run(self._uploads.complete, name, upload, parts, key=key)

    async def abort_upload(self, key: str, upload: str) -> None:
        await self._workers.run(self._uploads.abort, whole_name(self._place, key), upload)

    async def list_uploads(self) -> AsyncIterator[Sequence[OpenUpload]]:
        prefix = self._place.name("")
        query = {"uploads": "", "max-uploads": "1000", "prefix": prefix}
        while True:
            reply = await self._workers.run(self._requests.send, "GET", query=query)
            if reply.status != 200:
                raise failure(reply.status, reply.body, what="listing uploads", writing=False)
            page = await self._workers.run(parse_uploads, reply.body)
            # A server may take the prefix for a folder, or for nothing.
            found = [
                replace(each, key=each.key.removeprefix(prefix))
                for each in page.uploads
                if each.key.startswith(prefix) and len(each.key) > len(prefix)
            ]
            if found:
                yield found
            if page.next_markers is None:
                return
            query["key-marker"], query["upload-id-marker"] = page.next_markers

    async def remove_if_empty(self) -> bool:
        # A bucket is made and removed by its owner; a prefix is nothing.
        return True

    async def close(self) -> None:
        if self._own is not None:
            self._own.close()
        self._requests.close()

    async def _get(self, key: str, byte_range: ByteRange | None) -> Any:
        """Return obstore's `GetResult`, which has no name at run time."""
        check_range(byte_range)
        name = whole_name(self._place, key)
        options: obstore.GetOptions = {}
        if byte_range is not None:
            start, end = byte_range.start, byte_range.end
            options["range"] = {"offset": start} if end is None else (start, end)
        try:
            return await obstore.get_async(self._reads, name, options=options)
        except FileNotFoundError as error:
            raise key_missing(key) from error
        except ObstoreFailure as error:
            if status_of(error) == _RANGE_NOT_SATISFIABLE:
                raise InvalidInputError(
                    ErrorKind.RANGE_NOT_SATISFIABLE, f"{byte_range} starts past the end of {key!r}"
                ) from error
            raise translate(error, what=f"reading {key!r}", writing=False) from error


def _open(place: S3Place, *, retries: int) -> S3Store:
    credentials = place.credentials
    scheme = "https" if place.is_encrypted else "http"
    config: obstore.store.S3Config = {
        "access_key_id": credentials.access_key_id,
        "secret_access_key": credentials.secret_access_key,
        # For virtual-hosted requests obstore wants the bucket in the endpoint.
        "endpoint": f"{scheme}://{place.host}",
        "region": place.region,
        "virtual_hosted_style_request": not place.path_style,
    }
    if credentials.session_token:
        config["session_token"] = credentials.session_token
    return S3Store(
        place.bucket,
        config=config,
        client_options={
            "allow_http": not place.is_encrypted,
            "connect_timeout": timedelta(seconds=S3_TIMEOUT_SECONDS / 3),
            "read_timeout": timedelta(seconds=S3_TIMEOUT_SECONDS),
            # Of a whole transfer: long, because a large object takes its time; silence is caught by the line above.
            "timeout": timedelta(hours=1),
        },
        retry_config={"max_retries": retries},
    )


async def _chained(begun: list[bytes], rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yield what is held, and let go of it, then the rest."""
    while begun:
        yield begun.pop(0)
    async for piece in rest:
        yield piece


def _check_signable(method: str, seconds: int) -> None:
    if method not in _SIGNABLE or not 1 <= seconds <= SIGN_SECONDS_MAX:
        raise InvalidInputError(
            ErrorKind.INVALID_ARGUMENT,
            f"a URL is signed for GET, HEAD, PUT or DELETE and 1 to {SIGN_SECONDS_MAX} seconds, "
            f"not for {method} and {seconds}",
        )


def _put_failure(error: Exception, key: str, when: PutWhen) -> LakebedError:
    if isinstance(error, ObstoreExists):
        return key_exists(key)
    if isinstance(error, ObstorePrecondition):
        return condition_failed(key)
    # If-Match on an object that is gone: S3 says that it does not exist.
    if isinstance(error, FileNotFoundError) and isinstance(when, IfMatch):
        return condition_failed(key)
    return translate(error, what=f"writing {key!r}", writing=True)


def _may_be_applied(error: BaseException) -> bool:
    return isinstance(error, LakebedError) and error.kind is ErrorKind.OUTCOME_UNKNOWN
