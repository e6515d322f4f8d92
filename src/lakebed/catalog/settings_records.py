"""Records that only the catalog's use cases know, as KV values."""

from dataclasses import dataclass, field
from typing import Final

from lakebed.env.clock import Instant
from lakebed.format.codec import Codec, Stored

GC_RULES_KEY: Final = b"settings/gc_rules"
LINKS_PREFIX: Final = b"links/"


@dataclass(frozen=True, slots=True, kw_only=True)
class GcRules:
    """For how many days what a branch no longer shows is kept. 0 days is a rule."""

    default_days: int
    branches: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkToken:
    """An address that was given out to be written by a client and linked to `path`, once, before `expires_at`."""

    branch: str
    path: str
    expires_at: Instant
    checksum: str = ""
    """Of what was linked; empty until then."""
    used_at: Instant | None = None


class _GcRules(Stored):
    default_days: int
    branches: dict[str, int]
    unset: bool = False


class _LinkToken(Stored):
    branch: str
    path: str
    expires_at: Instant
    checksum: str
    used_at: Instant | None


_GC_RULES: Final = Codec[_GcRules]("gc rules", 1, _GcRules)
_LINK: Final = Codec[_LinkToken]("link", 1, _LinkToken)


def encode_gc_rules(rules: GcRules | None) -> bytes:
    """Return rules, or that they were removed, as a KV value."""
    if rules is None:
        return _GC_RULES.seal(_GcRules(0, {}, unset=True))
    return _GC_RULES.seal(_GcRules(rules.default_days, dict(sorted(rules.branches.items()))))


def decode_gc_rules(data: bytes) -> GcRules | None:
    """Return what `encode_gc_rules` was given, or raise `CorruptError`."""
    stored = _GC_RULES.open(data)
    return None if stored.unset else GcRules(default_days=stored.default_days, branches=stored.branches)


def link_key(address: str) -> bytes:
    """Return the key of the token of an address."""
    return LINKS_PREFIX + address.encode()


def encode_link(link: LinkToken) -> bytes:
    """Return a link token as its KV value."""
    return _LINK.seal(_LinkToken(link.branch, link.path, link.expires_at, link.checksum, link.used_at))


def decode_link(data: bytes) -> LinkToken:
    """Return what `encode_link` was given, or raise `CorruptError`."""
    s = _LINK.open(data)
    return LinkToken(
        branch=s.branch, path=s.path, expires_at=s.expires_at, checksum=s.checksum, used_at=s.used_at
    )
