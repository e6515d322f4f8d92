"""Pieces of a stream."""

from collections.abc import AsyncIterator

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.objects.chunks import gathered, poured


async def _stream(chunks: list[bytes]) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk


@given(chunks=st.lists(st.binary(max_size=9), max_size=20), size=st.integers(1, 12))
async def test_gathered_pieces_are_the_same_bytes_and_large_enough(chunks: list[bytes], size: int) -> None:
    pieces = [piece async for piece in gathered(_stream(chunks), size)]

    assert b"".join(pieces) == b"".join(chunks)
    assert all(len(piece) >= size for piece in pieces[:-1])
    assert b"" not in pieces


async def test_a_chunk_that_is_large_enough_is_not_copied() -> None:
    chunk = b"x" * 10

    assert await anext(gathered(_stream([chunk]), 10)) is chunk


async def test_poured_chunks_are_written_in_order_while_the_next_arrives() -> None:
    events: list[str] = []

    async def chunks() -> AsyncIterator[bytes]:
        for chunk in (b"1", b"2", b"3"):
            await anyio.lowlevel.checkpoint()
            events.append(f"came {chunk.decode()}")
            yield chunk

    async def write(chunk: bytes) -> None:
        for _ in range(5):
            await anyio.lowlevel.checkpoint()
        events.append(f"wrote {chunk.decode()}")

    await poured(chunks(), write)

    assert events == ["came 1", "came 2", "wrote 1", "came 3", "wrote 2", "wrote 3"]


async def test_a_stream_that_breaks_while_it_is_poured_leaves_no_write_behind() -> None:
    written: list[bytes] = []

    async def broken() -> AsyncIterator[bytes]:
        yield b"1"
        raise KeyError("broken")

    async def write(chunk: bytes) -> None:
        await anyio.lowlevel.checkpoint()
        written.append(chunk)

    with pytest.raises(KeyError, match="broken"):
        await poured(broken(), write)

    assert written == [b"1"]


async def test_a_write_that_fails_ends_the_stream() -> None:
    async def write(chunk: bytes) -> None:
        raise OSError(chunk.decode())

    with pytest.raises(OSError, match="1"):
        await poured(_stream([b"1", b"2", b"3"]), write)
    with pytest.raises(OSError, match="last"):
        await poured(_stream([b"last"]), write)
