r"""Bodies in chunks (`aws-chunked`), from the wire to the payload. Pure: bytes in, bytes out.

    5000;chunk-signature=<64 hex>\r\n   the size and, if chunks are signed, a signature
    <bytes>\r\n
    0;chunk-signature=<64 hex>\r\n      the last one has no bytes
    x-amz-checksum-crc32:<Base64>\r\n   the trailer, if one was announced
    x-amz-trailer-signature:<64 hex>\r\n
    \r\n

Each signature continues the one before and the first continues that of the request, so
chunks cannot be left out, swapped or taken from elsewhere.

The bytes of a chunk are passed on as they come, and its signature is checked at its end:
whoever reads makes nothing visible before the end of the body. Where the network cuts
the stream makes no difference to the payload or to the error.
"""

import hashlib
import hmac
import re
from collections.abc import Set as AbstractSet
from typing import Final

from lakebed.limits import CHUNK_BYTES_MAX, CHUNK_LINE_BYTES_MAX, TRAILER_BYTES_MAX
from lakebed.s3.errors import Code, S3Error
from lakebed.s3.signatures.refusals import does_not_match
from lakebed.s3.signatures.verified import Verified

_SIGNED_LINE: Final = re.compile(rb"([0-9a-fA-F]{1,16});chunk-signature=([0-9a-f]{64})")
_PLAIN_LINE: Final = re.compile(rb"([0-9a-fA-F]{1,16})")
_TRAILER_SIGNATURE: Final = "x-amz-trailer-signature"


class ChunkReader:
    """Takes a body apart. Feed it everything, then finish."""

    def __init__(
        self, verified: Verified, *, signed: bool, trailers: AbstractSet[str], length: int | None
    ) -> None:
        """Take what the request announced: the names of trailers, and the length of the payload if known."""
        assert not signed or verified.chain is not None, "chunks are signed under the request's signature"
        self._chain = verified.chain if signed else None
        self._access_key = verified.access_key
        self._trailers = trailers
        self._room = length
        self._previous = verified.chain.seed if verified.chain is not None else ""
        self._expected = ""
        self._hash = hashlib.sha256()
        self._line = b""
        self._left = 0
        self._wants_blank = False
        self._tail: bytes | None = None

    def feed(self, data: bytes) -> list[bytes]:
        """Return the payload that `data` holds.

        Raises:
            S3Error: the stream is not well-formed, too long, or not signed well.
        """
        payload = []
        position, end = 0, len(data)
        while position < end:
            if self._left:
                take = min(self._left, end - position)
                piece = data if take == end else data[position : position + take]
                payload.append(piece)
                position += take
                self._take(piece)
            elif self._tail is None:
                position = self._read_line(data, position)
            else:
                self._tail += data[position:]
                if len(self._tail) > TRAILER_BYTES_MAX:
                    raise _bad_trailer()
                break
        return payload

    def finish(self) -> dict[str, str]:
        """Return the trailers, at the end of the stream.

        Raises:
            S3Error: the stream ended too early, or its trailer is not as announced or not signed well.
        """
        if self._tail is None:
            raise incomplete()
        trailers = _parse_trailers(self._tail)
        signature = trailers.pop(_TRAILER_SIGNATURE, None)
        if trailers.keys() != self._trailers:
            raise _bad_trailer()
        if self._chain is None or not trailers:
            if signature is not None:
                raise _bad_trailer()
            return trailers
        if signature is None:
            raise _bad_trailer()
        canonical = "".join(f"{name}:{trailers[name]}\n" for name in sorted(trailers))
        text = self._chain.trailer_text(
            self._previous, hashlib.sha256(canonical.encode("latin-1")).hexdigest()
        )
        self._require(text, signature)
        return trailers

    def _take(self, piece: bytes) -> None:
        self._left -= len(piece)
        if self._chain is not None:
            self._hash.update(piece)
        if not self._left:
            self._end_chunk()
            self._wants_blank = True

    def _read_line(self, data: bytes, position: int) -> int:
        """Go on with a line that may have begun in earlier data; return where what follows it begins."""
        held = len(self._line)
        self._line += data[position : position + CHUNK_LINE_BYTES_MAX + 2 - held]
        end = self._line.find(b"\r\n")
        if end < 0:
            if len(self._line) >= CHUNK_LINE_BYTES_MAX + 2:
                raise _malformed()
            return len(data)
        line, self._line = self._line[:end], b""
        if self._wants_blank:
            if line:
                raise _malformed()
            self._wants_blank = False
        else:
            self._begin_chunk(line)
        return position + end + 2 - held

    def _begin_chunk(self, line: bytes) -> None:
        match = (_PLAIN_LINE if self._chain is None else _SIGNED_LINE).fullmatch(line)
        if match is None:
            raise _malformed()
        size = int(match[1], 16)
        if self._room is not None:
            if size > self._room:
                raise incomplete()
            self._room -= size
        elif size > CHUNK_BYTES_MAX:
            raise _malformed()
        if self._chain is not None:
            self._hash = hashlib.sha256()
            self._expected = match[2].decode()
        self._left = size
        if size == 0:
            self._end_chunk()
            self._tail = b""

    def _end_chunk(self) -> None:
        if self._chain is None:
            return
        self._require(self._chain.chunk_text(self._previous, self._hash.hexdigest()), self._expected)
        self._previous = self._expected

    def _require(self, text: str, signature: str) -> None:
        assert self._chain is not None, "only what is signed is compared"
        if not hmac.compare_digest(self._chain.sign(text).encode(), signature.encode("latin-1")):
            raise does_not_match(self._access_key, signature, text)


def _parse_trailers(tail: bytes) -> dict[str, str]:
    trailers: dict[str, str] = {}
    # Signers end these lines with \n, \r\n or both, one after the other.
    for line in tail.decode("latin-1").replace("\r\n", "\n").split("\n"):
        if not line:
            continue
        name, colon, value = line.partition(":")
        name = name.lower()
        if not colon or name in trailers:
            raise _bad_trailer()
        trailers[name] = value.strip(" ")
    return trailers


def incomplete() -> S3Error:
    """Return the error for a body that is not as long as was announced."""
    return S3Error(
        Code.INCOMPLETE_BODY,
        "You did not provide the number of bytes specified by the Content-Length HTTP header",
    )


def _malformed() -> S3Error:
    return S3Error(
        Code.INVALID_REQUEST, "The body is not well-formed: it does not consist of aws-chunked chunks"
    )


def _bad_trailer() -> S3Error:
    return S3Error(
        Code.MALFORMED_TRAILER_ERROR,
        "The request contained trailing data that was not well-formed or did not conform to our published schema.",
    )
