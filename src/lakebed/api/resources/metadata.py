"""The files behind trees, commit records as they are, symlink manifests."""

from typing import Annotated, get_args

import msgspec

from lakebed.api.arns import on, on_repository
from lakebed.api.call import Call
from lakebed.api.numbers import Seconds
from lakebed.api.operation import Operations
from lakebed.api.reply import empty_reply, json_reply
from lakebed.auth.actions import Action
from lakebed.catalog.commit_records import CommitRecord
from lakebed.catalog.metadata_files import FileKind
from lakebed.errors import ErrorKind, InvalidInputError, quoted
from lakebed.http.reply import Reply

operations = Operations("metadata")

_READ = on_repository(Action.LIST_OBJECTS, Action.READ_REPOSITORY)


class StorageUri(msgspec.Struct):
    """Where something lies in the store."""

    location: str


class FileQuery(msgspec.Struct):
    """`presign` is refused: the bytes are served here."""

    presign: bool = False


class SymlinkQuery(msgspec.Struct):
    """What the manifests cover: everything that begins with `location`."""

    location: str = ""


class CommitRecordCreation(msgspec.Struct):
    """A commit as its own installation had it."""

    commit_id: str
    committer: str
    message: str
    metarange_id: str
    creation_date: Seconds
    parents: list[str]
    generation: Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)]
    version: Annotated[int, msgspec.Meta(ge=0, le=1)] = 1
    metadata: dict[str, str] | None = None
    force: bool = False


@operations.add(
    "GET",
    "/repositories/{repository}/metadata/meta_range/{meta_range}",
    "getMetaRange",
    replies={200: StorageUri},
    permissions=_READ,
)
async def get_meta_range(call: Call) -> Reply:
    """Get where a metarange lies, relative to the repository's namespace."""
    location = await call.session.metadata_files.location(
        call.path["repository"], "meta_range", call.path["meta_range"]
    )
    return json_reply(200, StorageUri(location), headers=((b"location", location.encode()),))


@operations.add(
    "GET",
    "/repositories/{repository}/metadata/range/{range}",
    "getRange",
    replies={200: StorageUri},
    permissions=_READ,
)
async def get_range(call: Call) -> Reply:
    """Get where a range lies, relative to the repository's namespace."""
    location = await call.session.metadata_files.location(
        call.path["repository"], "range", call.path["range"]
    )
    return json_reply(200, StorageUri(location), headers=((b"location", location.encode()),))


@operations.add(
    "GET",
    "/repositories/{repository}/metadata/object/{type}/{object_id}",
    "getMetadataObject",
    query=FileQuery,
    replies={200: bytes, 302: None},
    permissions=_READ,
    tag="internal",
)
async def get_metadata_object(call: Call) -> Reply:
    """Get the Parquet file of a range or metarange."""
    kind: FileKind
    match call.path["type"]:
        case "range":
            kind = "range"
        case "meta_range":
            kind = "meta_range"
        case other:
            raise InvalidInputError(
                ErrorKind.INVALID_ARGUMENT,
                f"path: `type` {quoted(other)} must be one of {get_args(FileKind)}",
            )
    files, name = call.session.metadata_files, call.path["object_id"]
    if call.query(FileQuery).presign:
        signed = await files.download(call.path["repository"], kind, name)
        return empty_reply(302, headers=((b"location", signed.url.encode()),))
    chunks = await files.read(call.path["repository"], kind, name)
    return Reply(200, chunks, ((b"content-type", b"application/vnd.apache.parquet"),))


@operations.add(
    "POST",
    "/repositories/{repository}/commits",
    "CreateCommitRecord",
    body=CommitRecordCreation,
    replies={204: None},
    permissions=on_repository(Action.CREATE_COMMIT),
    tag="internal",
)
async def create_commit_record(call: Call) -> Reply:
    """Write a commit's record as it is given."""
    body = call.body(CommitRecordCreation)
    record = CommitRecord(
        id=body.commit_id,
        committer=body.committer,
        message=body.message,
        metarange=body.metarange_id,
        date=body.creation_date,
        parents=body.parents,
        generation=body.generation,
        metadata=body.metadata or {},
    )
    await call.session.commit_records.create(call.path["repository"], record, force=body.force)
    return empty_reply(204)


@operations.add(
    "POST",
    "/repositories/{repository}/refs/{branch}/symlink",
    "createSymlinkFile",
    query=SymlinkQuery,
    replies={201: StorageUri},
    permissions=(
        *on_repository(Action.LIST_OBJECTS),
        *on("arn:lakefs:fs:::repository/{repository}/object/{location}*", Action.WRITE_OBJECT),
    ),
    tag="internal",
)
async def create_symlink_file(call: Call) -> Reply:
    """Write manifests of where a branch's objects lie, a file for each folder."""
    location = await call.session.symlinks.create(
        call.path["repository"], call.path["branch"], call.query(SymlinkQuery).location
    )
    return json_reply(201, StorageUri(location))
