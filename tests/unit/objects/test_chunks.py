"""Pieces of a stream."""

from collections.abc import AsyncIterator

from hypothesis import given
from hypothesis import strategies as st

from lakebed.objects.chunks import gathered


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
