"""Replies of the REST API."""

from typing import Any

import msgspec

from lakebed.http.reply import Headers, Reply
from lakebed.http.sandbox import NO_SNIFF

_encode = msgspec.json.Encoder().encode

_JSON: Headers = ((b"content-type", b"application/json"), NO_SNIFF)
_TEXT: Headers = ((b"content-type", b"text/plain; charset=utf-8"), NO_SNIFF)


def json_reply(status: int, value: Any, *, headers: Headers = ()) -> Reply:
    """Return `value` as JSON."""
    return Reply(status, _encode(value), (*_JSON, *headers))


def raw_json_reply(status: int, body: bytes) -> Reply:
    """Return bytes that are JSON already: a page put together from fragments."""
    return Reply(status, body, _JSON)


def text_reply(status: int, text: str) -> Reply:
    """Return plain text."""
    return Reply(status, text.encode(), _TEXT)


def empty_reply(status: int, *, headers: Headers = ()) -> Reply:
    """Return nothing but a status."""
    return Reply(status, b"", headers)
