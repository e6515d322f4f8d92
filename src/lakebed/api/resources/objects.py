"""Objects: read, written, listed, copied, staged, deleted."""

from collections.abc import Sequence
from typing import Annotated, Final

import msgspec

from lakebed.api.arns import on_object, on_repository
from lakebed.api.byte_ranges import parse_range, range_error
from lakebed.api.call import Call
from lakebed.api.listing_bodies import listing_json
from lakebed.api.numbers import Seconds, Size
from lakebed.api.object_bodies import ObjectStats, object_stats, stats_page
from lakebed.api.operation import Body, Operations, Permission
from lakebed.api.pages import Amount, PageOf, wanted
from lakebed.api.phrases import ROWS
from lakebed.api.reply import empty_reply, json_reply, raw_json_reply
from lakebed.api.uploads import read_upload
from lakebed.auth.actions import Action
from lakebed.auth.caller import DENIED_TEXT
from lakebed.catalog.objects import Attributes
from lakebed.env.clock import SECOND, Instant
from lakebed.errors import ErrorKind, InvalidInputError
from lakebed.http.dates import http_date
from lakebed.http.reply import Headers, Reply
from lakebed.http.sandbox import ATTACHMENT, SANDBOX, is_active
from lakebed.limits import DELETE_BATCH, LIST_PAGE_DEFAULT
from lakebed.model.entries import CONTENT_TYPE_DEFAULT, Entry
from lakebed.model.ids import parse_path
from lakebed.staging.conditions import Condition, IfAbsent, IfChecksum

operations = Operations("objects")

_METADATA_PREFIX: Final = b"x-lakefs-meta-"
_INTERNAL_PREFIX: Final = b"x-lakefs-internal-"
_INLINE_TYPES: Final = frozenset({"text/plain", "application/json", "application/pdf"})
"""What a browser shows, as it stands; and images."""

ObjectPath = Annotated[str, msgspec.Meta(description="the object's path")]


class PathQuery(msgspec.Struct):
    """Which object."""

    path: ObjectPath


class ReadQuery(PathQuery):
    """`presign` redirects to a URL of the store, where it can sign."""

    presign: bool = False


class StatQuery(ReadQuery):
    """`user_metadata` leaves the user's metadata out when false."""

    user_metadata: bool = True


class WriteQuery(PathQuery):
    """`force` also writes to a read-only repository."""

    force: bool = False
    storage_class: str = msgspec.field(name="storageClass", default="")


class DeleteQuery(PathQuery):
    """`no_tombstone` is taken and means nothing: a deletion leaves what it must."""

    force: bool = False
    no_tombstone: bool = False


class BulkDeleteQuery(msgspec.Struct):
    """As for one object."""

    force: bool = False
    no_tombstone: bool = False


class CopyQuery(msgspec.Struct):
    """Where the copy goes."""

    dest_path: ObjectPath


class ListQuery(msgspec.Struct):
    """Which part of a ref."""

    prefix: str = ""
    after: str = ""
    amount: Amount = LIST_PAGE_DEFAULT
    delimiter: str = ""
    user_metadata: bool = True
    presign: bool = False


class ReadHeaders(msgspec.Struct, rename={"range": "Range", "if_none_match": "If-None-Match"}):
    """Conditional and partial reads."""

    range: str = ""
    if_none_match: str = ""


class WriteHeaders(msgspec.Struct, rename={"if_match": "If-Match", "if_none_match": "If-None-Match"}):
    """Conditional writes."""

    if_match: str = ""
    if_none_match: str = ""


Checksum = Annotated[
    str, msgspec.Meta(min_length=1, max_length=256, pattern=r"^[!#-~]+$", description="printable, no quotes")
]


class StageCreation(msgspec.Struct):
    """An object that lies outside the repository's storage."""

    physical_address: str
    checksum: Checksum
    size_bytes: Size
    mtime: Seconds | None = None
    metadata: dict[str, str] | None = None
    content_type: str = ""
    force: bool = False


class PathList(msgspec.Struct):
    """Objects to delete."""

    paths: Annotated[list[str], msgspec.Meta(max_length=DELETE_BATCH)]


class ObjectError(msgspec.Struct):
    """Why one object was not deleted."""

    status_code: int
    message: str
    path: str


class ObjectErrorList(msgspec.Struct):
    """What a bulk deletion could not delete; empty if all went."""

    errors: list[ObjectError]


class CopyCreation(msgspec.Struct):
    """What to copy; `shallow` moves no bytes."""

    src_path: str
    src_ref: str = ""
    force: bool = False
    shallow: bool = False


class MetadataUpdate(msgspec.Struct):
    """The user metadata that replaces the present one."""

    set: dict[str, str]


class UnderlyingProperties(msgspec.Struct):
    """What the store says about the object, as far as it knows."""

    storage_class: str | None = None


@operations.add(
    "GET",
    "/repositories/{repository}/refs/{ref}/objects/stat",
    "statObject",
    query=StatQuery,
    replies={200: ObjectStats},
    permissions=on_object(Action.READ_OBJECT),
)
async def stat_object(call: Call) -> Reply:
    """Get what is known of an object."""
    query = call.query(StatQuery)
    repo, entry = await call.session.objects.locate(call.path["repository"], call.path["ref"], query.path)
    stats = object_stats(entry, repo.namespace, with_metadata=query.user_metadata)
    if query.presign:
        signed = await call.session.links.download(repo, entry)
        stats.physical_address, stats.physical_address_expiry = signed.url, signed.expires_at // SECOND
    return json_reply(200, stats)


@operations.add(
    "GET",
    "/repositories/{repository}/refs/{ref}/objects/ls",
    "listObjects",
    query=ListQuery,
    replies={200: PageOf[ObjectStats]},
    permissions=on_repository(Action.LIST_OBJECTS),
)
async def list_objects(call: Call) -> Reply:
    """List objects, with a delimiter folded into common prefixes."""
    query, repository = call.query(ListQuery), call.path["repository"]
    page = await call.session.objects.list(
        repository,
        call.path["ref"],
        prefix=query.prefix,
        after=query.after,
        delimiter=query.delimiter,
        amount=wanted(query.amount),
    )
    namespace = await call.session.objects.namespace(repository)
    if not query.presign:
        return raw_json_reply(200, listing_json(page, namespace, with_metadata=query.user_metadata))
    body = stats_page(page, namespace, with_metadata=query.user_metadata)
    await _sign_all(call, body.results)
    return json_reply(200, body)


@operations.add(
    "GET",
    "/repositories/{repository}/refs/{ref}/objects",
    "getObject",
    query=ReadQuery,
    headers=ReadHeaders,
    replies={200: bytes, 206: bytes, 302: None, 304: None},
    permissions=on_object(Action.READ_OBJECT),
)
async def get_object(call: Call) -> Reply:
    """Get an object's bytes."""
    query, headers = call.query(ReadQuery), call.headers(ReadHeaders)
    objects = call.session.objects
    repo, entry = await objects.locate(call.path["repository"], call.path["ref"], query.path)
    if query.presign:
        signed = await call.session.links.download(repo, entry)
        return empty_reply(302, headers=((b"location", signed.url.encode()),))
    if headers.if_none_match and headers.if_none_match == f'"{entry.checksum}"':
        return empty_reply(304, headers=_object_headers(entry))
    if headers.range:
        try:
            part = parse_range(headers.range, entry.size_bytes)
        except InvalidInputError as error:
            return range_error(headers.range, entry.size_bytes, error, about=_object_headers(entry))
        assert part.end is not None, "a parsed range has an end"
        told = b"bytes %d-%d/%d" % (part.start, part.end - 1, entry.size_bytes)
        body = await objects.content(repo, entry, byte_range=part)
        return Reply(
            206, body, (*_object_headers(entry), (b"content-range", told)), length=part.end - part.start
        )
    return Reply(200, await objects.content(repo, entry), _object_headers(entry), length=entry.size_bytes)


@operations.add(
    "HEAD",
    "/repositories/{repository}/refs/{ref}/objects",
    "headObject",
    query=PathQuery,
    headers=ReadHeaders,
    replies={200: None, 206: None},
    permissions=on_object(Action.READ_OBJECT),
)
async def head_object(call: Call) -> Reply:
    """Get the headers that a download would have."""
    query, headers = call.query(PathQuery), call.headers(ReadHeaders)
    _, entry = await call.session.objects.locate(call.path["repository"], call.path["ref"], query.path)
    sent: Headers = (*_object_headers(entry), (b"accept-ranges", b"bytes"))
    if not headers.range:
        return Reply(200, b"", sent, length=entry.size_bytes)
    try:
        part = parse_range(headers.range, entry.size_bytes)
    except InvalidInputError as error:
        return range_error(headers.range, entry.size_bytes, error, about=sent)
    assert part.end is not None, "a parsed range has an end"
    told = b"bytes %d-%d/%d" % (part.start, part.end - 1, entry.size_bytes)
    return Reply(206, b"", (*sent, (b"content-range", told)), length=part.end - part.start)


@operations.add(
    "POST",
    "/repositories/{repository}/branches/{branch}/objects",
    "uploadObject",
    query=WriteQuery,
    headers=WriteHeaders,
    body=Body.RAW,
    replies={201: ObjectStats},
    permissions=on_object(Action.WRITE_OBJECT),
)
async def upload_object(call: Call) -> Reply:
    """Upload an object."""
    query = call.query(WriteQuery)
    parse_path(query.path)
    condition = condition_of(call.headers(WriteHeaders))
    upload = await read_upload(call)
    entry = await call.session.objects.upload(
        call.path["repository"],
        call.path["branch"],
        query.path,
        upload.data,
        attributes=Attributes(content_type=upload.content_type, metadata=_user_metadata(call)),
        condition=condition,
        force=query.force,
    )
    namespace = await call.session.objects.namespace(call.path["repository"])
    return json_reply(201, object_stats(entry, namespace))


@operations.add(
    "PUT",
    "/repositories/{repository}/branches/{branch}/objects",
    "stageObject",
    query=PathQuery,
    body=StageCreation,
    replies={201: ObjectStats},
    permissions=(
        *on_object(Action.WRITE_OBJECT),
        Permission(
            action=Action.IMPORT_FROM_STORAGE, resource="arn:lakefs:fs:::namespace/{body.physical_address}"
        ),
    ),
    tag="internal",
    deprecated=True,
)
async def stage_object(call: Call) -> Reply:
    """Stage an object that lies outside the repository's storage."""
    body = call.body(StageCreation)
    entry = Entry(
        path=parse_path(call.query(PathQuery).path),
        address=body.physical_address,
        checksum=body.checksum,
        size_bytes=body.size_bytes,
        mtime=Instant(body.mtime * SECOND) if body.mtime is not None else call.services.clock.now(),
        content_type=body.content_type or CONTENT_TYPE_DEFAULT,
        metadata=body.metadata or {},
    )
    await call.session.objects.stage(call.path["repository"], call.path["branch"], [entry], force=body.force)
    return json_reply(201, object_stats(entry, ""))


@operations.add(
    "DELETE",
    "/repositories/{repository}/branches/{branch}/objects",
    "deleteObject",
    query=DeleteQuery,
    replies={204: None},
    permissions=on_object(Action.DELETE_OBJECT),
)
async def delete_object(call: Call) -> Reply:
    """Delete an object; one that is not there is no error."""
    query = call.query(DeleteQuery)
    await call.session.objects.delete(
        call.path["repository"], call.path["branch"], [query.path], force=query.force
    )
    return empty_reply(204)


@operations.add(
    "POST",
    "/repositories/{repository}/branches/{branch}/objects/delete",
    "deleteObjects",
    query=BulkDeleteQuery,
    body=PathList,
    replies={200: ObjectErrorList},
    permissions=(
        Permission(
            action=Action.DELETE_OBJECT,
            resource="arn:lakefs:fs:::repository/{repository}/object/{body.paths}",
        ),
    ),
)
async def delete_objects(call: Call) -> Reply:
    """Delete many objects; what could not be deleted is answered one by one."""
    repository, objects = call.path["repository"], call.session.objects
    paths = [path for path in call.body(PathList).paths if path]
    denied = [path for path in paths if not objects.may_delete(repository, path)]
    refused = set(denied)
    allowed = [path for path in paths if path not in refused]
    if allowed:
        # Only then: whether a repository exists is nobody's business who may delete nothing in it.
        await objects.delete(
            repository, call.path["branch"], allowed, force=call.query(BulkDeleteQuery).force
        )
    status = ROWS[ErrorKind.PERMISSION_DENIED].status
    return json_reply(200, ObjectErrorList([ObjectError(status, DENIED_TEXT, path) for path in denied]))


@operations.add(
    "POST",
    "/repositories/{repository}/branches/{branch}/objects/copy",
    "copyObject",
    query=CopyQuery,
    body=CopyCreation,
    replies={201: ObjectStats},
    permissions=(
        Permission(
            action=Action.READ_OBJECT,
            resource="arn:lakefs:fs:::repository/{repository}/object/{body.src_path}",
        ),
        Permission(
            action=Action.WRITE_OBJECT, resource="arn:lakefs:fs:::repository/{repository}/object/{dest_path}"
        ),
    ),
)
async def copy_object(call: Call) -> Reply:
    """Copy an object within the repository."""
    body, repository = call.body(CopyCreation), call.path["repository"]
    entry = await call.session.objects.copy(
        repository,
        call.path["branch"],
        call.query(CopyQuery).dest_path,
        source_path=body.src_path,
        source_ref=body.src_ref or None,
        shallow=body.shallow,
        force=body.force,
    )
    return json_reply(201, object_stats(entry, await call.session.objects.namespace(repository)))


@operations.add(
    "PUT",
    "/repositories/{repository}/branches/{branch}/objects/stat/user_metadata",
    "updateObjectUserMetadata",
    query=PathQuery,
    body=MetadataUpdate,
    replies={204: None},
    permissions=on_object(Action.WRITE_OBJECT),
)
async def update_user_metadata(call: Call) -> Reply:
    """Replace an object's user metadata."""
    await call.session.objects.set_metadata(
        call.path["repository"],
        call.path["branch"],
        call.query(PathQuery).path,
        call.body(MetadataUpdate).set,
    )
    return empty_reply(204)


@operations.add(
    "GET",
    "/repositories/{repository}/refs/{ref}/objects/underlyingProperties",
    "getUnderlyingProperties",
    query=PathQuery,
    replies={200: UnderlyingProperties},
    permissions=on_object(Action.READ_OBJECT),
)
async def underlying_properties(call: Call) -> Reply:
    """Get what the store says about an object."""
    repo, entry = await call.session.objects.locate(
        call.path["repository"], call.path["ref"], call.query(PathQuery).path
    )
    return json_reply(200, UnderlyingProperties(await call.session.links.storage_class(repo, entry)))


async def _sign_all(call: Call, listed: Sequence[ObjectStats]) -> None:
    """Replace addresses by URLs, as far as the caller may read the objects."""
    repository = call.path["repository"]
    for each in listed:
        if each.path_type == "object":
            signed = await call.session.links.download_address(
                repository, each.path, each.physical_address, each.content_type or ""
            )
            each.physical_address, each.physical_address_expiry = signed.url, signed.expires_at // SECOND


def _object_headers(entry: Entry) -> Headers:
    content_type = _header_text(entry.content_type) or CONTENT_TYPE_DEFAULT.encode()
    is_shown = entry.content_type in _INLINE_TYPES or (
        entry.content_type.startswith("image/") and not is_active(content_type)
    )
    return (
        (b"etag", b'"%s"' % _header_text(entry.checksum)),
        (b"last-modified", http_date(entry.mtime)),
        (b"content-type", content_type),
        (b"cache-control", b"no-store, must-revalidate"),
        (b"expires", b"0"),
        *SANDBOX,
        (b"content-disposition", b"inline") if is_shown else ATTACHMENT,
    )


def _header_text(text: str) -> bytes:
    """Return what an entry says as a header's value. Whoever staged it may have written anything."""
    return text.encode("latin-1", "replace") if text.isprintable() else b""


def condition_of(headers: WriteHeaders) -> Condition | None:
    """Return the condition that the headers of a write state."""
    if headers.if_match and headers.if_none_match:
        raise InvalidInputError(
            ErrorKind.UNSUPPORTED, "header: If-Match and If-None-Match exclude each other: send one of them"
        )
    if headers.if_match:
        return IfChecksum(headers.if_match.strip('"'))
    if not headers.if_none_match:
        return None
    if headers.if_none_match != "*":
        raise InvalidInputError(ErrorKind.UNSUPPORTED, "header: If-None-Match of a write can only be *")
    return IfAbsent()


def _user_metadata(call: Call) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in call.raw_headers.items():
        if name.startswith(_METADATA_PREFIX):
            found[name[len(_METADATA_PREFIX) :].decode("latin-1")] = value.decode("utf-8", "replace")
        elif name.startswith(_INTERNAL_PREFIX):
            found["::lakefs::" + name[len(_INTERNAL_PREFIX) :].decode("latin-1")] = value.decode(
                "utf-8", "replace"
            )
    return found
