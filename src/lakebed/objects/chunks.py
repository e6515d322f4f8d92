"""Cut a stream of bytes into pieces of a useful size."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine


async def gathered(chunks: AsyncIterator[bytes], size_bytes_min: int) -> AsyncIterator[bytes]:
    """Yield the same bytes in pieces of at least `size_bytes_min`, the last excepted; nothing for nothing.

    A chunk that is large enough is passed on as it is: large streams are gathered at more than one place.
    """
    held: list[bytes] = []
    size_bytes = 0
    async for chunk in chunks:
        held.append(chunk)
        size_bytes += len(chunk)
        if size_bytes >= size_bytes_min:
            yield held[0] if len(held) == 1 else b"".join(held)
            held, size_bytes = [], 0
    if size_bytes:
        yield b"".join(held)


async def poured(chunks: AsyncIterator[bytes], write: Callable[[bytes], Coroutine[None, None, None]]) -> None:
    """Write every chunk, in order, each while the next one arrives. Nothing is being written when this ends."""
    writing: asyncio.Task[None] | None = None
    try:
        async for chunk in chunks:
            if writing is not None:
                await writing
            writing = asyncio.create_task(write(chunk))
    finally:
        if writing is not None:
            # Of two errors the one of `chunks` is told, and this one only looked at.
            await asyncio.gather(writing, return_exceptions=True)
    if writing is not None:
        await writing


async def held_back(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yield the same pieces, each only when the next is there: the last one only if `chunks` ended well.

    Whoever checks a stream at its end can thus still keep it from being whole on the other side.
    """
    held: bytes | None = None
    async for chunk in chunks:
        if held is not None:
            yield held
        held = chunk
    if held is not None:
        yield held
