"""What S3 says about an object beside its bytes, and how an entry keeps it.

    x-amz-meta-<name>     entry metadata `X-Amz-Meta-<name>`, as lakeFS keeps it
    other content headers entry metadata `::lakebed::<header>`
    tags, parts           entry metadata `::lakebed::tagging`, `::lakebed::parts`

Metadata that was written by the REST API has no prefix, and shows as `x-amz-meta-<name>`
all the same. Names that begin with `::` are nobody's metadata and never show.
"""

import re
from base64 import b64decode, b64encode
from binascii import a2b_qp
from collections.abc import Mapping
from typing import Final

from lakebed.http.reply import Headers
from lakebed.limits import S3_METADATA_BYTES_MAX, S3_METADATA_SENT_BYTES_MAX
from lakebed.model.entries import CONTENT_TYPE_DEFAULT
from lakebed.s3.errors import Code, S3Error

TAGGING: Final = "::lakebed::tagging"
KEPT_HEADERS: Final = (
    "cache-control",
    "content-disposition",
    "content-encoding",
    "content-language",
    "expires",
)

_SENT_PREFIX: Final = "x-amz-meta-"
_KEPT_PREFIX: Final = "X-Amz-Meta-"
_OWN: Final = "::"
_HEADER: Final = "::lakebed::"
_KEPT: Final = frozenset(f"{_HEADER}{name}" for name in KEPT_HEADERS)
_AWS_CHUNKED: Final = "aws-chunked"

# A word as in RFC 2047, and the blanks that separate it from the next. Each part is taken whole and never tried shorter,
# so that reading takes time in proportion to the value; `email.header` takes the square of it. The group of blanks is not
# possessive: Python 3.11 at times keeps what such a group has taken before it failed.
_WORD: Final = re.compile(
    r"=\?([^?\s]*+)\?([bBqQ])\?([^?]*+)\?=(?:[ \t]+(?==\?[^?\s]*+\?[bBqQ]\?[^?]*+\?=))?"
)
# Every other name would be looked up among Python's codecs, and some of those take quadratic time.
_CHARSETS: Final = frozenset(("utf-8", "utf8", "us-ascii", "iso-8859-1"))


def content_type_of(headers: Mapping[str, str]) -> str:
    """Return the type that a request gives an object."""
    return _text(headers.get("content-type", "")) or CONTENT_TYPE_DEFAULT


def metadata_of(headers: Mapping[str, str]) -> dict[str, str]:
    """Return what a request says about an object, as its entry keeps it.

    Raises:
        S3Error: `MetadataTooLarge`.
    """
    sent = {
        name[len(_SENT_PREFIX) :]: value for name, value in headers.items() if name.startswith(_SENT_PREFIX)
    }
    found: dict[str, str] = {}
    if sent:
        _require_size(sent, S3_METADATA_SENT_BYTES_MAX)
        texts = {name: decoded(value) for name, value in sent.items()}
        _require_size(texts, S3_METADATA_BYTES_MAX)
        found = {_KEPT_PREFIX + name: text for name, text in texts.items()}
    for name in KEPT_HEADERS:
        text = headers.get(name, "")
        if text and name == "content-encoding":
            # How the body was sent, not how the object is encoded.
            text = ",".join(each for each in map(str.strip, text.split(",")) if each != _AWS_CHUNKED)
        if text:
            found[_HEADER + name] = _text(text)
    return found


def shown(metadata: Mapping[str, str]) -> Headers:
    """Return the headers that say what an entry keeps; what no header can carry is counted, as Amazon does."""
    if not metadata:
        return ()
    headers: list[tuple[bytes, bytes]] = []
    missing = 0
    for key, value in metadata.items():
        if key in _KEPT:
            headers.append((key[len(_HEADER) :].encode(), encoded(value)))
            continue
        if key.startswith(_OWN):
            continue
        name = key[len(_KEPT_PREFIX) :] if key[: len(_KEPT_PREFIX)].lower() == _SENT_PREFIX else key
        if not _is_token(name):
            missing += 1
            continue
        headers.append((b"x-amz-meta-" + name.lower().encode(), encoded(value)))
    if missing:
        headers.append((b"x-amz-missing-meta", b"%d" % missing))
    if TAGGING in metadata:
        headers.append((b"x-amz-tagging-count", b"%d" % (metadata[TAGGING].count("&") + 1)))
    return tuple(headers)


def decoded(value: str) -> str:
    """Return a header's value as text: UTF-8 as it is, and words encoded as in RFC 2047.

    A word that is broken, or of another charset than UTF-8, US-ASCII and ISO-8859-1, stays as it was sent.
    """
    value = _text(value)
    return _WORD.sub(_word, value) if "=?" in value else value


def encoded(value: str) -> bytes:
    """Return text as a header's value: as it is where that is possible, else as RFC 2047 has it."""
    if value.isascii() and value.isprintable():
        return value.encode()
    return b"=?UTF-8?B?" + b64encode(value.encode("utf-8", "replace")) + b"?="


def _word(found: re.Match[str]) -> str:
    charset, encoding, sent = found.groups()
    if charset.lower() not in _CHARSETS:
        return found.group()
    try:
        padded = sent + "=" * (-len(sent) % 4)
        data = b64decode(padded, validate=True) if encoding in "bB" else a2b_qp(sent, header=True)
        return data.decode(charset)
    except ValueError:  # Not ASCII, not Base64, or not of that charset.
        return found.group()


def _require_size(metadata: Mapping[str, str], bytes_max: int) -> None:
    size = sum(len(name) + len(value.encode("utf-8", "replace")) for name, value in metadata.items())
    if size > bytes_max:
        raise S3Error(
            Code.METADATA_TOO_LARGE,
            "Your metadata headers exceed the maximum allowed metadata size.",
            Size=str(size),
            MaxSizeAllowed=str(S3_METADATA_BYTES_MAX),
        )


def _text(value: str) -> str:
    """Headers arrive as latin-1; what is UTF-8 is meant to be it."""
    if value.isascii():
        return value
    try:
        return value.encode("latin-1").decode()
    except UnicodeError:
        return value


def _is_token(name: str) -> bool:
    return bool(name) and name.isascii() and all(each.isalnum() or each in "!#$%&'*+-.^_`|~" for each in name)
