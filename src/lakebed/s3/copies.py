"""CopyObject: across refs and repositories, with both metadata directives and conditions on source and target."""

from urllib.parse import unquote_plus

from msgspec.structs import replace

from lakebed.catalog.copies import CopySource, CopyTarget
from lakebed.http.reply import Reply
from lakebed.model.entries import Entry
from lakebed.model.part_uploads import PARTS_KEY
from lakebed.s3.call import Call
from lakebed.s3.conditions import Verdict, failed, verdict, write_condition
from lakebed.s3.dates import iso_date
from lakebed.s3.encryption import refuse_keys
from lakebed.s3.errors import Code, S3Error
from lakebed.s3.metadata import TAGGING, content_type_of, metadata_of
from lakebed.s3.reply import xml_reply
from lakebed.s3.request import COPY_SOURCE
from lakebed.s3.tagging import tags_of_header
from lakebed.s3.xml import document, element

SOURCE_PREFIX = "x-amz-copy-source-"


async def copy_object(call: Call) -> Reply:
    """Copy an object."""
    branch, path = call.writable()
    headers = call.request.headers
    refuse_keys(headers)
    source = parse_source(call.header(COPY_SOURCE))
    replaces = _directive(call, "x-amz-metadata-directive")
    replaces_tags = _directive(call, "x-amz-tagging-directive")
    tags = tags_of_header(call.header("x-amz-tagging")) if replaces_tags else {}
    same = (source.repo_name, source.ref, source.path) == (call.bucket, branch, path)
    if same and not replaces and not replaces_tags:
        raise S3Error(
            Code.INVALID_REQUEST,
            "This copy request is illegal because it is trying to copy an object to itself without changing the "
            "object's metadata, storage class, website redirect location or encryption attributes.",
        )

    def change(entry: Entry) -> Entry:
        check_source(call, entry)
        # What describes the bytes goes with them, whatever else is replaced.
        metadata = {PARTS_KEY: entry.metadata[PARTS_KEY]} if PARTS_KEY in entry.metadata else {}
        metadata |= metadata_of(headers) if replaces else entry.metadata
        kept_tags = {TAGGING: entry.metadata[TAGGING]} if TAGGING in entry.metadata else {}
        metadata.pop(TAGGING, None)
        metadata |= tags if replaces_tags else kept_tags
        content_type = content_type_of(headers) if replaces else entry.content_type
        return replace(entry, content_type=content_type, metadata=metadata)

    copied = await call.session.copies.copy(
        source,
        CopyTarget(repo_name=call.bucket, branch=branch, path=path, condition=write_condition(headers)),
        change=change,
    )
    return xml_reply(
        document(
            "CopyObjectResult",
            (
                element("LastModified", iso_date(copied.mtime)),
                element("ETag", f'"{copied.checksum}"'),
            ),
        )
    )


def parse_source(header: str) -> CopySource:
    """Return what an `x-amz-copy-source` header names.

    Raises:
        S3Error: nothing that can be copied.
    """
    text, _, version = header.partition("?versionId=")
    try:
        bucket, _, key = unquote_plus(text, errors="strict").removeprefix("/").partition("/")
    except UnicodeDecodeError as error:
        raise _bad_source(header) from error
    ref, _, path = key.partition("/")
    if version and version != "null":
        raise S3Error(
            Code.NOT_IMPLEMENTED,
            "Objects have no versions here: name a commit where the branch is in the key.",
        )
    if not bucket or not ref or not path:
        raise _bad_source(header)
    return CopySource(repo_name=bucket, ref=ref, path=path)


def check_source(call: Call, entry: Entry) -> None:
    """Raise `S3Error` if the conditions on the source do not hold."""
    if verdict(call.request.headers, entry, prefix=SOURCE_PREFIX) is not Verdict.GO:
        raise failed("x-amz-copy-source-If-*")


def _directive(call: Call, name: str) -> bool:
    value = call.header(name) or "COPY"
    if value not in ("COPY", "REPLACE"):
        raise S3Error(Code.INVALID_ARGUMENT, f"Unknown {name}.", ArgumentName=name, ArgumentValue=value)
    return value == "REPLACE"


def _bad_source(header: str) -> S3Error:
    return S3Error(
        Code.INVALID_ARGUMENT,
        "Copy Source must mention the source bucket and key: sourcebucket/sourcekey",
        ArgumentName=COPY_SOURCE,
        ArgumentValue=header,
    )
