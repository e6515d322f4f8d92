"""How a request is signed, read from its headers and query. Pure.

Five answers: version 4 in the header, version 4 in the query (presigned), version 2 in
the header, version 2 in the query, or not at all. Whatever claims to be one of the four
and is not well-formed is refused here, in the words that Amazon uses, so that what comes
out can be verified without further questions about its form.
"""

from collections.abc import Callable
from typing import Final

import msgspec

from lakebed.env.clock import Instant
from lakebed.format.memo import memo
from lakebed.http.dates import parse_http_date
from lakebed.limits import SIGN_SECONDS_MAX
from lakebed.objects.s3.sigv4 import ALGORITHM, UNSIGNED_PAYLOAD, stamp_of
from lakebed.s3.errors import Code, S3Error
from lakebed.s3.request import Request
from lakebed.s3.signatures.times import parse_stamp

SERVICE: Final = "s3"
_TERMINAL: Final = "aws4_request"
_FIELDS: Final = frozenset(("Credential", "SignedHeaders", "Signature"))
_MISSING: Final = "\0"


class Scope(msgspec.Struct, frozen=True):
    """What a signing key is good for: one day, one region, one service."""

    date: str
    region: str
    service: str

    @property
    def text(self) -> str:
        """As it is signed."""
        return f"{self.date}/{self.region}/{self.service}/{_TERMINAL}"


class SignedV4(msgspec.Struct, frozen=True, kw_only=True):
    """A signature of version 4, in the header or (with `expires_seconds`) in the query."""

    access_key: str
    scope: Scope
    signed_headers: tuple[str, ...]
    signature: str
    stamp: str
    signed_at: Instant
    payload: str
    """What is said of the body: its SHA-256, or how it is sent instead."""
    expires_seconds: int | None = None

    @property
    def is_presigned(self) -> bool:
        """Whether the signature came in the query."""
        return self.expires_seconds is not None


class SignedV2(msgspec.Struct, frozen=True, kw_only=True):
    """A signature of version 2, in the header or (with `expires_at`, in seconds) in the query."""

    access_key: str
    signature: str
    date: str
    """The line of the signed text that names the time."""
    signed_at: Instant | None
    expires_at: int | None = None


Signed = SignedV4 | SignedV2

Refusal = Callable[[str], S3Error]
"""How the place that something malformed was found in complains about it."""


def carries_signature(*, authorization: str | None, raw_query: str) -> bool:
    """Return whether a request was meant for S3: cheap, and no promise that the signature is any good."""
    if authorization is not None and authorization.startswith(("AWS4-", "AWS ")):
        return True
    return "X-Amz-Algorithm=" in raw_query or "AWSAccessKeyId=" in raw_query


def find_signature(request: Request) -> Signed | None:
    """Return how a request is signed; None if it is not.

    Raises:
        S3Error: it claims to be signed, and what it says is not well-formed.
    """
    authorization = request.headers.get("authorization")
    in_query_v4 = "X-Amz-Algorithm" in request.query or "X-Amz-Signature" in request.query
    in_query_v2 = "AWSAccessKeyId" in request.query or "Signature" in request.query
    if (authorization is not None) + in_query_v4 + in_query_v2 > 1:
        raise S3Error(
            Code.INVALID_ARGUMENT,
            "Only one auth mechanism allowed; only the X-Amz-Algorithm query parameter, "
            "Signature query string parameter or the Authorization header should be specified",
            ArgumentName="Authorization",
        )
    if authorization is not None:
        return _from_header(request, authorization)
    if in_query_v4:
        return _query_v4(request)
    if in_query_v2:
        return _query_v2(request)
    return None


def _from_header(request: Request, authorization: str) -> Signed:
    kind, _, rest = authorization.partition(" ")
    if kind == ALGORITHM:
        return _header_v4(request, rest)
    if kind == "AWS":
        return _header_v2(request, rest)
    if kind.startswith("AWS4-"):
        raise S3Error(
            Code.INVALID_REQUEST,
            f"The authorization mechanism you have provided is not supported. Please use {ALGORITHM}.",
        )
    raise S3Error(
        Code.INVALID_ARGUMENT,
        "Unsupported Authorization Type",
        ArgumentName="Authorization",
        ArgumentValue=kind,
    )


def _header_v4(request: Request, rest: str) -> SignedV4:
    fields: dict[str, str] = {}
    for part in rest.split(","):
        name, _, value = part.strip().partition("=")
        if name not in _FIELDS or name in fields or not value:
            raise malformed(f"expecting one each of Credential, SignedHeaders and Signature, not {name!r}")
        fields[name] = value
    if len(fields) != len(_FIELDS):
        raise malformed(f"missing {', '.join(sorted(_FIELDS - fields.keys()))}")
    access_key, scope = _credential(fields["Credential"], malformed)
    payload = request.headers.get("x-amz-content-sha256")
    if payload is None:
        raise S3Error(Code.INVALID_REQUEST, "Missing required header for this request: x-amz-content-sha256")
    text, signed_at = _header_time(request)
    return SignedV4(
        access_key=access_key,
        scope=scope,
        signed_headers=_header_names(fields["SignedHeaders"], malformed),
        signature=fields["Signature"],
        stamp=text,
        signed_at=signed_at,
        payload=payload,
    )


def _header_time(request: Request) -> tuple[str, Instant]:
    text = request.headers.get("x-amz-date")
    signed_at = parse_stamp(text) if text is not None else None
    if text is not None and signed_at is not None:
        return text, signed_at
    if text is None:
        date = request.headers.get("date", "")
        signed_at = parse_stamp(date) or parse_http_date(date)
    if signed_at is None:
        raise no_valid_date()
    return stamp_of(signed_at), signed_at


def _query_v4(request: Request) -> SignedV4:
    get = request.query.get
    algorithm = get("X-Amz-Algorithm", _MISSING)
    credential = get("X-Amz-Credential", _MISSING)
    date = get("X-Amz-Date", _MISSING)
    expires = get("X-Amz-Expires", _MISSING)
    names = get("X-Amz-SignedHeaders", _MISSING)
    signature = get("X-Amz-Signature", _MISSING)
    if _MISSING in (algorithm, credential, date, expires, names, signature):
        raise bad_query(
            "Query-string authentication version 4 requires the X-Amz-Algorithm, X-Amz-Credential, "
            "X-Amz-Signature, X-Amz-Date, X-Amz-SignedHeaders, and X-Amz-Expires parameters."
        )
    if algorithm != ALGORITHM:
        raise bad_query(f'X-Amz-Algorithm only supports "{ALGORITHM}"')
    access_key, scope = _credential(credential, bad_credential)
    signed_at = parse_stamp(date)
    if signed_at is None:
        raise bad_query("X-Amz-Date must be in the ISO8601 Long Format \"yyyyMMdd'T'HHmmss'Z'\"")
    signed_headers = _header_names(names, bad_query)
    payload = (
        request.headers.get("x-amz-content-sha256") if "x-amz-content-sha256" in signed_headers else None
    )
    return SignedV4(
        access_key=access_key,
        scope=scope,
        signed_headers=signed_headers,
        signature=signature,
        stamp=date,
        signed_at=signed_at,
        payload=payload or get("X-Amz-Content-Sha256") or UNSIGNED_PAYLOAD,
        expires_seconds=_expires(expires),
    )


def _expires(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise bad_query("X-Amz-Expires should be a number")
    seconds = int(text) if len(text) <= 10 else SIGN_SECONDS_MAX + 1
    if seconds > SIGN_SECONDS_MAX:
        raise bad_query(
            "X-Amz-Expires must be less than a week (in seconds); "
            f"that is, the given X-Amz-Expires must be less than {SIGN_SECONDS_MAX} seconds"
        )
    if seconds < 1:
        raise bad_query("X-Amz-Expires must be at least one second")
    return seconds


def _header_v2(request: Request, rest: str) -> SignedV2:
    access_key, colon, signature = rest.strip().rpartition(":")
    if not colon or not access_key or not signature:
        raise S3Error(
            Code.INVALID_ARGUMENT,
            "AWS authorization header is invalid. Expected AwsAccessKeyId:signature",
            ArgumentName="Authorization",
        )
    amz_date = request.headers.get("x-amz-date")
    date = request.headers.get("date", "")
    shown = amz_date if amz_date is not None else date
    signed_at = parse_http_date(shown) or parse_stamp(shown)
    if signed_at is None:
        raise no_valid_date()
    return SignedV2(
        access_key=access_key,
        signature=signature,
        # Where x-amz-date is sent it is signed among the x-amz headers, and the line stays empty.
        date=date.strip() if amz_date is None else "",
        signed_at=signed_at,
    )


def _query_v2(request: Request) -> SignedV2:
    get = request.query.get
    access_key, signature, expires = get("AWSAccessKeyId"), get("Signature"), get("Expires")
    if not access_key or not signature or not expires:
        raise S3Error(
            Code.ACCESS_DENIED,
            "Query-string authentication requires the Signature, Expires and AWSAccessKeyId parameters",
        )
    # Twelve digits of seconds last for thirty thousand years.
    if not (expires.isascii() and expires.isdigit()) or len(expires) > 12:
        raise S3Error(
            Code.ACCESS_DENIED,
            f"Invalid date (should be seconds since epoch): {expires}",
        )
    return SignedV2(
        access_key=access_key,
        signature=signature,
        date=expires,
        signed_at=None,
        expires_at=int(expires),
    )


def _credential(text: str, refusal: Refusal) -> tuple[str, Scope]:
    found = _parsed_credential(text)
    if isinstance(found, str):
        raise refusal(found)
    return found


# One client signs with one credential all day.
@memo
def _parsed_credential(text: str) -> tuple[str, Scope] | str:
    """Return the access key and the scope, or why there is none."""
    # From the right: an access key may contain a slash, the rest may not.
    parts = text.rsplit("/", 4)
    if len(parts) != 5 or not all(parts):
        return f'the Credential is mal-formed; expecting "<YOUR-AKID>/YYYYMMDD/REGION/SERVICE/{_TERMINAL}".'
    access_key, date, region, service, terminal = parts
    if terminal != _TERMINAL:
        return f'incorrect terminal "{terminal}". This endpoint uses "{_TERMINAL}".'
    if service != SERVICE:
        return f'incorrect service "{service}". This endpoint belongs to "{SERVICE}".'
    return access_key, Scope(date, region, service)


def _header_names(text: str, refusal: Refusal) -> tuple[str, ...]:
    names = tuple(text.split(";"))
    # Each name adds the header's value to what is hashed, so a name that repeats would cost the value each time.
    if not all(names) or text != text.lower() or len(set(names)) != len(names):
        raise refusal(
            "the SignedHeaders are mal-formed; expecting lower-case names, each once, with semicolons between."
        )
    return names


def malformed(reason: str, **details: str) -> S3Error:
    """Return the error for an `Authorization` header that cannot be right."""
    return S3Error(
        Code.AUTHORIZATION_HEADER_MALFORMED, f"The authorization header is malformed; {reason}", **details
    )


def bad_credential(reason: str, **details: str) -> S3Error:
    """Return the error for an `X-Amz-Credential` that cannot be right."""
    return bad_query(f"Error parsing the X-Amz-Credential parameter; {reason}", **details)


def bad_query(reason: str, **details: str) -> S3Error:
    """Return the error for a query that claims to be signed and cannot be right."""
    return S3Error(Code.AUTHORIZATION_QUERY_PARAMETERS_ERROR, reason, **details)


def no_valid_date() -> S3Error:
    """Return the error for a signed request that does not say when it was signed."""
    return S3Error(Code.ACCESS_DENIED, "AWS authentication requires a valid Date or x-amz-date header")
