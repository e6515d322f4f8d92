"""Multipart uploads by their id. Blocking; for worker threads."""

from collections.abc import Sequence
from typing import Final

from lakebed.errors import ErrorKind, UnavailableError
from lakebed.objects.checks import condition_failed, key_exists, part_missing, upload_missing
from lakebed.objects.port import ETag, IfMatch, Part, PutMode, PutWhen
from lakebed.objects.s3.replies import (
    clean_etag,
    complete_body,
    error_code,
    failure,
    parse_completed,
    parse_upload_id,
)
from lakebed.objects.s3.requests import Reply, S3Requests, Sending

_OK: Final = 200
_BAD_REQUEST: Final = 400
_NOT_FOUND: Final = 404
_PRECONDITION_FAILED: Final = 412


class S3Uploads:
    """The uploads of one bucket. Objects are given by their whole names."""

    def __init__(self, requests: S3Requests) -> None:
        self._requests = requests

    def create(self, name: str) -> str:
        """Begin an upload and return its id."""
        reply = self._requests.send("POST", name, query={"uploads": ""})
        _require_ok(reply, f"beginning an upload of {name!r}")
        return parse_upload_id(reply.body)

    def begin_part(self, name: str, upload: str, number: int, size_bytes: int) -> Sending:
        """Begin to send one part in pieces."""
        query = {"partNumber": str(number), "uploadId": upload}
        return self._requests.begin("PUT", name, query=query, size_bytes=size_bytes)

    def end_part(self, sending: Sending, name: str, upload: str, number: int, size_bytes: int) -> Part:
        """Return the part whose pieces have been sent."""
        return self._part(sending.finish(), name, upload, number, size_bytes)

    def put_part(self, name: str, upload: str, number: int, data: bytes) -> Part:
        """Send one part."""
        query = {"partNumber": str(number), "uploadId": upload}
        reply = self._requests.send("PUT", name, query=query, body=data)
        return self._part(reply, name, upload, number, len(data))

    def _part(self, reply: Reply, name: str, upload: str, number: int, size_bytes: int) -> Part:
        if _is_missing(reply):
            raise upload_missing(upload)
        _require_ok(reply, f"part {number} of {name!r}")
        return Part(number, clean_etag(reply.header("etag")), size_bytes)

    def copy_part(self, name: str, upload: str, number: int, source: str, span: tuple[int, int]) -> Part:
        """Make a part of the bytes `span` of the object `source`; an empty one of none."""
        start, end = span
        if start == end:
            return self.put_part(name, upload, number, b"")
        query = {"partNumber": str(number), "uploadId": upload}
        headers = {"x-amz-copy-source": source, "x-amz-copy-source-range": f"bytes={start}-{end - 1}"}
        reply = self._requests.send("PUT", name, query=query, headers=headers)
        if _is_missing(reply):
            raise upload_missing(upload)
        _require_ok(reply, f"copying part {number} of {name!r}")
        etag = parse_completed(reply.body)
        if etag is None:
            raise UnavailableError(
                ErrorKind.STORE_UNAVAILABLE, f"S3 failed while it copied part {number} of {name!r}"
            )
        return Part(number, etag, end - start)

    def complete(
        self, name: str, upload: str, parts: Sequence[Part], *, key: str, when: PutWhen = PutMode.OVERWRITE
    ) -> ETag:
        """Make the object of the parts, if `when` holds."""
        reply = self._requests.send(
            "POST", name, query={"uploadId": upload}, headers=condition(when), body=complete_body(parts)
        )
        code = error_code(reply.body) if reply.status != _OK else ""
        if reply.status == _PRECONDITION_FAILED:
            raise key_exists(key) if when is PutMode.CREATE else condition_failed(key)
        if code in {"InvalidPart", "InvalidPartOrder", "EntityTooSmall"}:
            raise part_missing(parts[-1].number)
        if _is_missing(reply):
            raise upload_missing(upload)
        _require_ok(reply, f"completing the upload of {name!r}")
        etag = parse_completed(reply.body)
        if etag is None:
            raise UnavailableError(
                ErrorKind.OUTCOME_UNKNOWN, f"S3 failed while it completed the upload of {name!r}"
            )
        return etag

    def abort(self, name: str, upload: str) -> None:
        """End the upload; a missing one is no error."""
        reply = self._requests.send("DELETE", name, query={"uploadId": upload})
        if reply.status not in {200, 204} and not _is_missing(reply):
            raise failure(reply.status, reply.body, what=f"aborting the upload of {name!r}", writing=True)


def condition(when: PutWhen) -> dict[str, str]:
    """Return the header that says `when`."""
    match when:
        case IfMatch(etag):
            return {"if-match": f'"{etag}"'}
        case PutMode.CREATE:
            return {"if-none-match": "*"}
        case PutMode.OVERWRITE:
            return {}


def _is_missing(reply: Reply) -> bool:
    """Return whether there is no such upload; an id that cannot be one is answered as a bad request."""
    return reply.status == _NOT_FOUND or (
        reply.status == _BAD_REQUEST and error_code(reply.body) in {"InvalidRequest", "InvalidArgument"}
    )


def _require_ok(reply: Reply, what: str) -> None:
    if reply.status != _OK:
        raise failure(reply.status, reply.body, what=what, writing=True)
