"""GetObjectAttributes: what is known of an object, as a document."""

from typing import Final

from lakebed.http.dates import http_date
from lakebed.http.numbers import whole_number
from lakebed.http.reply import Reply
from lakebed.model.entries import Entry
from lakebed.model.part_uploads import PARTS_KEY, unpack_parts
from lakebed.s3.call import Call
from lakebed.s3.errors import Code, S3Error
from lakebed.s3.reply import xml_reply
from lakebed.s3.xml import document, element

_KNOWN: Final = frozenset({"ETag", "Checksum", "ObjectParts", "StorageClass", "ObjectSize"})
_NUMBER_MAX: Final = 2**31 - 1


async def get_attributes(call: Call) -> Reply:
    """Say what the client asks about an object. Checksums are checked when an object is written, and not kept."""
    wanted = {each.strip() for each in call.header("x-amz-object-attributes").split(",") if each.strip()}
    if not wanted or not wanted <= _KNOWN:
        raise S3Error(Code.INVALID_ARGUMENT, "Invalid attribute name specified.")
    ref, path = call.readable()
    entry = await call.session.objects.stat(call.bucket, ref, path)
    parts: list[str] = []
    if "ETag" in wanted:
        parts.append(element("ETag", entry.checksum))
    if "ObjectParts" in wanted and PARTS_KEY in entry.metadata:
        parts.append(_parts(call, entry))
    if "StorageClass" in wanted:
        parts.append(element("StorageClass", "STANDARD"))
    if "ObjectSize" in wanted:
        parts.append(element("ObjectSize", entry.size_bytes))
    return xml_reply(
        document("GetObjectAttributesResponse", parts), headers=((b"last-modified", http_date(entry.mtime)),)
    )


def _parts(call: Call, entry: Entry) -> str:
    first = whole_number(call.header("x-amz-part-number-marker") or "0", most=_NUMBER_MAX)
    most = whole_number(call.header("x-amz-max-parts") or "1000", most=_NUMBER_MAX)
    if first is None or most is None:
        raise S3Error(Code.INVALID_ARGUMENT, "x-amz-part-number-marker and x-amz-max-parts are numbers.")
    sizes = unpack_parts(entry.metadata[PARTS_KEY])
    last = min(first + min(most, 1000), len(sizes))
    listed = "".join(
        f"<Part><PartNumber>{number}</PartNumber><Size>{sizes[number - 1]}</Size></Part>"
        for number in range(first + 1, last + 1)
    )
    return (
        f"<ObjectParts><PartsCount>{len(sizes)}</PartsCount><PartNumberMarker>{first}</PartNumberMarker>"
        f"<NextPartNumberMarker>{last}</NextPartNumberMarker><MaxParts>{most}</MaxParts>"
        f"<IsTruncated>{'true' if last < len(sizes) else 'false'}</IsTruncated>{listed}</ObjectParts>"
    )
