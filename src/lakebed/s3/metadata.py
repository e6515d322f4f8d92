"""What S3 says about an object beside its bytes, and how an entry keeps it.

    x-amz-meta-<name>     entry metadata `X-Amz-Meta-<name>`, as lakeFS keeps it
    other content headers entry metadata `::lakebed::<header>`
    tags, parts           entry metadata `::lakebed::tagging`, `::lakebed::parts`

Metadata that was written by the REST API has no prefix, and shows as `x-amz-meta-<name>`
all the same. Names that begin with `::` are nobody's metadata and never show.
"""

from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping
from email.errors import HeaderParseError
from email.header import decode_header
from typing import Final

from lakebed.http.reply import Headers
from lakebed.limits import S3_METADATA_BYTES_MAX
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
_DEFAULT_TYPE: Final = "binary/octet-stream"


def content_type_of(headers: Mapping[str, str]) -> str:
    """Return the type that a request gives an object."""
    return _text(headers.get("content-type", "")) or _DEFAULT_TYPE


def metadata_of(headers: Mapping[str, str]) -> dict[str, str]:
    """Return what a request says about an object, as its entry keeps it.

    Raises:
        S3Error: `MetadataTooLarge`.
    """
    found: dict[str, str] = {}
    size = 0
    for name, value in headers.items():
        if name.startswith(_SENT_PREFIX):
            text = decoded(value)
            found[_KEPT_PREFIX + name[len(_SENT_PREFIX) :]] = text
            size += len(name) - len(_SENT_PREFIX) + len(text.encode("utf-8", "replace"))
    if size > S3_METADATA_BYTES_MAX:
        raise S3Error(
            Code.METADATA_TOO_LARGE,
            "Your metadata headers exceed the maximum allowed metadata size.",
            Size=str(size),
            MaxSizeAllowed=str(S3_METADATA_BYTES_MAX),
        )
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
    """Return a header's value as text: UTF-8 as it is, and words encoded as in RFC 2047."""
    value = _text(value)
    if "=?" not in value:
        return value
    try:
        words = decode_header(value)
    except HeaderParseError:
        return value
    return "".join(_words(words, value))


def encoded(value: str) -> bytes:
    """Return text as a header's value: as it is where that is possible, else as RFC 2047 has it."""
    if value.isascii() and value.isprintable():
        return value.encode()
    return b"=?UTF-8?B?" + b64encode(value.encode("utf-8", "replace")) + b"?="


def _words(words: Iterable[tuple[bytes | str, str | None]], value: str) -> Iterator[str]:
    for word, charset in words:
        if isinstance(word, str):
            yield word
            continue
        try:
            yield word.decode(charset or "utf-8")
        except (LookupError, UnicodeDecodeError):
            yield value


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
