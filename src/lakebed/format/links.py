"""Link tokens as KV values."""

from typing import Final

from lakebed.env.clock import Instant
from lakebed.format.codec import Codec, Stored
from lakebed.model.links import LinkToken


class _LinkToken(Stored):
    branch: str
    path: str
    expires_at: Instant
    checksum: str
    used_at: Instant | None


_LINK: Final = Codec[_LinkToken]("link", 1, _LinkToken)


def encode_link(link: LinkToken) -> bytes:
    """Return a link token as its KV value."""
    return _LINK.seal(_LinkToken(link.branch, link.path, link.expires_at, link.checksum, link.used_at))


def decode_link(data: bytes) -> LinkToken:
    """Return what `encode_link` was given, or raise `CorruptError`."""
    s = _LINK.open(data)
    return LinkToken(
        branch=s.branch, path=s.path, expires_at=s.expires_at, checksum=s.checksum, used_at=s.used_at
    )
