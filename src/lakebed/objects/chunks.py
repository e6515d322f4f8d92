"""Cut a stream of bytes into pieces of a useful size."""

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
