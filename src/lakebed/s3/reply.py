"""Replies of the S3 endpoint."""

from typing import Final

from lakebed.http.reply import Headers, Reply
from lakebed.http.sandbox import NO_SNIFF
from lakebed.limits import S3_ERROR_TEXT_MAX
from lakebed.s3.errors import S3Error
from lakebed.s3.xml import DECLARATION, element

_XML: Final[Headers] = ((b"content-type", b"application/xml"), NO_SNIFF)


def xml_reply(document: str, *, headers: Headers = ()) -> Reply:
    """Return a document without its declaration as an answer."""
    return Reply(200, (DECLARATION + document).encode(), (*_XML, *headers))


def error_reply(error: S3Error, *, resource: str, request_id: str) -> Reply:
    """Return an error as clients read it."""
    fields = {"Code": error.code.text, "Message": error.message, **error.details, "Resource": resource}
    told = "".join(element(name, _cut(text)) for name, text in fields.items())
    body = f"<Error>{told}{element('RequestId', request_id)}</Error>"
    headers = _XML
    if error.code.status in (429, 503):
        headers = (*_XML, (b"retry-after", b"1"))
    return Reply(error.code.status, (DECLARATION + body).encode("utf-8", "replace"), headers)


def _cut(text: str) -> str:
    """Return a text that may have come from a client; of a long one, as much as is needed to recognise it."""
    return text if len(text) <= S3_ERROR_TEXT_MAX else f"{text[:S3_ERROR_TEXT_MAX]}…"
