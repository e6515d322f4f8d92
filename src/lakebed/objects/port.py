"""`ObjectStore`: flat names to immutable bytes, and its contract.

A store is rooted at one place (a bucket and prefix, a folder): keys are
relative to it, and no key can name anything outside. A key is 1 to 1,024 bytes
of UTF-8 and comes back exactly as it went in; a driver that cannot keep one
raises `InvalidInputError` (`INVALID_KEY`) instead of changing it.

Every method may raise `UnavailableError`; a write that did so with
`OUTCOME_UNKNOWN` may have been applied.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NewType, Protocol, TypeAlias

from lakebed.env.clock import Instant

ETag = NewType("ETag", str)
"""Opaque; changes whenever an object's bytes are replaced. Without quotes."""


class PutMode(Enum):
    """Conditions of a put that need no value."""

    CREATE = "create"
    """Only if the key does not exist."""
    OVERWRITE = "overwrite"
    """Whatever is there."""


@dataclass(frozen=True, slots=True)
class IfMatch:
    """Only if the object is there with this ETag."""

    etag: ETag


PutWhen: TypeAlias = PutMode | IfMatch


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectInfo:
    """What a store tells about an object without reading it."""

    key: str
    size_bytes: int
    mtime: Instant
    etag: ETag
    storage_class: str = ""
    """How the store keeps it, in the store's words. Only some stores know, and they tell it in listings."""


@dataclass(frozen=True, slots=True)
class ByteRange:
    """Bytes `start` (inclusive) to `end` (exclusive; None means the end of the object)."""

    start: int
    end: int | None = None


@dataclass(frozen=True, slots=True)
class Part:
    """One uploaded part of a multipart upload."""

    number: int
    etag: ETag
    size_bytes: int


@dataclass(frozen=True, slots=True)
class OpenUpload:
    """A multipart upload that was neither completed nor aborted."""

    key: str
    upload: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What a driver can do."""

    if_match: bool
    sign: bool
    multipart: bool


class ObjectStore(Protocol):
    """See the module's docstring."""

    @property
    def capabilities(self) -> Capabilities: ...

    async def put(self, key: str, data: bytes, *, when: PutWhen = PutMode.CREATE) -> ETag:
        """Store `data` whole or not at all; durable when it returns.

        Raises:
            AlreadyExistsError: `KEY_EXISTS`: `CREATE`, and the key exists.
            PreconditionError: `CONDITION_FAILED`: `IfMatch`, and the object differs or is gone.
        """
        ...

    async def put_stream(
        self, key: str, chunks: AsyncIterator[bytes], *, when: PutWhen = PutMode.CREATE
    ) -> ETag:
        """Like `put`, in constant memory. If `chunks` raises, nothing becomes visible."""
        ...

    async def get(self, key: str, *, byte_range: ByteRange | None = None) -> bytes:
        """Return the bytes. A range that ends past the object is cut short.

        Raises:
            NotFoundError: `KEY_NOT_FOUND`.
            InvalidInputError: `RANGE_NOT_SATISFIABLE`: the range starts at or past the end of the object;
                `INVALID_ARGUMENT`: it is empty or begins before 0.
        """
        ...

    def stream(self, key: str, *, byte_range: ByteRange | None = None) -> AsyncIterator[bytes]:
        """Yield the bytes in chunks; errors as for `get`, before the first chunk."""
        ...

    async def head(self, key: str) -> ObjectInfo | None:
        """Return what is known of the object, or None if there is none."""
        ...

    def list(
        self, prefix: str = "", *, start_after: str = "", page_items_max: int = 1000
    ) -> AsyncIterator[Sequence[ObjectInfo]]:
        """Yield non-empty pages of the objects whose key begins with `prefix` (any text) and is greater than
        `start_after`, in the order of the keys' UTF-8 bytes.
        """
        ...

    async def delete(self, keys: Sequence[str]) -> None:
        """Remove the objects. Missing ones are no error. Any number of keys."""
        ...

    async def copy(self, source: str, target: str) -> ETag:
        """Copy an object inside the store; the target is created or replaced.

        Raises:
            NotFoundError: `KEY_NOT_FOUND`: there is no `source`.
        """
        ...

    async def sign(
        self, method: str, key: str, *, seconds: int, answer: Mapping[str, str] | None = None
    ) -> str:
        """Return a URL that lets anyone `method` (GET, PUT) the object for that long.

        `answer` are headers that the store shall answer a GET with: `content-type`, `content-disposition`.

        Raises:
            InvalidInputError: `UNSUPPORTED`: this store cannot sign.
        """
        ...

    async def sign_parts(
        self, key: str, upload: str, numbers: Sequence[int], *, seconds: int
    ) -> Sequence[str]:
        """Return, for each number, a URL that lets anyone PUT that part of a multipart upload for that long.

        Whether there is such an upload is not looked at: a URL of one that is not there is refused when it is used.

        Raises:
            InvalidInputError: `UNSUPPORTED`: this store cannot sign; `INVALID_ARGUMENT`: no part has this number.
        """
        ...

    async def create_upload(self, key: str) -> str:
        """Start a multipart upload and return its id. It survives this process."""
        ...

    async def put_part(self, key: str, upload: str, number: int, data: bytes) -> Part:
        """Store one part (numbers from 1; again replaces it).

        Raises:
            NotFoundError: `UPLOAD_NOT_FOUND`: there is no such upload of this key.
            InvalidInputError: `INVALID_ARGUMENT`: no part has this number.
        """
        ...

    async def put_part_stream(
        self, key: str, upload: str, number: int, chunks: AsyncIterator[bytes], *, size_bytes: int
    ) -> Part:
        """Like `put_part`, in constant memory. The chunks are `size_bytes` in all.

        If `chunks` raises, also at its very end, the part is what it was before.

        Raises:
            InvalidInputError: `INVALID_ARGUMENT`: they are more or less.
        """
        ...

    async def copy_part(
        self, key: str, upload: str, number: int, source: str, *, byte_range: ByteRange | None = None
    ) -> Part:
        """Store bytes of the object `source` as a part; errors as for `put_part` and, of the source, for `get`."""
        ...

    async def complete_upload(self, key: str, upload: str, parts: Sequence[Part]) -> ETag:
        """Make the object of the parts, which are given by rising number, and end the upload.

        The object is created or replaced. Parts that are not given are dropped.

        Raises:
            NotFoundError: `UPLOAD_NOT_FOUND`.
            InvalidInputError: `INVALID_ARGUMENT`: no parts, not rising, or one that is not there as given.
        """
        ...

    async def abort_upload(self, key: str, upload: str) -> None:
        """End the upload and free its parts. A missing one is no error."""
        ...

    def list_uploads(self) -> AsyncIterator[Sequence[OpenUpload]]:
        """Yield non-empty pages of the multipart uploads that are open, whichever process began them, in no order."""
        ...

    async def remove_if_empty(self) -> bool:
        """Remove what the driver itself keeps at the place, if there is neither an object nor an upload.

        Return False if another call, of this process or another, uses the store: the caller tries again later. A
        store that is not empty stays as it is, and the answer is True. The store can be used again afterwards.
        """
        ...

    async def close(self) -> None:
        """Release connections and files. Calls under way end first."""
        ...
