"""`LinkToken`: an address that was given out to be written by a client."""

from dataclasses import dataclass

from lakebed.env.clock import Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkToken:
    """An address that was given out to be written by a client and linked to `path`, once, before `expires_at`."""

    branch: str
    path: str
    expires_at: Instant
    checksum: str = ""
    """Of the entry that was linked; empty until then."""
    used_at: Instant | None = None
    """When a link claimed the token, before it staged its entry; None while the token is open."""
    upload: str = ""
    """The store's id of the multipart upload that writes the object; empty if it is written in one go."""
    claimed_by: str = ""
    """The nonce of the link that claimed the token: it alone may stage an entry. Empty in tokens of older versions."""
