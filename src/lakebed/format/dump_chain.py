"""The record of a repository's own dumps as a KV value (see `codec` for the version byte and what may change)."""

from typing import Final

from lakebed.env.clock import Instant
from lakebed.format.codec import Codec, Stored
from lakebed.model.dump_chain import DumpChain, FullDump


class _Full(Stored):
    number: int
    at: Instant


class _Chain(Stored):
    number: int
    digest: str
    fulls: tuple[_Full, ...]


_CHAIN: Final = Codec[_Chain]("dump chain", 1, _Chain)


def encode_dump_chain(chain: DumpChain) -> bytes:
    """Return the record as its KV value."""
    fulls = tuple(_Full(full.number, full.at) for full in chain.fulls)
    return _CHAIN.seal(_Chain(chain.number, chain.digest, fulls))


def decode_dump_chain(data: bytes) -> DumpChain:
    """Return what `encode_dump_chain` was given, or raise `CorruptError`."""
    found = _CHAIN.open(data)
    fulls = tuple(FullDump(full.number, full.at) for full in found.fulls)
    return DumpChain(number=found.number, digest=found.digest, fulls=fulls)
