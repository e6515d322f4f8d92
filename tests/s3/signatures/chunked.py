"""A body in chunks as a client sends it, written from Amazon's description."""

import hashlib
import hmac
import itertools
from dataclasses import dataclass

from lakebed.s3.signatures.verified import Chain, Verified

NOTHING = hashlib.sha256(b"").hexdigest()
CHAIN = Chain(
    key=b"signing key of these tests",
    stamp="20231114T221320Z",
    scope="20231114/eu-west-1/s3/aws4_request",
    seed="5e" * 32,
)
SIGNED = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"
SIGNED_TRAILER = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER"
PLAIN_TRAILER = "STREAMING-UNSIGNED-PAYLOAD-TRAILER"


@dataclass(frozen=True)
class Wire:
    """A body on the wire, in the parts it consists of."""

    parts: tuple[bytes, ...]

    @property
    def whole(self) -> bytes:
        return b"".join(self.parts)


def verified(payload: str, *, chain: Chain | None = CHAIN) -> Verified:
    return Verified(access_key="AKID", payload=payload, chain=chain)


def encode(
    chunks: list[bytes], *, payload: str, trailer: tuple[str, str] | None, chain: Chain = CHAIN
) -> Wire:
    parts: list[bytes] = []
    previous = chain.seed
    is_signed = payload != PLAIN_TRAILER
    for chunk in [*chunks, b""]:
        if is_signed:
            text = "\n".join(
                [
                    "AWS4-HMAC-SHA256-PAYLOAD",
                    chain.stamp,
                    chain.scope,
                    previous,
                    NOTHING,
                    hashlib.sha256(chunk).hexdigest(),
                ]
            )
            previous = hmac.new(chain.key, text.encode(), "sha256").hexdigest()
            parts.append(f"{len(chunk):x};chunk-signature={previous}\r\n".encode())
        else:
            parts.append(f"{len(chunk):x}\r\n".encode())
        if chunk:
            parts += [chunk, b"\r\n"]
    if trailer is not None:
        name, value = trailer
        parts.append(f"{name}:{value}\r\n".encode())
        if is_signed:
            digest = hashlib.sha256(f"{name}:{value}\n".encode()).hexdigest()
            text = f"AWS4-HMAC-SHA256-TRAILER\n{chain.stamp}\n{chain.scope}\n{previous}\n{digest}"
            signature = hmac.new(chain.key, text.encode(), "sha256").hexdigest()
            parts.append(f"x-amz-trailer-signature:{signature}\r\n".encode())
    parts.append(b"\r\n")
    return Wire(tuple(parts))


def cut(data: bytes, places: list[int]) -> list[bytes]:
    """Return `data` in pieces, cut at `places`."""
    edges = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[a:b] for a, b in itertools.pairwise(edges)]
