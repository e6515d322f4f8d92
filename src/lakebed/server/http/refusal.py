"""What is said to a client whose bytes are no request that we take. Pure.

After a refusal nobody can know where the next request would begin, so each one ends its
connection: that is what makes smuggling a request inside another one pointless.
"""

from dataclasses import dataclass
from typing import Final

import httptools
import msgspec

from lakebed.server.http.reply_head import status_line


@dataclass(frozen=True, slots=True)
class Refusal:
    """A status and a sentence."""

    status: int
    message: str

    def reply(self, date: bytes) -> bytes:
        """Return the whole reply; `date` is a header line."""
        body = msgspec.json.encode({"message": self.message})
        return b"%bcontent-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n%b\r\n%b" % (
            status_line(self.status),
            len(body),
            date,
            body,
        )


class RefusedError(Exception):
    """Raised in the parser's callbacks: the parser stops there."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal


HEAD_TOO_LARGE: Final = Refusal(431, "the head of the request is too large")
TARGET_TOO_LONG: Final = Refusal(414, "the target of the request is too long")
TOO_SLOW: Final = Refusal(408, "the head of the request took too long")
TOO_MANY: Final = Refusal(503, "this worker has all the connections it can take: try again later")
TOO_MANY_AHEAD: Final = Refusal(400, "too many requests were sent ahead: read the replies to them first")
HELD_TOO_MUCH: Final = Refusal(503, "this worker holds as much of requests as it may: try again later")
TOO_MUCH: Final = Refusal(413, "the body goes on, and its request is answered")
TRAILER_TOO_LARGE: Final = Refusal(400, "there is more between the chunks of the body than in them")
_UNKNOWN_METHOD: Final = Refusal(405, "there is no such method")


def bad(message: str) -> RefusedError:
    """Return what to raise for a request that is malformed, or could be read in two ways."""
    return RefusedError(Refusal(400, message))


def refusal_of(error: httptools.HttpParserError) -> Refusal:
    """Return what to say of bytes that the parser, or one of our checks in it, has stopped at."""
    cause = error.__context__
    if isinstance(cause, RefusedError):
        return cause.refusal
    if isinstance(error, httptools.HttpParserInvalidMethodError):
        return _UNKNOWN_METHOD
    return Refusal(400, f"this is no HTTP/1.1 request: {error}")
