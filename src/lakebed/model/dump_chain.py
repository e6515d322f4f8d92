"""`DumpChain`: how far the dumps are that a server writes by itself."""

from dataclasses import dataclass

from lakebed.env.clock import Instant


@dataclass(frozen=True, slots=True)
class FullDump:
    """A dump with every commit. Those after it, up to the next full one, need it."""

    number: int
    at: Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class DumpChain:
    """The newest dump of a repository, by number, and a digest of the refs in it; `fulls` are oldest first."""

    number: int
    digest: str
    fulls: tuple[FullDump, ...]
