"""`Spool`: bodies that are too large for memory and must be seen whole before anything is done with them."""

import asyncio
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import IO

from lakebed.env.work import Workers
from lakebed.errors import ErrorKind, InvalidInputError
from lakebed.limits import SEGMENT_CHECKS_AT_ONCE, STREAM_CHUNK_BYTES


class Spool:
    """A folder for them, and a gate for what takes much memory to look at."""

    def __init__(self, folder: Path, workers: Workers) -> None:
        self._folder = folder
        self._workers = workers
        self.gate = asyncio.Semaphore(SEGMENT_CHECKS_AT_ONCE)

    @asynccontextmanager
    async def receive(self, chunks: AsyncIterator[bytes], *, bytes_max: int) -> AsyncIterator[Path]:
        """Yield a file with a body's bytes, which is gone afterwards.

        Raises:
            InvalidInputError: `TOO_LARGE`: there are more than `bytes_max`.
        """
        with tempfile.NamedTemporaryFile(prefix="spool-", dir=self._folder) as file:
            await self._write(file, chunks, bytes_max)
            yield Path(file.name)

    async def _write(self, file: IO[bytes], chunks: AsyncIterator[bytes], bytes_max: int) -> None:
        held: list[bytes] = []
        size = waiting = 0
        async for chunk in chunks:
            size += len(chunk)
            if size > bytes_max:
                raise InvalidInputError(ErrorKind.TOO_LARGE, f"body: more than {bytes_max} bytes")
            held.append(chunk)
            waiting += len(chunk)
            if waiting >= STREAM_CHUNK_BYTES:
                await self._workers.run(file.write, b"".join(held))
                held, waiting = [], 0
        await self._workers.run(file.write, b"".join(held))
        await self._workers.run(file.flush)
