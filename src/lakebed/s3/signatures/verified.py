"""What is known of a request once its signature holds, as far as its body is concerned."""

import hashlib
import hmac
from dataclasses import dataclass, field
from typing import Final

_NOTHING: Final = hashlib.sha256(b"").hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """What the signatures of a body's chunks continue: the request's own signature and its key."""

    key: bytes = field(repr=False)
    stamp: str
    scope: str
    seed: str

    def chunk_text(self, previous: str, chunk_sha256: str) -> str:
        """Return the text that is signed for a chunk after one whose signature was `previous`."""
        return f"AWS4-HMAC-SHA256-PAYLOAD\n{self.stamp}\n{self.scope}\n{previous}\n{_NOTHING}\n{chunk_sha256}"

    def trailer_text(self, previous: str, trailer_sha256: str) -> str:
        """Return the text that is signed for the trailer after the last chunk."""
        return f"AWS4-HMAC-SHA256-TRAILER\n{self.stamp}\n{self.scope}\n{previous}\n{trailer_sha256}"

    def sign(self, text: str) -> str:
        """Return the signature of a text."""
        return hmac.digest(self.key, text.encode(), "sha256").hex()


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """A request whose signature holds."""

    access_key: str
    payload: str | None
    """What was signed about the body; None for version 2, which signs nothing about it."""
    chain: Chain | None = None
    """For bodies that are signed in chunks; version 2 has none."""
