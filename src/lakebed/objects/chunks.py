"""Cut a stream of bytes into pieces of a useful size."""

import asyncio
from collections.abc import AsyncIterator


async def gathered(chunks: AsyncIterator[bytes], size_bytes_min: int) -> AsyncIterator[bytes]:
    """Yield the same bytes in pieces of at least `size_bytes_min`, the last excepted; nothing for nothing."""
    buffer = bytearray()
    async for chunk in chunks:
        buffer += chunk
        if len(buffer) >= size_bytes_min:
            yield bytes(buffer)
            buffer = bytearray()
    if buffer:
        yield bytes(buffer)


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


async def read_ahead(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yield the same pieces while the next is already on its way: who hashes need not wait for who writes."""

    async def following() -> bytes | None:
        return await anext(chunks, None)

    pending = asyncio.create_task(following())
    try:
        while (chunk := await pending) is not None:
            pending = asyncio.create_task(following())
            yield chunk
    finally:
        pending.cancel()
        await asyncio.wait([pending])
        if not pending.cancelled():
            # Asked for, so that nobody takes it for forgotten: whoever reads on would have been told.
            pending.exception()
