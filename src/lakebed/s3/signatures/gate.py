"""`Gate`: the one way into the S3 endpoint.

A request is let in if somebody's secret signed it, the signature covers it, and it is
neither too old nor too early. What is let in comes with the caller, whom the catalog asks
about permissions, and with what was signed about the body, which is checked as the body
is read (`body.plan_body`).

A presigned URL is mostly used more than once: a reader of a large file asks for it piece by
piece. Two requests that are alike to the last byte of their heads have the same signature,
so it is computed once; whether the key still has its owner and the URL still its time is asked
for each of them.
"""

from typing import Protocol, TypeAlias

import msgspec

from lakebed.auth.caller import Caller
from lakebed.auth.secret import Secret, Signer
from lakebed.env.clock import Clock
from lakebed.limits import PRESIGNED_HEAD_BYTES_KEPT, PRESIGNED_URLS_KEPT
from lakebed.s3.errors import Code, S3Error
from lakebed.s3.request import Request
from lakebed.s3.signatures.scheme import SignedV4, find_signature
from lakebed.s3.signatures.v2 import verify_v2
from lakebed.s3.signatures.v4 import require_time, verify_v4
from lakebed.s3.signatures.verified import Verified


class Signers(Protocol):
    """Who knows the secrets: the authenticator."""

    async def signer_for(self, access_key: str) -> Signer | None:
        """Return the owner of an access key and its secret; None if nobody has such a key."""
        ...

    def require_signature(self, access_key: str, secret: Secret, client: str) -> None:
        """Let a signature be verified, unless too many from `client` have failed (`UnavailableError`)."""
        ...

    def signature_held(self, access_key: str, secret: Secret, client: str) -> None:
        """Note that a signature holds."""
        ...

    def signature_failed(self, access_key: str, client: str) -> None:
        """Count a signature that does not hold."""
        ...


class Admitted(msgspec.Struct, frozen=True):
    """Who a request comes from, and what they signed about its body."""

    caller: Caller
    verified: Verified


_Head: TypeAlias = tuple[str, str, str, tuple[tuple[str, str], ...]]


class _Seen(msgspec.Struct, frozen=True):
    """A presigned URL that was verified by a secret."""

    signed: SignedV4
    verified: Verified
    secret: Secret


class Gate:
    """Lets in what is signed well."""

    def __init__(self, signers: Signers, clock: Clock, *, region: str | None = None) -> None:
        """With `region`, only signatures for that region count."""
        self._signers = signers
        self._clock = clock
        self._region = region
        self._seen: dict[_Head, _Seen] = {}

    async def admit(
        self, request: Request, *, virtual_bucket: str | None = None, client: str = ""
    ) -> Admitted:
        """Return who `request` comes from. `virtual_bucket` is the bucket that the host names, `client` an address.

        Raises:
            S3Error: the request is not signed, or not well.
            UnavailableError: `TOO_MANY_LOGINS`: too many signatures from `client` did not hold.
        """
        head = (request.method, request.raw_path, request.raw_query, tuple(request.headers.items()))
        seen = self._seen.get(head)
        signed = seen.signed if seen is not None else find_signature(request)
        if signed is None:
            raise S3Error(Code.ACCESS_DENIED, "Access Denied")
        signer = await self._signers.signer_for(signed.access_key)
        if signer is None:
            raise S3Error(
                Code.INVALID_ACCESS_KEY_ID,
                f"There is no access key {signed.access_key} here: use one of a Lakebed user.",
                AWSAccessKeyId=signed.access_key,
            )
        now = self._clock.now()
        if seen is not None and seen.secret is signer.secret:
            require_time(seen.signed, now)
            return Admitted(signer.caller, seen.verified)
        self._signers.require_signature(signed.access_key, signer.secret, client)
        try:
            if isinstance(signed, SignedV4):
                verified = verify_v4(request, signed, signer.secret, now=now, region=self._region)
            else:
                verified = verify_v2(request, signed, signer.secret, now=now, virtual_bucket=virtual_bucket)
        except S3Error as error:
            if error.code is Code.SIGNATURE_DOES_NOT_MATCH:
                self._signers.signature_failed(signed.access_key, client)
            raise
        self._signers.signature_held(signed.access_key, signer.secret, client)
        if isinstance(signed, SignedV4) and signed.is_presigned:
            self._remember(head, _Seen(signed, verified, signer.secret))
        return Admitted(signer.caller, verified)

    def _remember(self, head: _Head, seen: _Seen) -> None:
        # The holder of one URL can add any headers to it that are not signed.
        if (
            len(head[1]) + len(head[2]) + sum(len(name) + len(value) for name, value in head[3])
            > PRESIGNED_HEAD_BYTES_KEPT
        ):
            return
        if len(self._seen) >= PRESIGNED_URLS_KEPT:
            self._seen.clear()
        self._seen[head] = seen
