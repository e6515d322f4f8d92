"""An object on its way: bytes that arrive in pieces, in a scratch file until they are whole. Blocking."""

import os

from lakebed.objects.local.faults import translated
from lakebed.objects.local.opening import OpenRoot
from lakebed.objects.local.uploads import copy_bytes
from lakebed.objects.port import ETag, PutWhen


class Spool:
    """Write, then `finish`; `close` in any case."""

    def __init__(self, root: OpenRoot) -> None:
        self._root = root
        with translated(root.path):
            self._name, self._fd = root.scratch.create()
        self._named = False

    def write(self, data: bytes | bytearray) -> None:
        """Add bytes at the end."""
        with translated(self._root.path):
            self._root.disk.write(self._fd, memoryview(data))

    def append(self, source: int) -> None:
        """Add all of the file `source` at the end."""
        with translated(self._root.path):
            copy_bytes(self._root.disk, source, self._fd)

    def finish(self, key: str, when: PutWhen) -> ETag:
        """Make the object of what was written; errors as for `ObjectStore.put`."""
        etag = self._root.changes.put_file(key, self._name, self._fd, when=when)
        self._named = True
        return etag

    def close(self) -> None:
        """Release the file; without `finish` nothing is left of it."""
        os.close(self._fd)
        if not self._named:
            self._root.scratch.discard(self._name)
