"""The errors that both versions of signatures give, with the details that Amazon adds for whoever debugs a client."""

from collections.abc import Sequence

from lakebed.env.clock import Instant
from lakebed.limits import S3_CLOCK_SKEW_SECONDS
from lakebed.s3.errors import Code, S3Error
from lakebed.s3.signatures.canonical import octets
from lakebed.s3.signatures.times import show


def does_not_match(
    access_key: str, signature: str, string_to_sign: str, *, canonical: str | None = None
) -> S3Error:
    """Return the error for a signature that does not hold. It shows what should have been signed, never by what."""
    details = {
        "AWSAccessKeyId": access_key,
        "StringToSign": string_to_sign,
        "SignatureProvided": signature,
        "StringToSignBytes": octets(string_to_sign).hex(" "),
    }
    if canonical is not None:
        details |= {"CanonicalRequest": canonical, "CanonicalRequestBytes": octets(canonical).hex(" ")}
    return S3Error(
        Code.SIGNATURE_DOES_NOT_MATCH,
        f"The signature does not hold. Check the secret that belongs to the access key {access_key}, "
        "and that nothing on the way changes the request.",
        **details,
    )


def too_skewed(request_time: str, now: Instant) -> S3Error:
    """Return the error for a request that was signed too long ago, or too far in the future."""
    return S3Error(
        Code.REQUEST_TIME_TOO_SKEWED,
        "The difference between the request time and the current time is too large.",
        RequestTime=request_time,
        ServerTime=show(now),
        MaxAllowedSkewMilliseconds=str(S3_CLOCK_SKEW_SECONDS * 1000),
    )


def not_signed(headers: Sequence[str]) -> S3Error:
    """Return the error for headers that could have been added on the way."""
    return S3Error(
        Code.ACCESS_DENIED,
        "There were headers present in the request which were not signed",
        HeadersNotSigned=", ".join(headers),
    )
