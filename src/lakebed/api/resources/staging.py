"""Addresses that clients write to themselves, and many entries staged at once."""

from typing import Annotated

import msgspec

from lakebed.api.arns import on, on_object
from lakebed.api.call import Call
from lakebed.api.numbers import Seconds, Size
from lakebed.api.object_bodies import ObjectStats, object_stats
from lakebed.api.operation import Operations
from lakebed.api.reply import empty_reply, json_reply
from lakebed.api.resources.objects import (
    Checksum,
    PathQuery,
    ReadQuery,
    WriteHeaders,
    condition_of,
)
from lakebed.auth.actions import Action
from lakebed.catalog.links import Linked
from lakebed.env.clock import SECOND, Instant
from lakebed.errors import ErrorKind, InvalidInputError
from lakebed.http.reply import Reply
from lakebed.limits import STAGE_ENTRIES_MAX
from lakebed.model.entries import CONTENT_TYPE_DEFAULT, Entry
from lakebed.model.ids import parse_path

operations = Operations("staging")


class StagingLocation(msgspec.Struct):
    """Where to write an object's bytes; the URL is null where none was asked for."""

    physical_address: str = ""
    presigned_url: str | None = None
    presigned_url_expiry: int | msgspec.UnsetType = msgspec.UNSET


class StagingMetadata(msgspec.Struct):
    """What was written there."""

    staging: StagingLocation
    checksum: str
    size_bytes: Size
    user_metadata: dict[str, str] | None = None
    content_type: str = ""
    mtime: Seconds | None = None
    force: bool = False


class StagedEntry(msgspec.Struct):
    """An object that lies outside the repository's storage."""

    path: str
    physical_address: str
    checksum: Checksum
    size_bytes: Size
    mtime: Seconds | None = None
    metadata: dict[str, str] | None = None
    content_type: str = ""


class StagedEntries(msgspec.Struct):
    """Objects to stage, all or none."""

    entries: Annotated[list[StagedEntry], msgspec.Meta(max_length=STAGE_ENTRIES_MAX)]
    force: bool = False


@operations.add(
    "GET",
    "/repositories/{repository}/branches/{branch}/staging/backing",
    "getPhysicalAddress",
    query=ReadQuery,
    replies={200: StagingLocation},
    permissions=on_object(Action.WRITE_OBJECT),
)
async def get_physical_address(call: Call) -> Reply:
    """Get an address to write an object's bytes to, for one link within a day."""
    query = call.query(ReadQuery)
    issued = await call.session.links.issue(
        call.path["repository"], call.path["branch"], query.path, presign=query.presign
    )
    location = StagingLocation(issued.address)
    if issued.signed is not None:
        location.presigned_url = issued.signed.url
        location.presigned_url_expiry = issued.signed.expires_at // SECOND
    return json_reply(200, location)


@operations.add(
    "PUT",
    "/repositories/{repository}/branches/{branch}/staging/backing",
    "linkPhysicalAddress",
    query=PathQuery,
    headers=WriteHeaders,
    body=StagingMetadata,
    replies={200: ObjectStats},
    permissions=on_object(Action.WRITE_OBJECT),
)
async def link_physical_address(call: Call) -> Reply:
    """Stage an object that was written to an address given out for it."""
    body, repository = call.body(StagingMetadata), call.path["repository"]
    checksum = body.checksum.strip(' "')
    if not checksum or not checksum.isascii() or not checksum.isprintable() or '"' in checksum:
        raise InvalidInputError(
            ErrorKind.INVALID_ARGUMENT, "body: `checksum` must be printable ASCII without quotes"
        )
    entry = await call.session.links.link(
        repository,
        call.path["branch"],
        call.query(PathQuery).path,
        Linked(
            address=body.staging.physical_address,
            checksum=checksum,
            size_bytes=body.size_bytes,
            content_type=body.content_type or CONTENT_TYPE_DEFAULT,
            mtime=Instant(body.mtime * SECOND) if body.mtime is not None else None,
            metadata=body.user_metadata or {},
        ),
        condition=condition_of(call.headers(WriteHeaders)),
        force=body.force,
    )
    return json_reply(200, object_stats(entry, await call.session.objects.namespace(repository)))


@operations.add(
    "POST",
    "/repositories/{repository}/branches/{branch}/staging/entries",
    "stageObjects",
    body=StagedEntries,
    replies={204: None},
    permissions=(
        *on("arn:lakefs:fs:::repository/{repository}/object/{body.entries.path}", Action.WRITE_OBJECT),
        *on("arn:lakefs:fs:::namespace/{body.entries.physical_address}", Action.IMPORT_FROM_STORAGE),
    ),
)
async def stage_objects(call: Call) -> Reply:
    """Stage many objects that lie outside the repository's storage, all or none."""
    body, now = call.body(StagedEntries), call.services.clock.now()
    entries = [
        Entry(
            path=parse_path(each.path),
            address=each.physical_address,
            checksum=each.checksum,
            size_bytes=each.size_bytes,
            mtime=Instant(each.mtime * SECOND) if each.mtime is not None else now,
            content_type=each.content_type or CONTENT_TYPE_DEFAULT,
            metadata=each.metadata or {},
        )
        for each in body.entries
    ]
    await call.session.objects.stage(call.path["repository"], call.path["branch"], entries, force=body.force)
    return empty_reply(204)
