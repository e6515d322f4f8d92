"""`Digest`: MD5 and size of bytes on their way to a store.

MD5 is slower than most networks and disks, so what is large is hashed in a thread,
while the store writes the same piece and the next one arrives: an upload takes as long
as its slowest step, not as long as all of them.
"""

import asyncio
import hashlib
from collections.abc import AsyncIterator

from lakebed.env.work import Workers
from lakebed.limits import INLINE_HASH_BYTES_MAX, STREAM_CHUNK_BYTES
from lakebed.objects.chunks import gathered


class Digest:
    """What an entry says of its bytes. Right once all of them have been seen."""

    def __init__(self) -> None:
        self._md5 = hashlib.md5(usedforsecurity=False)
        self.size_bytes = 0

    @property
    def hexdigest(self) -> str:
        return self._md5.hexdigest()

    def update(self, chunk: bytes) -> None:
        """See some bytes."""
        self._md5.update(chunk)
        self.size_bytes += len(chunk)

    async def watch(self, chunks: AsyncIterator[bytes], workers: Workers) -> AsyncIterator[bytes]:
        """Yield the same bytes in larger pieces. All of them have been seen when it ends."""
        hashing: asyncio.Task[None] | None = None
        try:
            async for piece in gathered(chunks, STREAM_CHUNK_BYTES):
                # One at a time, and in order; so no more than two pieces are ever held.
                if hashing is not None:
                    await hashing
                    hashing = None
                if len(piece) <= INLINE_HASH_BYTES_MAX:
                    self.update(piece)
                else:
                    hashing = asyncio.create_task(workers.run(self.update, piece))
                yield piece
        finally:
            if hashing is not None:
                await hashing
