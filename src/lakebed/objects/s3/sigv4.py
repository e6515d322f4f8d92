"""What both sides of AWS signature version 4 share: who signs (this package) and who verifies (the S3 endpoint). Pure."""

import hmac
from datetime import UTC, datetime
from typing import Final

from lakebed.env.clock import SECOND, Instant

ALGORITHM: Final = "AWS4-HMAC-SHA256"
UNSIGNED_PAYLOAD: Final = "UNSIGNED-PAYLOAD"


def derived_key(secret: str, scope: bytes) -> bytes:
    """Return the key that signs in a scope, `20150830/us-east-1/s3/aws4_request`."""
    key = f"AWS4{secret}".encode()
    for part in scope.split(b"/"):
        key = hmac.digest(key, part, "sha256")
    return key


def stamp_of(instant: Instant) -> str:
    """Return a time as it is signed: `20150830T123600Z`."""
    return datetime.fromtimestamp(instant // SECOND, UTC).strftime("%Y%m%dT%H%M%SZ")
