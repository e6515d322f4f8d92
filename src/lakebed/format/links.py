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


# The second reads both; what has no upload is written by the first, as it was before there were any.
_LINK: Final = Codec[_LinkToken]("link", 1, _LinkToken)
_UPLOAD: Final = Codec[_UploadToken]("link", 1, _UploadToken)


def encode_link(link: LinkToken) -> bytes:
    """Return a link token as its KV value."""
    fields = (link.branch, link.path, link.expires_at, link.checksum, link.used_at)
    return (
        _UPLOAD.seal(_UploadToken(*fields, link.upload)) if link.upload else _LINK.seal(_LinkToken(*fields))
    )


def decode_link(data: bytes) -> LinkToken:
    """Return what `encode_link` was given, or raise `CorruptError`."""
    s = _UPLOAD.open(data)
    return LinkToken(
        branch=s.branch,
        path=s.path,
        expires_at=s.expires_at,
        checksum=s.checksum,
        used_at=s.used_at,
        upload=s.upload,
    )
