"""Uploads in parts that clients send to the store themselves, by presigned URLs."""

from typing import Annotated

import msgspec

from lakebed.api.arns import on, on_object
from lakebed.api.byte_ranges import parse_range
from lakebed.api.call import Call
from lakebed.api.object_bodies import ObjectStats, object_stats
from lakebed.api.operation import Operations
from lakebed.api.reply import empty_reply, json_reply
from lakebed.api.resources.objects import PathQuery
from lakebed.auth.actions import Action
from lakebed.catalog.multipart import Completed, CopySource, UploadOf
from lakebed.errors import ErrorKind, InvalidInputError
from lakebed.http.numbers import whole_number
from lakebed.http.reply import Reply
from lakebed.limits import PARTS_MAX
from lakebed.model.entries import CONTENT_TYPE_DEFAULT

operations = Operations("experimental")

_UPLOADS = "/repositories/{repository}/branches/{branch}/staging/pmpu"

PartNumber = Annotated[int, msgspec.Meta(ge=1, le=PARTS_MAX)]


class PartsQuery(PathQuery):
    """How many parts to sign at once."""

    parts: Annotated[int, msgspec.Meta(ge=0, le=PARTS_MAX)] = 0


class PresignMultipartUpload(msgspec.Struct):
    """A multipart upload that a client does itself."""

    upload_id: str
    physical_address: str
    presigned_urls: list[str] = []


class UploadPartFrom(msgspec.Struct):
    """The upload's address, as it was given out."""

    physical_address: str = ""


class UploadTo(msgspec.Struct):
    """Where a part goes."""

    presigned_url: str


class CopyPartSource(msgspec.Struct):
    """An object, or one range of its bytes."""

    repository: str
    ref: str
    path: str
    range: str | None = None


class UploadPartCopyFrom(msgspec.Struct):
    """The upload's address, and what to copy."""

    physical_address: str
    copy_source: CopyPartSource


class UploadPart(msgspec.Struct):
    """A part that was sent, and the ETag that the store answered."""

    part_number: PartNumber
    etag: str


class CompletePresignMultipartUpload(msgspec.Struct):
    """The parts of the object by rising number, and what it is."""

    physical_address: str = ""
    parts: Annotated[list[UploadPart], msgspec.Meta(max_length=PARTS_MAX)] = []
    user_metadata: dict[str, str] | None = None
    content_type: str | None = None


@operations.add(
    "POST",
    _UPLOADS,
    "createPresignMultipartUpload",
    query=PartsQuery,
    replies={201: PresignMultipartUpload},
    permissions=on_object(Action.WRITE_OBJECT),
)
async def create_upload(call: Call) -> Reply:
    """Begin a multipart upload by presigned URLs."""
    query = call.query(PartsQuery)
    begun = await call.session.multipart.begin(
        call.path["repository"], call.path["branch"], query.path, parts=query.parts
    )
    return json_reply(201, PresignMultipartUpload(begun.upload, begun.address, list(begun.urls)))


@operations.add(
    "PUT",
    _UPLOADS + "/{uploadId}",
    "completePresignMultipartUpload",
    query=PathQuery,
    body=CompletePresignMultipartUpload,
    body_required=False,
    replies={200: ObjectStats},
    permissions=on_object(Action.WRITE_OBJECT),
)
async def complete_upload(call: Call) -> Reply:
    """Make an object of the parts that were sent, and stage it."""
    body = call.body(CompletePresignMultipartUpload)
    entry = await call.session.multipart.complete(
        _upload(call, body.physical_address),
        Completed(
            parts=[(part.part_number, part.etag) for part in body.parts],
            content_type=body.content_type or CONTENT_TYPE_DEFAULT,
            metadata=body.user_metadata or {},
        ),
    )
    return json_reply(200, object_stats(entry, await call.session.objects.namespace(call.path["repository"])))


@operations.add(
    "DELETE",
    _UPLOADS + "/{uploadId}",
    "abortPresignMultipartUpload",
    query=PathQuery,
    body=UploadPartFrom,
    body_required=False,
    replies={204: None},
    permissions=on_object(Action.WRITE_OBJECT),
)
async def abort_upload(call: Call) -> Reply:
    """Give a multipart upload up."""
    await call.session.multipart.abort(_upload(call, call.body(UploadPartFrom).physical_address))
    return empty_reply(204)


@operations.add(
    "PUT",
    _UPLOADS + "/{uploadId}/parts/{partNumber}",
    "uploadPart",
    query=PathQuery,
    body=UploadPartFrom,
    replies={200: UploadTo},
    permissions=on_object(Action.WRITE_OBJECT),
)
async def upload_part(call: Call) -> Reply:
    """Get a URL to send a part to."""
    upload = _upload(call, call.body(UploadPartFrom).physical_address)
    return json_reply(200, UploadTo(await call.session.multipart.part_url(upload, _part_number(call))))


@operations.add(
    "PUT",
    _UPLOADS + "/{uploadId}/parts/{partNumber}/copy",
    "uploadPartCopy",
    query=PathQuery,
    body=UploadPartCopyFrom,
    replies={204: None},
    permissions=(
        *on_object(Action.WRITE_OBJECT),
        *on(
            "arn:lakefs:fs:::repository/{body.copy_source.repository}/object/{body.copy_source.path}",
            Action.READ_OBJECT,
        ),
    ),
)
async def upload_part_copy(call: Call) -> Reply:
    """Make a part of an object, or of one range of its bytes; its ETag is in the header."""
    body, number = call.body(UploadPartCopyFrom), _part_number(call)
    given = body.copy_source
    source = CopySource(
        repo_name=given.repository,
        ref=given.ref,
        path=given.path,
        bytes_of=lambda size: parse_range(given.range, size) if given.range else None,
    )
    upload = _upload(call, body.physical_address)
    etag = await call.session.multipart.copy_part(upload, number, source)
    return empty_reply(204, headers=((b"etag", f'"{etag}"'.encode()),))


def _upload(call: Call, address: str) -> UploadOf:
    return UploadOf(
        repo_name=call.path["repository"],
        branch=call.path["branch"],
        path=call.query(PathQuery).path,
        upload=call.path["uploadId"],
        address=address,
    )


def _part_number(call: Call) -> int:
    number = whole_number(call.path["partNumber"], most=PARTS_MAX)
    if not number:
        raise InvalidInputError(ErrorKind.INVALID_ARGUMENT, f"path: `partNumber` is 1 to {PARTS_MAX}")
    return number
