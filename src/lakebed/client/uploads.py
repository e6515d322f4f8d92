"""The body and headers of an upload."""

import hashlib
import mimetypes
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import IO, Final

from lakebed.errors import CorruptError, ErrorKind, InvalidInputError
from lakebed.limits import STREAM_CHUNK_BYTES

_DEFAULT_TYPE: Final = "application/octet-stream"
_METADATA_HEADER: Final = "x-lakefs-meta-"
# What survives the trip as a header: names lose their case, values cannot hold control characters.
_NAME: Final = re.compile(r"[a-z0-9!#$%&'*+.^_`|~-]+")
_VALUE: Final = re.compile(r"[^\x00-\x1f\x7f]*")
_MD5: Final = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadOptions:
    """What goes along with an object's bytes, and on what condition it is written."""

    content_type: str | None = None
    """None: as the path's ending says."""
    metadata: Mapping[str, str] = field(default_factory=dict)
    if_absent: bool = False
    """Only if there is no object at the path."""
    if_checksum: str | None = None
    """Only over the object of this checksum."""

    @property
    def is_conditional(self) -> bool:
        return self.if_absent or self.if_checksum is not None

    def type_of(self, path: str) -> str:
        """Return the content type of an object at `path`."""
        return self.content_type or mimetypes.guess_type(path)[0] or _DEFAULT_TYPE

    def conditions(self) -> dict[str, str]:
        """Return the request headers of the condition."""
        found = {}
        if self.if_absent:
            found["If-None-Match"] = "*"
        if self.if_checksum is not None:
            found["If-Match"] = f'"{self.if_checksum}"'
        return found

    def headers(self, path: str) -> dict[str, str]:
        """Return the request headers that say so.

        Raises:
            InvalidInputError: metadata that no header can carry.
        """
        found = {"Content-Type": self.type_of(path), **self.conditions()}
        for name, value in self.metadata.items():
            if not _NAME.fullmatch(name) or not _VALUE.fullmatch(value):
                raise InvalidInputError(
                    ErrorKind.INVALID_ARGUMENT,
                    f"metadata {name!r} cannot be sent with an upload (lower-case names without spaces, values "
                    "without control characters): upload first, then use set_metadata",
                )
            found[_METADATA_HEADER + name] = value
        return found


class Body:
    """A file from where it stands to its end, sent in chunks as often as needed, and summed on the way."""

    def __init__(self, file: IO[bytes], *, on_bytes: Callable[[int], object] | None = None) -> None:
        self._file = file
        self._on_bytes = on_bytes or (lambda _count: None)
        self.seekable = file.seekable()
        self._start = file.tell() if self.seekable else 0
        self._digest = hashlib.md5(usedforsecurity=False)

    def __call__(self) -> Iterable[bytes]:
        if self.seekable:
            self._file.seek(self._start)
        self._digest = hashlib.md5(usedforsecurity=False)
        return self._chunks()

    def _chunks(self) -> Iterator[bytes]:
        while chunk := self._file.read(STREAM_CHUNK_BYTES):
            self._digest.update(chunk)
            yield chunk
            self._on_bytes(len(chunk))

    def length(self) -> int | None:
        """Return how many bytes will be sent, if the file can tell."""
        if not self.seekable:
            return None
        end = self._file.seek(0, 2)
        self._file.seek(self._start)
        return end - self._start

    @property
    def checksum(self) -> str:
        """The MD5 of what was sent the last time."""
        return self._digest.hexdigest()

    def require(self, checksum: str, path: str) -> None:
        """Raise `CorruptError` if the server has stored other bytes than were sent."""
        if is_md5(checksum) and checksum != self.checksum:
            raise CorruptError(
                ErrorKind.CHECKSUM_MISMATCH, f"{path} was changed on its way to the server: upload it again"
            )


def is_md5(checksum: str) -> bool:
    """Return whether a checksum is the MD5 of the content; objects from elsewhere may have any text."""
    return _MD5.fullmatch(checksum) is not None
