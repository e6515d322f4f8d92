"""Does a signature of version 4 hold? Pure: the secret and the time are given.

The clock is checked before the signature: both must hold, and the clock is cheaper. Only
days that pass it get a signing key derived, so nobody can fill the memory of a secret
with keys for days of their own choice.
"""

import hashlib
import hmac
from typing import Final

from lakebed.auth.secret import Secret
from lakebed.env.clock import SECOND, Instant
from lakebed.limits import S3_CLOCK_SKEW_SECONDS, SIGNING_KEYS_KEPT
from lakebed.objects.s3.sigv4 import ALGORITHM, derived_key
from lakebed.s3.errors import Code, S3Error
from lakebed.s3.request import Request
from lakebed.s3.signatures.canonical import (
    canonical_request,
    escaped_path,
    escaped_query,
    octets,
    sent_path,
    sent_query,
)
from lakebed.s3.signatures.refusals import does_not_match, not_signed, too_skewed
from lakebed.s3.signatures.scheme import Scope, SignedV4, bad_credential, malformed
from lakebed.s3.signatures.times import show
from lakebed.s3.signatures.verified import Chain, Verified

_SKEW: Final = S3_CLOCK_SKEW_SECONDS * SECOND


def verify_v4(
    request: Request, signed: SignedV4, secret: Secret, *, now: Instant, region: str | None = None
) -> Verified:
    """Return what is known of the request now; with `region`, only signatures for that region count.

    Raises:
        S3Error: the signature does not hold, or not now, or not here, or does not cover enough.
    """
    _require_scope(signed, region)
    require_time(signed, now)
    _require_coverage(request, signed)
    key = signing_key(secret, signed.scope)
    scope = signed.scope.text
    presigned = signed.is_presigned
    canonical = canonical_request(
        method=request.method,
        path=sent_path(request.raw_path),
        query=sent_query(request.raw_query, presigned=presigned),
        headers=request.headers,
        signed_headers=signed.signed_headers,
        payload=signed.payload,
    )
    text = string_to_sign(canonical, stamp=signed.stamp, scope=scope)
    if not _matches(key, text, signed.signature):
        escaped = canonical_request(
            method=request.method,
            path=escaped_path(request.raw_path),
            query=escaped_query(request.raw_query, presigned=presigned),
            headers=request.headers,
            signed_headers=signed.signed_headers,
            payload=signed.payload,
        )
        if not _matches(key, string_to_sign(escaped, stamp=signed.stamp, scope=scope), signed.signature):
            raise does_not_match(signed.access_key, signed.signature, text, canonical=canonical)
    chain = Chain(key=key, stamp=signed.stamp, scope=scope, seed=signed.signature)
    return Verified(access_key=signed.access_key, payload=signed.payload, chain=chain)


def string_to_sign(canonical: str, *, stamp: str, scope: str) -> str:
    """Return the text that is signed for a request."""
    return f"{ALGORITHM}\n{stamp}\n{scope}\n{hashlib.sha256(octets(canonical)).hexdigest()}"


def signing_key(secret: Secret, scope: Scope) -> bytes:
    """Return the key that signs in a scope, kept with the secret that it comes from."""
    name = scope.text
    key = secret.derived.get(name)
    if key is None:
        key = derived_key(secret.text, octets(name))
        if len(secret.derived) >= SIGNING_KEYS_KEPT:
            secret.derived.clear()
        secret.derived[name] = key
    return key


def _matches(key: bytes, text: str, signature: str) -> bool:
    return hmac.compare_digest(hmac.digest(key, octets(text), "sha256").hex().encode(), octets(signature))


def _require_scope(signed: SignedV4, region: str | None) -> None:
    refusal = bad_credential if signed.is_presigned else malformed
    if signed.scope.date != signed.stamp[:8]:
        raise refusal(
            f'Invalid credential date "{signed.scope.date}". '
            f'This date is not the same as X-Amz-Date: "{signed.stamp[:8]}".'
        )
    if region is not None and signed.scope.region != region:
        raise refusal(f"the region '{signed.scope.region}' is wrong; expecting '{region}'", Region=region)


def require_time(signed: SignedV4, now: Instant) -> None:
    """Raise `S3Error` if a signature is not good now: too old, expired, or from the future."""
    if signed.expires_seconds is None:
        if abs(now - signed.signed_at) > _SKEW:
            raise too_skewed(signed.stamp, now)
        return
    if signed.signed_at - now > _SKEW:
        raise S3Error(
            Code.ACCESS_DENIED,
            "Request is not valid yet",
            ServerTime=show(now),
            RequestTime=show(signed.signed_at),
        )
    expires_at = Instant(signed.signed_at + signed.expires_seconds * SECOND)
    if now > expires_at:
        raise S3Error(
            Code.ACCESS_DENIED,
            "Request has expired",
            **{"X-Amz-Expires": str(signed.expires_seconds)},
            Expires=show(expires_at),
            ServerTime=show(now),
        )


def _require_coverage(request: Request, signed: SignedV4) -> None:
    covered = frozenset(signed.signed_headers)
    bare = [name for name in request.headers if name.startswith("x-amz-") and name not in covered]
    if "host" not in covered:
        bare.append("host")
    if bare:
        raise not_signed(bare)
