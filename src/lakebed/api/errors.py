"""Errors as replies: the status and the phrase of `lakebed.api.phrases`, and what we have to say beyond it."""

from typing import Final

import msgspec

from lakebed.api.phrases import NOTHING_ASKED, Asked, phrased, status_of
from lakebed.api.reply import json_reply
from lakebed.errors import LakebedError
from lakebed.http.reply import Headers, Reply
from lakebed.telemetry.failures import failure_fields
from lakebed.telemetry.log import get_logger

log = get_logger(__name__)

_BUG: Final = 500
_RETRY_AFTER: Final = ((b"retry-after", b"1"),)
# Clients of other servers look at status and message only; ours raises the very kind.
_KIND_HEADER: Final = b"x-lakebed-error-kind"


class ErrorBody(msgspec.Struct, omit_defaults=True):
    """The one error body the API has."""

    message: str
    """The reference's phrase, where it has one."""
    detail: str = ""
    """What we say beyond the phrase: which name, and what to do next."""


def error_reply(error: LakebedError, asked: Asked = NOTHING_ASKED, *, headers: Headers = ()) -> Reply:
    """Return an error as its status and body, with more `headers` where its status wants some."""
    status = status_of(error.kind, asked)
    kind = ((_KIND_HEADER, error.kind.value.encode()),)
    retry_after = _RETRY_AFTER if status in (429, 503) else ()
    return json_reply(status, ErrorBody(*phrased(error, asked)), headers=(*kind, *retry_after, *headers))


def unexpected_reply(error: Exception, *, request_id: str) -> Reply:
    """Log a bug of ours, and return what the client is told of it: under which id to look for it."""
    log.error("request_failed", request_id=request_id, **failure_fields(error))
    return json_reply(
        _BUG, ErrorBody(f"internal error: the server's log has more about request {request_id}")
    )
