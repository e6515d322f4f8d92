"""Where a list of uncommitted addresses goes on: the continuation token between two pages.

A branch is read from one record. When a page ends in the middle of one, the token carries that record, so that the
next page, by whatever process, goes on with the very same layers.
"""

import base64
import binascii
from enum import StrEnum
from typing import Final

import msgspec

from lakebed.env.clock import Instant
from lakebed.errors import ErrorKind, InvalidInputError


class Stage(StrEnum):
    """What is being read. The order is that of `uncommitted`."""

    BRANCHES = "branches"
    STASHES = "stashes"
    LINKS = "links"
    UPLOADS = "uploads"
    COPIES = "copies"
    DONE = "done"


class Cursor(msgspec.Struct, frozen=True, kw_only=True):
    """The next page, and where it begins."""

    run: str
    started_at: Instant
    page: int = 0
    stage: Stage = Stage.BRANCHES
    after: str = ""
    """The name of the last record that was read to its end."""
    record: bytes = b""
    """The branch record that is being read, as it is stored; empty between two branches."""
    source: int = 0
    """Which of its layers and trees is being read,"""
    at: bytes = b""
    """and where: a row's key, or the number of a range."""


_decode: Final = msgspec.json.Decoder(Cursor).decode


def encode_cursor(cursor: Cursor) -> str:
    """Return a cursor as a continuation token."""
    return base64.urlsafe_b64encode(msgspec.json.encode(cursor)).decode()


def decode_cursor(text: str) -> Cursor:
    """Return what `encode_cursor` was given, or raise `InvalidInputError`."""
    try:
        return _decode(base64.urlsafe_b64decode(text.encode()))
    except (binascii.Error, msgspec.MsgspecError, UnicodeError, ValueError) as error:
        raise InvalidInputError(
            ErrorKind.INVALID_ARGUMENT,
            "continuation_token: not one that this server gave: begin again",
            about=text,
        ) from error
