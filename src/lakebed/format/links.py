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


class _UploadToken(_LinkToken):
    upload: str = ""


class _ClaimedToken(_UploadToken):
    claimed_by: str = ""


# The last reads all three. An encoder leaves trailing fields out while they are empty, as older versions wrote them.
_LINK: Final = Codec[_LinkToken]("link", 1, _LinkToken)
_UPLOAD: Final = Codec[_UploadToken]("link", 1, _UploadToken)
_CLAIMED: Final = Codec[_ClaimedToken]("link", 1, _ClaimedToken)


def encode_link(link: LinkToken) -> bytes:
    """Return a link token as its KV value."""
    fields = (link.branch, link.path, link.expires_at, link.checksum, link.used_at)
    if link.claimed_by:
        return _CLAIMED.seal(_ClaimedToken(*fields, link.upload, link.claimed_by))
    return (
        _UPLOAD.seal(_UploadToken(*fields, link.upload)) if link.upload else _LINK.seal(_LinkToken(*fields))
    )


def decode_link(data: bytes) -> LinkToken:
    """Return what `encode_link` was given, or raise `CorruptError`."""
    s = _CLAIMED.open(data)
    return LinkToken(
        branch=s.branch,
        path=s.path,
        expires_at=s.expires_at,
        checksum=s.checksum,
        used_at=s.used_at,
        upload=s.upload,
        claimed_by=s.claimed_by,
    )
