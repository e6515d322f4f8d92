"""`ObjectReader`: an object of a ref as a seekable file, fetched in ranges.

A reader shows one version of its object from the first byte to the last: every range
comes with the object's checksum, and a range of another version raises instead of
being glued to the first.
"""

import io
from typing import Any

from lakebed.client.replies import ObjectInfo
from lakebed.client.transport import Request, Transport
from lakebed.errors import ConflictError, ErrorKind


class RawObject(io.RawIOBase):
    """The unbuffered half: each read is one request."""

    def __init__(self, transport: Transport, repo: str, ref: str, info: ObjectInfo) -> None:
        super().__init__()
        self.info = info
        self._transport = transport
        self._path = ("repositories", repo, "refs", ref, "objects")
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        starts = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self.info.size_bytes}
        if whence not in starts:
            raise ValueError(f"whence {whence} must be 0, 1 or 2")
        position = starts[whence] + offset
        if position < 0:
            raise ValueError(f"position {position} lies before the beginning")
        self._position = position
        return position

    def readinto(self, buffer: Any, /) -> int:
        view = memoryview(buffer).cast("B")
        data = self._fetch(len(view))
        view[: len(data)] = data
        return len(data)

    def readall(self) -> bytes:
        return self._fetch(self.info.size_bytes)

    def _fetch(self, count: int) -> bytes:
        start, end = self._position, min(self._position + count, self.info.size_bytes)
        if start >= end:
            return b""
        checksum, data = self._range(start, end)
        if checksum != self.info.checksum or len(data) != end - start:
            raise ConflictError(
                ErrorKind.VERSION_CHANGED,
                f"{self.info.path} was overwritten while it was being read: open it again, or read a commit",
            )
        self._position = end
        return data

    def _range(self, start: int, end: int) -> tuple[str, bytes]:
        """Return some bytes, and the checksum of the object that they belong to."""
        answer = self._transport.send(
            Request(
                method="GET",
                path=self._path,
                query={"path": self.info.path},
                headers={"Range": f"bytes={start}-{end - 1}"},
            )
        )
        return answer.headers.get("etag", "").strip('"'), answer.content


class SignedObject(RawObject):
    """The same, with the bytes straight from the storage.

    A URL is signed for each read: they expire, and with a new one comes the checksum of
    the object that it leads to.
    """

    def _range(self, start: int, end: int) -> tuple[str, bytes]:
        info = self._transport.get(
            ObjectInfo, *self._path, "stat", query={"path": self.info.path, "presign": True}
        )
        answer = self._transport.send(
            Request(
                method="GET",
                signed_url=info.physical_address,
                headers={"Range": f"bytes={start}-{end - 1}"},
            )
        )
        return info.checksum, answer.content


class ObjectReader(io.BufferedReader):
    """An object as a file; small reads share a request of `buffer_bytes`."""

    raw: RawObject

    def __init__(self, raw: RawObject, buffer_bytes: int) -> None:
        super().__init__(raw, buffer_bytes)

    @property
    def info(self) -> ObjectInfo:
        return self.raw.info

    @property
    def size(self) -> int:
        """How long the object is; fsspec's callers look here."""
        return self.raw.info.size_bytes
