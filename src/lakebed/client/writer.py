"""`ObjectWriter`: a file that becomes an object when it is closed.

What is written waits on the local disk (in memory while it is small) and is sent as
one upload by `close`, so the object appears whole or not at all. Leaving a `with`
block by an exception, or letting go of the file without closing it, uploads nothing:
half of a file is not what anybody meant to write.
"""

import io
import tempfile
from collections.abc import Callable
from typing import IO, Any

from lakebed.client.replies import ObjectInfo
from lakebed.limits import PART_BYTES

Upload = Callable[[IO[bytes]], ObjectInfo]


class ObjectWriter(io.BufferedIOBase):
    """A seekable file for writing; `info` is the object, once closed."""

    def __init__(self, name: str, upload: Upload) -> None:
        super().__init__()
        self.name = name
        self.info: ObjectInfo | None = None
        self._upload = upload
        # Closed by `close` and `abort`, not by a block.
        self._spool = tempfile.SpooledTemporaryFile(max_size=PART_BYTES)  # noqa: SIM115

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is not None:
            self.abort()
        else:
            self.close()

    def __del__(self) -> None:
        self.abort()

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int:
        return self._spool.write(data)

    def tell(self) -> int:
        return self._spool.tell()

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        return self._spool.seek(offset, whence)

    def truncate(self, size: int | None = None, /) -> int:
        self._spool.truncate(size)
        return self._spool.tell() if size is None else size

    def close(self) -> None:
        """Upload what was written."""
        if self.closed:
            return
        try:
            self._spool.seek(0)
            self.info = self._upload(self._spool)
        finally:
            self.abort()

    def abort(self) -> None:
        """Forget what was written; after `close` there is nothing to forget."""
        self._spool.close()
        super().close()


class ObjectTextWriter(io.TextIOWrapper):
    """Text into an `ObjectWriter`, with the same promise about exceptions."""

    def __init__(self, writer: ObjectWriter, *, encoding: str, newline: str | None) -> None:
        super().__init__(writer, encoding=encoding, newline=newline)
        self._writer = writer

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is not None:
            self._writer.abort()
        else:
            self.close()

    def __del__(self) -> None:
        self._writer.abort()
