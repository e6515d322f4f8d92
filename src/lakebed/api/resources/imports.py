"""Imports: started, watched, cancelled."""

from datetime import UTC, datetime
from typing import Annotated, Literal

import msgspec

from lakebed.api.arns import on, on_branch
from lakebed.api.call import Call
from lakebed.api.commit_bodies import CommitBody, commit_body, request_of
from lakebed.api.errors import ErrorBody
from lakebed.api.operation import Operations
from lakebed.api.phrases import IMPORT_TASK, Asked
from lakebed.api.reply import empty_reply, json_reply
from lakebed.api.resources.commits import CommitCreation
from lakebed.api.task_errors import task_error
from lakebed.auth.actions import Action
from lakebed.env.clock import SECOND
from lakebed.http.reply import Reply
from lakebed.limits import IMPORT_PATHS_MAX
from lakebed.model.tasks import TaskState
from lakebed.versioning.importing import ImportKind, ImportPath

operations = Operations("import")


class ImportLocation(msgspec.Struct):
    """What to import, and where it goes."""

    type: Literal["common_prefix", "object"]
    path: str
    destination: str


class ImportCreation(msgspec.Struct):
    """Sources, and the commit that brings them in."""

    paths: Annotated[list[ImportLocation], msgspec.Meta(max_length=IMPORT_PATHS_MAX)]
    commit: CommitCreation
    force: bool = False


class ImportStarted(msgspec.Struct):
    """The import's id, to ask about it."""

    id: str


class ImportQuery(msgspec.Struct):
    """Which import."""

    id: str


class ImportStatus(msgspec.Struct, omit_defaults=True):
    """How an import goes."""

    completed: bool
    update_time: datetime
    ingested_objects: int | None = None
    metarange_id: str | None = None
    commit: CommitBody | None = None
    error: ErrorBody | None = None


@operations.add(
    "POST",
    "/repositories/{repository}/branches/{branch}/import",
    "importStart",
    body=ImportCreation,
    replies={202: ImportStarted},
    permissions=(
        *on("arn:lakefs:fs:::namespace/{body.paths.path}*", Action.IMPORT_FROM_STORAGE),
        *on(
            "arn:lakefs:fs:::repository/{repository}/object/{body.paths.destination}*",
            Action.WRITE_OBJECT,
            Action.DELETE_OBJECT,
        ),
        *on_branch(Action.CREATE_COMMIT),
    ),
)
async def import_start(call: Call) -> Reply:
    """Begin to import objects without copying them."""
    body = call.body(ImportCreation)
    paths = [
        ImportPath(kind=ImportKind(each.type), address=each.path, destination=each.destination)
        for each in body.paths
    ]
    request = request_of(
        call, body.commit.message or "Import objects", metadata=body.commit.metadata, date=body.commit.date
    )
    task = await call.session.imports.start(
        call.path["repository"], call.path["branch"], paths, request, force=body.force
    )
    return json_reply(202, ImportStarted(task.id))


@operations.add(
    "GET",
    "/repositories/{repository}/branches/{branch}/import",
    "importStatus",
    query=ImportQuery,
    replies={200: ImportStatus},
    permissions=on_branch(Action.READ_BRANCH),
)
async def import_status(call: Call) -> Reply:
    """Show how an import goes."""
    repository = call.path["repository"]
    task = await call.session.imports.status(repository, call.path["branch"], call.query(ImportQuery).id)
    commit_id = task.result.get("commit_id")
    status = ImportStatus(
        completed=task.state is TaskState.DONE,
        update_time=datetime.fromtimestamp(task.updated_at / SECOND, UTC),
        ingested_objects=task.progress,
        metarange_id=task.result.get("metarange_id"),
        commit=commit_body(await call.session.commits.get(repository, commit_id)) if commit_id else None,
        error=task_error(task, Asked(IMPORT_TASK, call.path)),
    )
    return json_reply(200, status)


@operations.add(
    "DELETE",
    "/repositories/{repository}/branches/{branch}/import",
    "importCancel",
    query=ImportQuery,
    replies={204: None},
    permissions=on_branch(Action.IMPORT_CANCEL),
)
async def import_cancel(call: Call) -> Reply:
    """Stop an import; nothing of it becomes visible."""
    await call.session.imports.cancel(
        call.path["repository"], call.path["branch"], call.query(ImportQuery).id
    )
    return empty_reply(204)
