"""What S3 answers, in our words: XML to values, statuses to errors. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from urllib.parse import unquote_plus
from xml.etree import ElementTree as ET
from xml.sax.saxutils import escape

from lakebed.env.clock import SECOND, Instant
from lakebed.errors import ErrorKind, InvalidInputError, LakebedError, UnavailableError
from lakebed.objects.port import ETag, ObjectInfo, OpenUpload, Part

_NAMESPACE: Final = "{http://s3.amazonaws.com/doc/2006-03-01/}"
# The server did not get as far as doing anything.
_NOT_APPLIED: Final = frozenset({429, 503})


@dataclass(frozen=True, slots=True)
class ListPage:
    """One page of a listing: whole names, and where the next page goes on."""

    objects: Sequence[ObjectInfo]
    next_token: str | None


def parse_list(body: bytes) -> ListPage:
    """Return the answer to ListObjectsV2 with `encoding-type=url`."""
    root = _parse(body)
    objects = [
        ObjectInfo(
            key=unquote_plus(_text(item, "Key")),
            size_bytes=int(_text(item, "Size")),
            mtime=_instant(_text(item, "LastModified")),
            etag=clean_etag(_text(item, "ETag")),
            storage_class=_text(item, "StorageClass"),
        )
        for item in _children(root, "Contents")
    ]
    more = _text(root, "IsTruncated") == "true"
    return ListPage(objects, _text(root, "NextContinuationToken") if more else None)


@dataclass(frozen=True, slots=True)
class UploadsPage:
    """One page of open uploads: whole names, and the key and upload id that the next page begins after."""

    uploads: Sequence[OpenUpload]
    next_markers: tuple[str, str] | None


def parse_uploads(body: bytes) -> UploadsPage:
    """Return the answer to ListMultipartUploads, whose keys are plain: servers differ in how they encode them."""
    root = _parse(body)
    uploads = [OpenUpload(_text(item, "Key"), _text(item, "UploadId")) for item in _children(root, "Upload")]
    markers = _text(root, "NextKeyMarker"), _text(root, "NextUploadIdMarker")
    # A server that says it has more and not where would be asked for ever.
    more = _text(root, "IsTruncated") == "true" and any(markers)
    return UploadsPage(uploads, markers if more else None)


def parse_upload_id(body: bytes) -> str:
    """Return the id of the upload that CreateMultipartUpload began."""
    return _text(_parse(body), "UploadId")


def parse_completed(body: bytes) -> ETag | None:
    """Return the ETag of a completed upload or a copied part; None if S3 says 200 and an error in the body, as it may."""
    root = _parse(body)
    return None if root.tag.endswith("Error") else clean_etag(_text(root, "ETag"))


def complete_body(parts: Sequence[Part]) -> bytes:
    """Return the body of CompleteMultipartUpload."""
    items = "".join(
        f"<Part><PartNumber>{part.number}</PartNumber><ETag>&quot;{escape(part.etag)}&quot;</ETag></Part>"
        for part in parts
    )
    return f"<CompleteMultipartUpload>{items}</CompleteMultipartUpload>".encode()


def error_code(body: bytes) -> str:
    """Return S3's name of an error, or "" if the body says none."""
    try:
        return _text(ET.fromstring(body), "Code")  # noqa: S314  the configured store is trusted
    except ET.ParseError:
        return ""


def failure(status: int, body: bytes, *, what: str, writing: bool) -> LakebedError:
    """Return the error for an answer that no caller expects."""
    code = error_code(body)
    text = f"S3 answered {status} {code} to {what}"
    if code == "KeyTooLongError":
        return InvalidInputError(ErrorKind.INVALID_KEY, f"{text}: the key is too long for this server")
    if code == "NoSuchBucket":
        return UnavailableError(ErrorKind.STORE_UNAVAILABLE, f"{text}: create the bucket first")
    if status in {401, 403}:
        return UnavailableError(
            ErrorKind.STORE_UNAVAILABLE, f"{text}: check the access key and what it is allowed to do"
        )
    unknown = writing and status >= 500 and status not in _NOT_APPLIED
    return UnavailableError(ErrorKind.OUTCOME_UNKNOWN if unknown else ErrorKind.STORE_UNAVAILABLE, text)


def clean_etag(text: str) -> ETag:
    """Return an ETag without its quotes."""
    return ETag(text.strip('"'))


def _parse(body: bytes) -> ET.Element:
    try:
        return ET.fromstring(body)  # noqa: S314  the configured store is trusted
    except ET.ParseError as error:
        raise UnavailableError(
            ErrorKind.STORE_UNAVAILABLE, f"S3 answered with something that is no XML: {body[:100]!r}"
        ) from error


def _children(element: ET.Element, name: str) -> Sequence[ET.Element]:
    return element.findall(_NAMESPACE + name) or element.findall(name)


def _text(element: ET.Element, name: str) -> str:
    found = element.find(_NAMESPACE + name)
    if found is None:
        found = element.find(name)
    return "" if found is None or found.text is None else found.text


def _instant(text: str) -> Instant:
    return Instant(round(datetime.fromisoformat(text).timestamp() * SECOND))
