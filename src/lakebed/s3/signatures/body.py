"""The body of a request: how it is sent, how long it is, and whether it is what was signed.

    plan = plan_body(request, admitted.verified)       before the body is read: refuses what cannot be right
    body = plan.open(raw_chunks, workers=workers)
    async for piece in body: ...                       the payload, without framing
    body.checksums                                     after the end: to keep and to return

**Nothing of a body may become visible before its iteration has ended without an error.**
Hashes and checksums cover the whole, so they can only be compared at the end.
"""

import hashlib
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Final

from lakebed.env.work import Workers
from lakebed.http.numbers import whole_number
from lakebed.limits import INLINE_HASH_BYTES_MAX
from lakebed.objects.s3.sigv4 import UNSIGNED_PAYLOAD
from lakebed.s3.errors import Code, S3Error
from lakebed.s3.request import Request
from lakebed.s3.signatures.checksums import BY_HEADER, Algorithm, Running, parse_digest, show_digest
from lakebed.s3.signatures.chunks import ChunkReader, incomplete
from lakebed.s3.signatures.verified import Verified

_SIGNED_CHUNKS: Final = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"
_SIGNED_CHUNKS_TRAILER: Final = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER"
_PLAIN_CHUNKS_TRAILER: Final = "STREAMING-UNSIGNED-PAYLOAD-TRAILER"
_CHUNKED: Final = frozenset((_SIGNED_CHUNKS, _SIGNED_CHUNKS_TRAILER, _PLAIN_CHUNKS_TRAILER))
_HEX: Final = frozenset("0123456789abcdef")


@dataclass(frozen=True, slots=True, kw_only=True)
class BodyPlan:
    """What a request announced about its body."""

    length: int | None
    """Bytes of payload; None if the request does not say."""
    is_chunked: bool
    are_chunks_signed: bool
    sha256: str | None
    md5: bytes | None
    checksum: Algorithm | None
    """The checksum that comes along, in a header or in the trailer."""
    checksum_value: bytes | None
    """Its value; None if it comes in the trailer."""
    verified: Verified

    def open(self, raw: AsyncIterator[bytes], *, workers: Workers) -> "Body":
        """Return the payload of `raw`, which is the body as it comes from the network."""
        return Body(self, raw, workers)


class Body:
    """A payload that is checked while it is read. Iterate once."""

    def __init__(self, plan: BodyPlan, raw: AsyncIterator[bytes], workers: Workers) -> None:
        self._plan = plan
        self._raw = raw
        self._workers = workers
        self._chunks = _chunk_reader(plan) if plan.is_chunked else None
        self._sha256 = hashlib.sha256() if plan.sha256 is not None else None
        self._md5 = hashlib.md5(usedforsecurity=False) if plan.md5 is not None else None
        self._checksum = plan.checksum.start() if plan.checksum is not None else None
        self._running: list[Running] = [
            each for each in (self._sha256, self._md5, self._checksum) if each is not None
        ]
        # CRCs run at the speed of memory; a thread pays only for what takes ten times as long.
        self._is_slow = (
            plan.are_chunks_signed
            or self._sha256 is not None
            or self._md5 is not None
            or plan.checksum in (Algorithm.SHA1, Algorithm.SHA256)
        )
        self._received = 0
        self.checksums: dict[Algorithm, str] = {}
        """What was sent along and holds, in Base64; filled at the end."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """Yield the payload.

        Raises:
            S3Error: the body is not what was announced or signed.
        """
        async for data in self._raw:
            if self._is_slow and len(data) > INLINE_HASH_BYTES_MAX:
                pieces = await self._workers.run(self._read, data)
            else:
                pieces = self._read(data)
            for piece in pieces:
                yield piece
        self._finish()

    def _read(self, data: bytes) -> list[bytes]:
        pieces = [data] if self._chunks is None else self._chunks.feed(data)
        for piece in pieces:
            self._received += len(piece)
            for each in self._running:
                each.update(piece)
        if self._plan.length is not None and self._received > self._plan.length:
            raise incomplete()
        return pieces

    def _finish(self) -> None:
        plan = self._plan
        trailers = self._chunks.finish() if self._chunks is not None else {}
        if plan.length is not None and self._received != plan.length:
            raise incomplete()
        if self._sha256 is not None and self._sha256.hexdigest() != plan.sha256:
            raise S3Error(
                Code.X_AMZ_CONTENT_SHA256_MISMATCH,
                "The provided 'x-amz-content-sha256' header does not match what was computed.",
                ClientComputedContentSHA256=plan.sha256 or "",
                S3ComputedContentSHA256=self._sha256.hexdigest(),
            )
        if self._md5 is not None and plan.md5 is not None and self._md5.digest() != plan.md5:
            raise S3Error(
                Code.BAD_DIGEST,
                "The Content-MD5 you specified did not match what we received.",
                ExpectedDigest=show_digest(plan.md5),
                CalculatedDigest=show_digest(self._md5.digest()),
            )
        if plan.checksum is not None and self._checksum is not None:
            expected = plan.checksum_value
            if expected is None:
                expected = plan.checksum.parse(trailers[plan.checksum.header])
            if self._checksum.digest() != expected:
                raise S3Error(
                    Code.BAD_DIGEST,
                    f"The {plan.checksum.text} you specified did not match the calculated checksum.",
                )
            self.checksums[plan.checksum] = show_digest(expected)


def plan_body(request: Request, verified: Verified, *, checksums: bool = True) -> BodyPlan:
    """Return what `request` announces about its body.

    With `checksums` false, the headers of checksums speak of something else than this body
    (those of CompleteMultipartUpload do: of the whole object).

    Raises:
        S3Error: it cannot be right, whatever the body.
    """
    headers = request.headers
    payload = verified.payload if verified.payload is not None else _payload_unsigned(request)
    is_chunked = payload in _CHUNKED
    are_chunks_signed = payload in (_SIGNED_CHUNKS, _SIGNED_CHUNKS_TRAILER)
    if are_chunks_signed and verified.chain is None:
        raise S3Error(Code.INVALID_REQUEST, f"{payload} needs a request that is signed with AWS4-HMAC-SHA256")
    is_hash = len(payload) == 64 and _HEX.issuperset(payload)
    if not is_chunked and not is_hash and payload != UNSIGNED_PAYLOAD:
        raise _bad_payload(payload)
    in_trailer = (
        _announced(headers.get("x-amz-trailer")) if is_chunked and payload != _SIGNED_CHUNKS else None
    )
    in_header = list(_in_headers(request)) if checksums else []
    if len(in_header) + (in_trailer is not None) > 1:
        raise S3Error(
            Code.INVALID_REQUEST,
            "Expecting a single x-amz-checksum- header. Multiple checksum Types are not allowed.",
        )
    return BodyPlan(
        length=_length(request, "x-amz-decoded-content-length" if is_chunked else "content-length"),
        is_chunked=is_chunked,
        are_chunks_signed=are_chunks_signed,
        sha256=payload if is_hash else None,
        md5=_content_md5(headers.get("content-md5")),
        checksum=in_header[0][0] if in_header else in_trailer,
        checksum_value=in_header[0][1] if in_header else None,
        verified=verified,
    )


def _chunk_reader(plan: BodyPlan) -> ChunkReader:
    in_trailer = plan.checksum if plan.checksum_value is None else None
    return ChunkReader(
        plan.verified,
        signed=plan.are_chunks_signed,
        trailers={in_trailer.header} if in_trailer is not None else frozenset(),
        length=plan.length,
    )


def _payload_unsigned(request: Request) -> str:
    """Version 2 signs nothing about the body; clients may still say how they send it."""
    payload = request.headers.get("x-amz-content-sha256")
    if payload is not None:
        return payload
    encodings = request.headers.get("content-encoding", "").lower().split(",")
    return (
        _PLAIN_CHUNKS_TRAILER if "aws-chunked" in [each.strip() for each in encodings] else UNSIGNED_PAYLOAD
    )


def _announced(text: str | None) -> Algorithm | None:
    if text is None:
        return None
    algorithm = BY_HEADER.get(text.strip().lower())
    if algorithm is None:
        raise S3Error(
            Code.INVALID_REQUEST, "The value specified in the x-amz-trailer header is not supported"
        )
    return algorithm


def _in_headers(request: Request) -> Iterator[tuple[Algorithm, bytes]]:
    for name, algorithm in BY_HEADER.items():
        text = request.headers.get(name)
        if text is not None:
            yield algorithm, algorithm.parse(text.strip())


def _length(request: Request, header: str) -> int | None:
    text = request.headers.get(header)
    if text is None:
        return None
    size = whole_number(text, most=10**18 - 1)
    if size is None:
        raise S3Error(Code.INVALID_ARGUMENT, f"{header} must be a number of bytes", ArgumentName=header)
    return size


def _content_md5(text: str | None) -> bytes | None:
    if text is None:
        return None
    value = parse_digest(text.strip(), 16)
    if value is None:
        raise S3Error(Code.INVALID_DIGEST, "The Content-MD5 you specified was invalid.")
    return value


def _bad_payload(payload: str) -> S3Error:
    if payload.startswith("STREAMING-AWS4-ECDSA"):
        return S3Error(Code.NOT_IMPLEMENTED, f"{payload} is not supported")
    return S3Error(
        Code.INVALID_ARGUMENT,
        "x-amz-content-sha256 must be UNSIGNED-PAYLOAD, STREAMING-AWS4-HMAC-SHA256-PAYLOAD, "
        "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER, STREAMING-UNSIGNED-PAYLOAD-TRAILER, or a valid sha256 value.",
        ArgumentName="x-amz-content-sha256",
        ArgumentValue=payload,
    )
