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
    """Of what was linked; empty until then."""
    used_at: Instant | None = None
    upload: str = ""
    """The store's id of the multipart upload that writes the object; empty if it is written in one go."""
