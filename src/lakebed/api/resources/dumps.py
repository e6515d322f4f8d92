"""Refs dumped and restored: at once, or as a task."""

from datetime import UTC, datetime

import msgspec

from lakebed.api.arns import on_repository
from lakebed.api.call import Call
from lakebed.api.operation import Operations
from lakebed.api.phrases import Asked
from lakebed.api.reply import empty_reply, json_reply
from lakebed.api.task_errors import task_error
from lakebed.auth.actions import Action
from lakebed.catalog.dumps import restored_of
from lakebed.env.clock import SECOND, Instant
from lakebed.http.reply import Reply
from lakebed.model.tasks import TaskState
from lakebed.refs.dump import RefsDump
from lakebed.refs.restore import summary

operations = Operations("repositories")

_DUMP = on_repository(Action.LIST_TAGS, Action.LIST_BRANCHES, Action.LIST_COMMITS)
_RESTORE = on_repository(Action.CREATE_TAG, Action.CREATE_BRANCH, Action.CREATE_COMMIT)


class RefsDumpBody(msgspec.Struct):
    """The names of a dump's files."""

    commits_meta_range_id: str
    tags_meta_range_id: str
    branches_meta_range_id: str


class RefsRestore(RefsDumpBody):
    """The dump to restore."""

    force: bool = False


class TaskInfo(msgspec.Struct):
    """A task's id, to ask about it."""

    id: str


class TaskQuery(msgspec.Struct):
    """Which task."""

    task_id: str


class UnrestoredRef(msgspec.Struct):
    """A ref that could not be brought back, and why."""

    kind: str
    name: str
    commit_id: str
    reason: str


class DumpStatus(msgspec.Struct, omit_defaults=True):
    """How a dump goes; `progress` counts commits, `detail` says more about an `error`."""

    id: str
    done: bool
    update_time: datetime
    error: str | None = None
    refs: RefsDumpBody | None = None
    progress: int = 0
    detail: str = ""


class RestoreStatus(msgspec.Struct, omit_defaults=True):
    """How a restore goes; `progress` counts commits, `detail` says more about an `error`. Refs that are `unrestored`
    are named in `error` too.
    """

    id: str
    done: bool
    update_time: datetime
    error: str | None = None
    progress: int = 0
    commits: int = 0
    branches: int = 0
    tags: int = 0
    unrestored: tuple[UnrestoredRef, ...] = ()
    detail: str = ""


@operations.add(
    "PUT",
    "/repositories/{repository}/refs/dump",
    "dumpRefs",
    replies={201: RefsDumpBody},
    permissions=_DUMP,
    tag="internal",
)
async def dump_refs(call: Call) -> Reply:
    """Write branches, tags and commits into the repository's namespace."""
    dump = await call.session.dumps.dump(call.path["repository"])
    return json_reply(201, RefsDumpBody(dump.commits, dump.tags, dump.branches))


@operations.add(
    "PUT",
    "/repositories/{repository}/refs/restore",
    "restoreRefs",
    body=RefsRestore,
    replies={200: None},
    permissions=_RESTORE,
    tag="internal",
)
async def restore_refs(call: Call) -> Reply:
    """Bring a dump back into a bare repository."""
    body = call.body(RefsRestore)
    await call.session.dumps.restore(call.path["repository"], _dump(body), force=body.force)
    return empty_reply(200)


@operations.add(
    "POST",
    "/repositories/{repository}/dump",
    "dumpSubmit",
    replies={202: TaskInfo},
    permissions=_DUMP,
)
async def dump_submit(call: Call) -> Reply:
    """Begin to dump."""
    return json_reply(202, TaskInfo((await call.session.dumps.start_dump(call.path["repository"])).id))


@operations.add(
    "GET",
    "/repositories/{repository}/dump",
    "dumpStatus",
    query=TaskQuery,
    replies={200: DumpStatus},
    permissions=_DUMP,
)
async def dump_status(call: Call) -> Reply:
    """Show how a dump goes."""
    task = await call.session.dumps.dump_status(call.path["repository"], call.query(TaskQuery).task_id)
    refs = None
    if task.state is TaskState.DONE:
        refs = RefsDumpBody(task.result["commits"], task.result["tags"], task.result["branches"])
    done = task.state is not TaskState.RUNNING
    status = DumpStatus(task.id, done, task_time(task.updated_at), refs=refs, progress=task.progress)
    if error := task_error(task, Asked("dumpRefs", call.path)):
        status.error, status.detail = error.message, error.detail
    return json_reply(200, status)


@operations.add(
    "POST",
    "/repositories/{repository}/restore",
    "restoreSubmit",
    body=RefsRestore,
    replies={202: TaskInfo},
    permissions=_RESTORE,
)
async def restore_submit(call: Call) -> Reply:
    """Begin to restore."""
    body = call.body(RefsRestore)
    task = await call.session.dumps.start_restore(call.path["repository"], _dump(body), force=body.force)
    return json_reply(202, TaskInfo(task.id))


@operations.add(
    "GET",
    "/repositories/{repository}/restore",
    "restoreStatus",
    query=TaskQuery,
    replies={200: RestoreStatus},
    permissions=_RESTORE,
)
async def restore_status(call: Call) -> Reply:
    """Show how a restore goes."""
    task = await call.session.dumps.restore_status(call.path["repository"], call.query(TaskQuery).task_id)
    done = task.state is not TaskState.RUNNING
    status = RestoreStatus(task.id, done, task_time(task.updated_at), progress=task.progress)
    if error := task_error(task, Asked("restoreRefs", call.path)):
        status.error, status.detail = error.message, error.detail
    if task.state is TaskState.DONE:
        restored = restored_of(task)
        status.commits, status.branches, status.tags = restored.commits, restored.branches, restored.tags
        status.unrestored = tuple(
            UnrestoredRef(each.kind, each.name, each.commit_id, each.reason) for each in restored.unrestored
        )
        status.error = summary(call.path["repository"], restored) if restored.unrestored else None
    return json_reply(200, status)


def _dump(body: RefsRestore) -> RefsDump:
    return RefsDump(
        commits=body.commits_meta_range_id,
        branches=body.branches_meta_range_id,
        tags=body.tags_meta_range_id,
    )


def task_time(instant: Instant) -> datetime:
    """Return an instant as clients get it."""
    return datetime.fromtimestamp(instant / SECOND, UTC)
