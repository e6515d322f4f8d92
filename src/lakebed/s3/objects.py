"""GetObject, HeadObject, PutObject."""

from typing import Final

from lakebed.catalog.objects import Attributes
from lakebed.http.dates import http_date
from lakebed.http.reply import Headers, Reply
from lakebed.http.sandbox import ATTACHMENT, SANDBOX, is_active
from lakebed.limits import S3_PUT_BYTES_MAX, SMALL_OBJECT_BYTES_MAX
from lakebed.model.entries import CONTENT_TYPE_DEFAULT, Entry
from lakebed.model.part_uploads import PARTS_KEY, unpack_parts
from lakebed.objects.port import ByteRange
from lakebed.s3.call import Call
from lakebed.s3.conditions import Verdict, failed, has_conditions, verdict, write_condition
from lakebed.s3.encryption import refuse_keys
from lakebed.s3.errors import Code, S3Error
from lakebed.s3.metadata import content_type_of, encoded, metadata_of, shown
from lakebed.s3.ranges import parse_range, part_range
from lakebed.s3.signatures.body import BodyPlan
from lakebed.s3.tagging import tags_of_header

_OVERRIDES: Final = {
    "response-content-type": b"content-type",
    "response-content-language": b"content-language",
    "response-expires": b"expires",
    "response-cache-control": b"cache-control",
    "response-content-disposition": b"content-disposition",
    "response-content-encoding": b"content-encoding",
}
_ACCEPT_RANGES: Final = (b"accept-ranges", b"bytes")


async def get_object(call: Call) -> Reply:
    """Send an object, or some of its bytes."""
    ref, path = call.readable()
    repo, entry = await call.session.objects.locate(call.bucket, ref, path)
    answer, part = _read(call, entry)
    if answer.status == 304 or not answer.length:
        return answer
    content = await call.session.objects.content(repo, entry, byte_range=part)
    return Reply(answer.status, content, answer.headers, answer.length)


async def head_object(call: Call) -> Reply:
    """Say what GetObject would, without the bytes."""
    ref, path = call.readable()
    _, entry = await call.session.objects.locate(call.bucket, ref, path)
    return _read(call, entry)[0]


async def put_object(call: Call) -> Reply:
    """Keep an object."""
    branch, path = call.writable()
    headers = call.request.headers
    refuse_keys(headers)
    metadata = {**metadata_of(headers), **tags_of_header(call.header("x-amz-tagging"))}
    plan, size_bytes = sized(call)
    body = call.body(plan)
    # A small one is taken whole, unless its sender waits to hear whether it is wanted.
    is_small = size_bytes <= SMALL_OBJECT_BYTES_MAX and "expect" not in headers
    entry = await call.session.objects.upload(
        call.bucket,
        branch,
        path,
        await call.hold.whole(body) if is_small else aiter(body),
        attributes=Attributes(content_type=content_type_of(headers), metadata=metadata),
        condition=write_condition(headers),
    )
    checksums = tuple((each.header.encode(), text.encode()) for each, text in body.checksums.items())
    return Reply(200, b"", ((b"etag", b'"%s"' % entry.checksum.encode()), *checksums))


def sized(call: Call) -> tuple[BodyPlan, int]:
    """Return the plan of a body whose length must be known and possible, and that length.

    Raises:
        S3Error: `MissingContentLength`, `EntityTooLarge`.
    """
    plan = call.plan()
    if plan.length is None:
        raise S3Error(Code.MISSING_CONTENT_LENGTH, "You must provide the Content-Length HTTP header.")
    if plan.length > S3_PUT_BYTES_MAX:
        raise S3Error(
            Code.ENTITY_TOO_LARGE,
            "Your proposed upload exceeds the maximum allowed size",
            ProposedSize=str(plan.length),
            MaxSizeAllowed=str(S3_PUT_BYTES_MAX),
        )
    return plan, plan.length


def _read(call: Call, entry: Entry) -> tuple[Reply, ByteRange | None]:
    """Return the answer without its body, and which bytes belong into it."""
    headers, query = call.request.headers, call.request.query
    refuse_keys(headers)
    sent = object_headers(entry)
    if has_conditions(headers):
        match verdict(headers, entry):
            case Verdict.FAILED:
                raise failed("If-Match" if "if-match" in headers else "If-Unmodified-Since")
            case Verdict.NOT_MODIFIED:
                return Reply(304, b"", sent), None
            case Verdict.GO:
                pass
    if query:
        sent = _overridden(call, sent)
    sent = _sandboxed(sent)
    part: ByteRange | None = None
    if "partNumber" in query:
        sizes = unpack_parts(entry.metadata[PARTS_KEY]) if PARTS_KEY in entry.metadata else []
        part = part_range(query["partNumber"], sizes, entry.size_bytes)
        if sizes:
            sent = (*sent, (b"x-amz-mp-parts-count", b"%d" % len(sizes)))
    elif "range" in headers:
        part = parse_range(headers["range"], entry.size_bytes)
    if part is None or part.end is None or part.end == part.start:
        return Reply(200, b"", sent, entry.size_bytes), None
    told = b"bytes %d-%d/%d" % (part.start, part.end - 1, entry.size_bytes)
    return Reply(206, b"", (*sent, (b"content-range", told)), part.end - part.start), part


def object_headers(entry: Entry) -> Headers:
    """Return what the headers of a read say about an entry."""
    return (
        (b"etag", b'"%s"' % entry.checksum.encode("latin-1", "replace")),
        (b"last-modified", http_date(entry.mtime)),
        (b"content-type", _one_line(entry.content_type) or CONTENT_TYPE_DEFAULT.encode()),
        _ACCEPT_RANGES,
        *shown(entry.metadata),
    )


def _overridden(call: Call, sent: Headers) -> Headers:
    wanted = {
        name: encoded(call.request.query[parameter])
        for parameter, name in _OVERRIDES.items()
        if parameter in call.request.query
    }
    if not wanted:
        return sent
    return (*(each for each in sent if each[0] not in wanted), *wanted.items())


def _sandboxed(sent: Headers) -> Headers:
    """Return the headers with what keeps a browser from running the object; who asks for a disposition gets it."""
    named = dict(sent)
    if is_active(named[b"content-type"]) and b"content-disposition" not in named:
        return (*sent, *SANDBOX, ATTACHMENT)
    return (*sent, *SANDBOX)


def _one_line(text: str) -> bytes:
    """Return what an entry says as a header's value. Whoever staged it may have written anything."""
    return text.encode("latin-1", "replace") if text.isprintable() else b""
