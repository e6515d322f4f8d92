"""MD5 and size of bytes that pass by."""

import hashlib
from collections.abc import AsyncIterator, Callable
from typing import ParamSpec, TypeVar

import anyio
import pytest

from lakebed.catalog.digests import Digest
from lakebed.env.work import InlineWorkers
from lakebed.limits import STREAM_CHUNK_BYTES

P = ParamSpec("P")
T = TypeVar("T")


class _HeldWorkers(InlineWorkers):
    """Work that is begun and ends when it is let go."""

    def __init__(self) -> None:
        self.begun = 0
        self.let_go = anyio.Event()

    async def run(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        self.begun += 1
        await self.let_go.wait()
        return await super().run(function, *args, **kwargs)


async def _stream(*chunks: bytes) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk


@pytest.mark.parametrize("size", [0, 1, STREAM_CHUNK_BYTES, 3 * STREAM_CHUNK_BYTES + 5])
async def test_a_digest_is_of_all_that_passed(size: int) -> None:
    data = (b"0123456789abcdefg" * (size // 17 + 1))[:size]
    digest = Digest()
    pieces = [data[start : start + 70_000] for start in range(0, size, 70_000)]

    passed = [piece async for piece in digest.watch(_stream(*pieces), InlineWorkers())]

    assert b"".join(passed) == data
    assert digest.hexdigest == hashlib.md5(data, usedforsecurity=False).hexdigest()
    assert digest.size_bytes == size


async def test_a_piece_is_passed_on_while_it_is_hashed_and_the_end_waits_for_the_hash() -> None:
    workers, digest = _HeldWorkers(), Digest()
    chunk = b"x" * STREAM_CHUNK_BYTES
    watched = digest.watch(_stream(chunk), workers)

    assert await anext(watched) == chunk
    assert digest.size_bytes == 0
    workers.let_go.set()
    assert [piece async for piece in watched] == []
    assert (workers.begun, digest.size_bytes) == (1, len(chunk))
    assert digest.hexdigest == hashlib.md5(chunk, usedforsecurity=False).hexdigest()


async def test_what_goes_wrong_in_a_stream_is_told_as_it_is() -> None:
    async def broken() -> AsyncIterator[bytes]:
        yield b"x" * STREAM_CHUNK_BYTES
        raise KeyError("broken")

    with pytest.raises(KeyError, match="broken"):
        async for _ in Digest().watch(broken(), InlineWorkers()):
            pass
