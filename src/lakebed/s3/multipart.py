"""Objects in parts: CreateMultipartUpload, UploadPart, UploadPartCopy, ListParts, ListMultipartUploads, Complete, Abort."""

import re
from bisect import bisect_right
from typing import Final
from urllib.parse import quote

from lakebed.catalog.copies import CopySource
from lakebed.catalog.objects import Attributes
from lakebed.catalog.part_uploads import UploadOf
from lakebed.http.numbers import whole_number
from lakebed.http.reply import Reply
from lakebed.limits import PARTS_MAX
from lakebed.model.part_uploads import PartUpload
from lakebed.objects.port import ByteRange
from lakebed.s3.call import Call
from lakebed.s3.conditions import write_condition
from lakebed.s3.copies import check_source, parse_source
from lakebed.s3.dates import iso_date
from lakebed.s3.encryption import refuse_keys
from lakebed.s3.errors import Code, S3Error
from lakebed.s3.metadata import content_type_of, metadata_of
from lakebed.s3.objects import sized
from lakebed.s3.ranges import parse_part_number
from lakebed.s3.reply import xml_reply
from lakebed.s3.request import COPY_SOURCE
from lakebed.s3.tagging import tags_of_header
from lakebed.s3.xml import document, element, malformed

_PAGE_MAX: Final = 1000
_NUMBER_MAX: Final = 2**31 - 1
_COPY_RANGE: Final = re.compile(r"bytes=(\d{1,19})-(\d{1,19})", re.ASCII)


async def create_upload(call: Call) -> Reply:
    """Begin an upload."""
    branch, path = call.writable()
    headers = call.request.headers
    refuse_keys(headers)
    metadata = {**metadata_of(headers), **tags_of_header(call.header("x-amz-tagging"))}
    upload = await call.session.part_uploads.begin(
        call.bucket,
        branch,
        path,
        Attributes(content_type=content_type_of(headers), metadata=metadata),
    )
    return xml_reply(
        document("InitiateMultipartUploadResult", (*_target(call), element("UploadId", upload.id)))
    )


async def upload_part(call: Call) -> Reply:
    """Keep one part."""
    refuse_keys(call.request.headers)
    number = _part_number(call)
    plan, size_bytes = sized(call)
    body = call.body(plan)
    part = await call.session.part_uploads.put(_upload(call), number, aiter(body), size_bytes=size_bytes)
    checksums = tuple((each.header.encode(), text.encode()) for each, text in body.checksums.items())
    return Reply(200, b"", ((b"etag", b'"%s"' % part.md5.encode()), *checksums))


async def upload_part_copy(call: Call) -> Reply:
    """Make a part of an object, or of some of its bytes."""
    refuse_keys(call.request.headers)
    number, source = _part_number(call), parse_source(call.header(COPY_SOURCE))
    repo, entry = await call.session.objects.locate(source.repo_name, source.ref, source.path)
    check_source(call, entry)
    header = call.header("x-amz-copy-source-range")
    part = await call.session.part_uploads.copy(
        _upload(call),
        number,
        (repo, entry),
        byte_range=_copy_range(header, entry.size_bytes, source) if header else None,
    )
    return xml_reply(
        document(
            "CopyPartResult",
            (element("LastModified", iso_date(part.uploaded_at)), element("ETag", f'"{part.md5}"')),
        )
    )


async def complete_upload(call: Call) -> Reply:
    """Make the object of its parts."""
    # Its checksums are of the whole object, which is nowhere at hand as a whole.
    root = await call.document(root="CompleteMultipartUpload", checksums=False)
    wanted: list[tuple[int, str]] = []
    for part in root.all("Part"):
        number = whole_number(part.value("PartNumber").strip(), most=99_999)
        if number is None:
            raise malformed()
        wanted.append((number, part.value("ETag").strip().strip('"')))
    if not 1 <= len(wanted) <= PARTS_MAX:
        raise malformed()
    checksum = await call.session.part_uploads.complete(
        _upload(call), wanted, condition=write_condition(call.request.headers)
    )
    location = f"{call.header('x-forwarded-proto') or 'http'}://{call.header('host')}{call.request.raw_path}"
    return xml_reply(
        document(
            "CompleteMultipartUploadResult",
            (element("Location", location), *_target(call), element("ETag", f'"{checksum}"')),
        )
    )


async def abort_upload(call: Call) -> Reply:
    """Give an upload up."""
    await call.session.part_uploads.abort(_upload(call))
    return Reply(204)


async def list_parts(call: Call) -> Reply:
    """List the parts that have arrived."""
    marker, most = _number(call, "part-number-marker", 0), _number(call, "max-parts", _PAGE_MAX)
    amount = min(most, _PAGE_MAX)
    upload, parts, has_more = await call.session.part_uploads.parts(
        _upload(call), after_number=marker, amount=amount
    )
    listed = [
        f"<Part><PartNumber>{part.number}</PartNumber><LastModified>{iso_date(part.uploaded_at)}</LastModified>"
        f"<ETag>&quot;{part.md5}&quot;</ETag><Size>{part.size_bytes}</Size></Part>"
        for part in parts
    ]
    return xml_reply(
        document(
            "ListPartsResult",
            (
                *_target(call),
                element("UploadId", upload.id),
                _people(upload),
                element("StorageClass", "STANDARD"),
                element("PartNumberMarker", marker),
                element("NextPartNumberMarker", parts[-1].number if parts else 0),
                element("MaxParts", amount),
                element("IsTruncated", "true" if has_more else "false"),
                *listed,
            ),
        )
    )


async def list_uploads(call: Call) -> Reply:
    """List the uploads that are under way."""
    query = call.request.query
    prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
    key_marker, id_marker = query.get("key-marker", ""), query.get("upload-id-marker", "")
    amount = min(_number(call, "max-uploads", _PAGE_MAX), _PAGE_MAX)
    encode = query.get("encoding-type") == "url"
    uploads = await call.session.part_uploads.under_way(call.bucket, prefix=prefix)
    if key_marker:
        uploads = _after(uploads, key_marker, id_marker)
    shown: list[str] = []
    prefixes: list[str] = []
    last: PartUpload | None = None
    has_more = False
    for upload in uploads:
        key = upload.key
        cut = key.find(delimiter, len(prefix)) if delimiter else -1
        folder = key[: cut + len(delimiter)] if cut >= 0 else ""
        if folder and (folder in prefixes or key_marker.startswith(folder)):
            last = upload
            continue
        if len(shown) + len(prefixes) == amount:
            has_more = True
            break
        last = upload
        if folder:
            prefixes.append(folder)
        else:
            shown.append(
                f"<Upload>{_encoded('Key', key, encode=encode)}{element('UploadId', upload.id)}{_people(upload)}"
                f"<StorageClass>STANDARD</StorageClass><Initiated>{iso_date(upload.created_at)}</Initiated></Upload>"
            )
    return xml_reply(
        document(
            "ListMultipartUploadsResult",
            (
                element("Bucket", call.bucket),
                _encoded("KeyMarker", key_marker, encode=encode),
                element("UploadIdMarker", id_marker),
                _encoded("NextKeyMarker", last.key, encode=encode) if last and has_more else "",
                element("NextUploadIdMarker", last.id) if last and has_more else "",
                _encoded("Prefix", prefix, encode=encode),
                _encoded("Delimiter", delimiter, encode=encode) if delimiter else "",
                element("EncodingType", "url") if encode else "",
                element("MaxUploads", amount),
                element("IsTruncated", "true" if has_more else "false"),
                *shown,
                *(
                    f"<CommonPrefixes>{_encoded('Prefix', each, encode=encode)}</CommonPrefixes>"
                    for each in prefixes
                ),
            ),
        )
    )


def _after(uploads: list[PartUpload], key_marker: str, id_marker: str) -> list[PartUpload]:
    """Return the uploads behind a marker; with an id, also the later ones of the marker's own key."""
    keys = [upload.key for upload in uploads]
    end = bisect_right(keys, key_marker)
    same = [index for index in range(end) if keys[index] == key_marker]
    at = next((index for index in same if uploads[index].id == id_marker), None)
    return uploads[end:] if at is None else uploads[at + 1 :]


def _upload(call: Call) -> UploadOf:
    branch, path = call.writable()
    return UploadOf(repo_name=call.bucket, branch=branch, path=path, id=call.request.query["uploadId"])


def _target(call: Call) -> tuple[str, str]:
    return element("Bucket", call.bucket), element("Key", call.key)


def _people(upload: PartUpload) -> str:
    who = f"{element('ID', upload.initiator)}{element('DisplayName', upload.initiator)}"
    return f"<Initiator>{who}</Initiator><Owner>{who}</Owner>"


def _encoded(name: str, value: str, *, encode: bool) -> str:
    return element(name, quote(value, safe="/") if encode else value)


def _part_number(call: Call) -> int:
    return parse_part_number(call.request.query["partNumber"])


def _number(call: Call, name: str, default: int) -> int:
    text = call.request.query.get(name) or str(default)
    number = whole_number(text, most=_NUMBER_MAX)
    if number is None:
        raise S3Error(
            Code.INVALID_ARGUMENT, f"Provided {name} is not a number", ArgumentName=name, ArgumentValue=text
        )
    return number


def _copy_range(header: str, size_bytes: int, source: CopySource) -> ByteRange:
    found = _COPY_RANGE.fullmatch(header.strip())
    if found is None:
        raise S3Error(
            Code.INVALID_ARGUMENT,
            "The x-amz-copy-source-range value must be of the form bytes=first-last",
            ArgumentName="x-amz-copy-source-range",
            ArgumentValue=header,
        )
    first, last = int(found.group(1)), int(found.group(2))
    if first > last or last >= size_bytes:
        raise S3Error(
            Code.INVALID_ARGUMENT,
            f"Range specified is not valid for source object of size: {size_bytes}",
            ArgumentName="x-amz-copy-source-range",
            ArgumentValue=header,
            Source=f"{source.repo_name}/{source.ref}/{source.path}",
        )
    return ByteRange(first, last + 1)
