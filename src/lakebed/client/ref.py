"""`Ref`: a branch, tag, commit or expression such as `main~2`, for reading.

A handle costs nothing: it is a name, and no request is made before something is
asked of it.
"""

import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any, Literal, overload

from lakebed.client.reader import ObjectReader, RawObject, SignedObject
from lakebed.client.replies import Change, CommitInfo, MergeBase, ObjectInfo
from lakebed.client.transport import Request, Transport
from lakebed.client.uri import Uri
from lakebed.errors import ErrorKind, InvalidInputError, NotFoundError
from lakebed.limits import PART_BYTES, STREAM_CHUNK_BYTES


class Ref:
    """One ref of one repository."""

    def __init__(self, transport: Transport, repo: str, name: str) -> None:
        self.repo = repo
        self.name = name
        self._transport = transport

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.uri()!r})"

    def __str__(self) -> str:
        return self.name

    def uri(self, path: str = "") -> str:
        """Return the name of this ref, or of an object at it, for fsspec and the command line."""
        return str(Uri(self.repo, self.name, path))

    def head(self) -> CommitInfo:
        """Return the commit that this ref names."""
        return self._transport.get(CommitInfo, "repositories", self.repo, "commits", self.name)

    def log(
        self,
        *,
        limit: int | None = None,
        first_parent: bool = False,
        objects: Sequence[str] = (),
        prefixes: Sequence[str] = (),
        since: str | None = None,
        stop_at: str | None = None,
    ) -> Iterator[CommitInfo]:
        """Yield the history, newest first; with `objects` or `prefixes`, the commits that changed them."""
        query = {
            "first_parent": first_parent or None,
            "objects": list(objects) or None,
            "prefixes": list(prefixes) or None,
            "since": since,
            "stop_at": stop_at,
        }
        return self._transport.pages(CommitInfo, *self._path("commits"), query=query, limit=limit)

    def diff(
        self,
        other: "Ref | str",
        *,
        prefix: str = "",
        delimiter: str = "",
        two_dot: bool = False,
        limit: int | None = None,
    ) -> Iterator[Change]:
        """Yield what `other` has changed since it parted from this ref; `two_dot`: what differs between them."""
        query = {
            "prefix": prefix or None,
            "delimiter": delimiter or None,
            "type": "two_dot" if two_dot else "three_dot",
        }
        return self._transport.pages(Change, *self._path("diff", str(other)), query=query, limit=limit)

    def merge_base(self, other: "Ref | str") -> MergeBase:
        """Return where the histories of this ref and of `other` part."""
        return self._transport.get(MergeBase, *self._path("merge", str(other)))

    def objects(
        self, prefix: str = "", *, delimiter: str = "", after: str = "", limit: int | None = None
    ) -> Iterator[ObjectInfo]:
        """Yield objects in the order of their paths; with a delimiter, folded into common prefixes."""
        query = {"prefix": prefix or None, "delimiter": delimiter or None, "after": after or None}
        return self._transport.pages(ObjectInfo, *self._path("objects", "ls"), query=query, limit=limit)

    def stat(self, path: str) -> ObjectInfo:
        """Return what is known of an object.

        Raises:
            NotFoundError: there is no such object, or no such ref.
        """
        return self._transport.get(ObjectInfo, *self._path("objects", "stat"), query={"path": path})

    def exists(self, path: str) -> bool:
        """Return whether there is an object at `path`."""
        try:
            self.stat(path)
        except NotFoundError:
            return False
        return True

    def read(self, path: str) -> bytes:
        """Return an object's bytes, in one request; `open` is for large ones."""
        request = Request(method="GET", path=self._path("objects"), query={"path": path})
        return self._transport.send(request).content

    @overload
    def open(self, path: str, mode: Literal["rb", "wb", "xb"] = ..., **options: Any) -> IO[bytes]: ...
    @overload
    def open(self, path: str, mode: Literal["r", "rt", "w", "wt", "x", "xt"], **options: Any) -> IO[str]: ...
    def open(self, path: str, mode: str = "rb", **options: Any) -> IO[Any]:
        """Open an object as a file: `rb`, or `r` for text; a branch also takes `wb`, `w`, `xb` and `x`.

        Options: `encoding` and `newline` for text, `buffer_bytes` for reading, `presigned` to read
        straight from the storage.
        """
        if mode not in ("rb", "r", "rt"):
            raise InvalidInputError(
                ErrorKind.INVALID_ARGUMENT,
                f"mode {mode!r}: a ref is read with 'rb' or 'r', and a branch written",
            )
        presigned = options.pop("presigned", False)
        reader = self.reader(self.stat(path), options.pop("buffer_bytes", None), presigned=presigned)
        return _readable(reader, mode, options)

    def reader(
        self, info: ObjectInfo, buffer_bytes: int | None = None, *, presigned: bool = False
    ) -> ObjectReader:
        """Return an object that is known already as a file: `open` without the first request."""
        kind = SignedObject if presigned else RawObject
        raw = kind(self._transport, self.repo, self.name, info)
        return ObjectReader(raw, buffer_bytes or STREAM_CHUNK_BYTES)

    def presign(self, path: str) -> ObjectInfo:
        """Return an object whose `physical_address` is a URL that lets anyone read it, until its expiry.

        Raises:
            InvalidInputError: the storage cannot sign URLs.
        """
        return self._transport.get(
            ObjectInfo, *self._path("objects", "stat"), query={"path": path, "presign": True}
        )

    def download(self, path: str, to: Path | IO[bytes], *, presigned: bool = False) -> ObjectInfo:
        """Copy an object to a local file, in constant memory; `presigned` straight from the storage."""
        reader = self.reader(self.stat(path), presigned=presigned)
        if isinstance(to, Path):
            with to.open("wb") as file:
                _copy(reader, file)
        else:
            _copy(reader, to)
        return reader.info

    def _path(self, *below: str) -> tuple[str, ...]:
        return ("repositories", self.repo, "refs", self.name, *below)


def _readable(reader: ObjectReader, mode: str, options: dict[str, Any]) -> IO[Any]:
    if mode == "rb":
        return reader
    return io.TextIOWrapper(
        reader, encoding=options.get("encoding") or "utf-8", newline=options.get("newline")
    )


def _copy(reader: ObjectReader, to: IO[bytes]) -> None:
    while chunk := reader.raw.read(PART_BYTES):
        to.write(chunk)
