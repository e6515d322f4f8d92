"""`ObstoreStore`: a namespace on S3 or in a folder, through obstore.

Listings come as Arrow, so that no Python object is made for each of millions. What can be
repeated is repeated by obstore itself on S3; a listing that breaks off is an error.

Whoever copies deletes the source next, so a copy counts only when the store says that it is as large as its source, and
only a source that is not there is called missing: not an upload in parts that somebody has ended meanwhile.
"""

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import obstore
import pyarrow as pa
import pyarrow.compute as pc
from obstore.exceptions import BaseError
from obstore.store import LocalStore, ObjectStore, S3Store

from lakebed.env.clock import SECOND, Instant
from lakebed.errors import ErrorKind, InvalidInputError, LakebedError, NotFoundError, UnavailableError
from lakebed.format.gc import OBJECTS_FILE
from lakebed.limits import GC_ATTEMPTS_MAX, GIB, PARTS_MAX, S3_PART_BYTES_MIN, S3_TIMEOUT_SECONDS
from lakebed.spark.gc.ports import Folder, StorePlace

# Objects in one piece of a listing.
_PAGE_ROWS: Final = 50_000
# What S3 copies in one request. Above it parts are read and written, of one object at a time: about three of them are in
# memory, of 5 MiB up to objects of 48 GiB, and of 525 MiB for the largest that S3 takes.
_COPIED_BYTES_MAX: Final = 5 * GIB
_PARTS_AT_ONCE: Final = 2
_FAILURES: Final = (BaseError, OSError, ValueError)


class ObstoreStore:
    """A `Store` over one of obstore's. It pickles, so that executors can have it."""

    def __init__(self, store: ObjectStore, *, prefix: str = "", folder: Path | None = None) -> None:
        """`prefix` is what all keys begin with in the store, `folder` where a store in a folder has its root."""
        self._store = store
        self._folder = folder
        self._prefix = f"{prefix.strip('/')}/" if prefix.strip("/") else ""
        self._turn: tuple[asyncio.AbstractEventLoop, asyncio.Lock] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_turn": None}  # A lock belongs to the loop that it was made for.

    async def get(self, key: str) -> bytes:
        try:
            found = await obstore.get_async(self._store, self._prefix + key)
            return bytes(await found.bytes_async())
        except _FAILURES as error:
            raise _translated(error, f"reading {key}") from error

    async def put(self, key: str, data: bytes) -> None:
        try:
            await obstore.put_async(self._store, self._prefix + key, data)
        except _FAILURES as error:
            raise _translated(error, f"writing {key}") from error

    async def mtime(self, key: str) -> Instant:
        return (await self._look(key))[0]

    async def folder(self, prefix: str) -> Folder:
        try:
            found = await obstore.list_with_delimiter_async(
                self._store, self._whole(prefix), return_arrow=True
            )
        except _FAILURES as error:
            raise _translated(error, f"listing {prefix or 'the namespace'}") from error
        # A common prefix is a whole name: of it only the last part is the folder's.
        names = [whole.rstrip("/").rsplit("/", 1)[-1] for whole in found["common_prefixes"]]
        return Folder(folders=names, objects=self._objects(pa.table(found["objects"])))

    async def list(self, prefix: str) -> AsyncIterator[pa.Table]:
        stream = obstore.list(self._store, self._whole(prefix), chunk_size=_PAGE_ROWS, return_arrow=True)
        try:
            async for batch in stream:
                yield self._objects(pa.Table.from_batches([pa.record_batch(batch)]))
        except _FAILURES as error:
            raise _translated(error, f"listing {prefix}") from error

    async def delete(self, keys: Sequence[str]) -> None:
        names = [self._prefix + key for key in keys]
        if not names:
            return
        try:
            await obstore.delete_async(self._store, names)
        except FileNotFoundError:
            await self._delete_each(names)
        except _FAILURES as error:
            raise _translated(error, f"deleting {len(names)} objects") from error
        if self._folder is not None:
            # Some milliseconds for a thousand objects in as many folders.
            _prune(self._folder, {name.rpartition("/")[0] for name in names})

    async def copy(self, source: str, target: str) -> None:
        _, size = await self._look(source)
        try:
            await obstore.copy_async(self._store, self._prefix + source, self._prefix + target)
        except _FAILURES as error:
            if size <= _COPIED_BYTES_MAX:
                raise _failed(error, f"copying {source}") from error
            async with self._one_at_a_time():
                await self._copy_in_parts(source, target, size)
        await self._require_size(target, size)

    async def _copy_in_parts(self, source: str, target: str, size: int) -> None:
        """Copy what the store does not copy in one request, through this machine; obstore cannot ask it for parts."""
        part_bytes = max(S3_PART_BYTES_MIN, -(-size // PARTS_MAX))

        async def pieces() -> AsyncIterator[bytes]:
            # No larger than the smallest part, since what is read comes on top of the parts that are being written.
            for start in range(0, size, S3_PART_BYTES_MIN):
                end = min(start + S3_PART_BYTES_MIN, size)
                found = await obstore.get_range_async(
                    self._store, self._prefix + source, start=start, end=end
                )
                yield bytes(found)

        try:
            await obstore.put_async(
                self._store,
                self._prefix + target,
                pieces(),
                use_multipart=True,
                chunk_size=part_bytes,
                max_concurrency=_PARTS_AT_ONCE,
            )
        except _FAILURES as error:
            raise _failed(error, f"copying {source} in parts") from error

    def _one_at_a_time(self) -> asyncio.Lock:
        """Return the lock of this loop: a store is used in one after another."""
        loop = asyncio.get_running_loop()
        if self._turn is None or self._turn[0] is not loop:
            self._turn = (loop, asyncio.Lock())
        return self._turn[1]

    async def _require_size(self, copy: str, size: int) -> None:
        """Refuse a copy that is not as large as its source."""
        found: int | None = None
        with suppress(NotFoundError):
            _, found = await self._look(copy)
        if found != size:
            has = "is not there" if found is None else f"has {found} bytes"
            raise UnavailableError(
                ErrorKind.STORE_UNAVAILABLE,
                f"the copy {copy} {has}, and its source has {size} bytes: nothing was deleted for it. Run again",
            )

    async def _look(self, key: str) -> tuple[Instant, int]:
        """Return when an object was written, and its size."""
        try:
            found = await obstore.head_async(self._store, self._prefix + key)
        except _FAILURES as error:
            raise _translated(error, f"looking at {key}") from error
        return _instant(found["last_modified"]), found["size"]

    async def _delete_each(self, names: Sequence[str]) -> None:
        """Delete what is left of objects of which some are gone: a folder stops at the first of those."""
        for name in names:
            try:
                with suppress(FileNotFoundError):
                    await obstore.delete_async(self._store, name)
            except _FAILURES as error:
                raise _translated(error, f"deleting {name}") from error

    def _whole(self, prefix: str) -> str | None:
        return self._prefix + prefix or None

    def _objects(self, listed: pa.Table) -> pa.Table:
        names = pc.utf8_slice_codeunits(listed.column("path"), len(self._prefix))
        columns = [names, listed.column("size"), pc.cast(listed.column("last_modified"), pa.int64())]
        table = pa.table(columns, names=OBJECTS_FILE.schema.names)
        return table.cast(OBJECTS_FILE.schema)


def open_place(
    place: StorePlace, environment: Mapping[str, str], *, attempts_max: int = GC_ATTEMPTS_MAX
) -> ObstoreStore:
    """Return the store of a namespace. Credentials are this process's own, under the names that the server knows.

    Raises:
        InvalidInputError: `INVALID_NAMESPACE`: no job reaches such a place.
    """
    parts = urlsplit(place.url)
    if place.kind == "local":
        folder = Path(f"/{parts.netloc}{parts.path}" if parts.netloc else parts.path)
        if parts.netloc or not folder.is_dir():
            raise InvalidInputError(
                ErrorKind.INVALID_NAMESPACE,
                f"the folder of {place.url} is not on this machine: run the job where the server runs, or on S3",
            )
        return ObstoreStore(LocalStore(folder, automatic_cleanup=False), folder=folder)
    if place.kind != "s3":
        raise InvalidInputError(
            ErrorKind.INVALID_NAMESPACE, f"the job cannot reach {place.url}: only S3 and folders"
        )
    return ObstoreStore(_open_s3(place, parts.netloc, environment, attempts_max), prefix=parts.path)


def _open_s3(place: StorePlace, bucket: str, environment: Mapping[str, str], attempts_max: int) -> S3Store:
    def setting(name: str, *others: str) -> str:
        return next(
            (environment[n] for n in (f"LAKEBED_STORAGE_S3_{name}", *others) if environment.get(n)), ""
        )

    endpoint = setting("ENDPOINT", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL") or place.endpoint
    path_style = place.path_style if place.path_style is not None else bool(endpoint)
    config: dict[str, Any] = {
        "region": setting("REGION", "AWS_REGION", "AWS_DEFAULT_REGION") or place.region or "us-east-1",
        "virtual_hosted_style_request": not path_style,
    }
    if endpoint:
        host = urlsplit(endpoint)
        netloc = host.netloc if path_style else f"{bucket}.{host.netloc}"
        config["endpoint"] = f"{host.scheme}://{netloc}"
    # Both halves of a key come from one place. Without one, obstore asks the machine that it runs on.
    if own := environment.get("LAKEBED_STORAGE_S3_ACCESS_KEY_ID"):
        pair = (own, setting("SECRET_ACCESS_KEY"), setting("SESSION_TOKEN"))
    else:
        names = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
        pair = (environment.get(names[0], ""), environment.get(names[1], ""), environment.get(names[2], ""))
    fields = ("access_key_id", "secret_access_key", "session_token")
    config |= {name: value for name, value in zip(fields, pair, strict=True) if value}
    return S3Store(
        bucket,
        config=config,  # type: ignore[arg-type]  # a TypedDict of what is known only now
        client_options={
            "allow_http": endpoint.startswith("http://"),
            "read_timeout": timedelta(seconds=S3_TIMEOUT_SECONDS),
            "timeout": timedelta(hours=1),
        },
        retry_config={"max_retries": attempts_max},
    )


def _prune(root: Path, paths: Collection[str]) -> None:
    """Remove folders, and those above them, as far as they are empty. The root stays.

    Whoever is about to write into one of them makes it anew: the server's own processes do the same to each other.
    """
    for path in paths:
        for part in (Path(path), *Path(path).parents)[:-1]:
            try:
                (root / part).rmdir()
            except OSError:
                break  # Not empty, or another was faster. An empty folder does no harm either.


def _instant(moment: datetime) -> Instant:
    return Instant(round(moment.timestamp() * SECOND))


def _translated(error: Exception, what: str) -> LakebedError:
    if isinstance(error, FileNotFoundError):
        return NotFoundError(ErrorKind.KEY_NOT_FOUND, f"{what}: it is not there")
    return _failed(error, what)


def _failed(error: Exception, what: str) -> UnavailableError:
    said = str(error).splitlines()[0] if str(error) else repr(error)
    return UnavailableError(ErrorKind.STORE_UNAVAILABLE, f"{what} failed: {said}")
