"""What is live, prepared for the job that collects garbage (see `gc_runs`).

The operations and fields are the peer's. Its own collector cannot read our lists, whose columns have other names, and
fails before it deletes anything: there is no answer that it could take for "nothing is live".
"""

from datetime import datetime

import msgspec

from lakebed.api.arns import on_repository
from lakebed.api.call import Call
from lakebed.api.errors import ErrorBody
from lakebed.api.operation import Operations
from lakebed.api.phrases import Asked
from lakebed.api.reply import json_reply
from lakebed.api.resources.dumps import TaskInfo, task_time
from lakebed.api.task_errors import task_error, task_status
from lakebed.auth.actions import Action
from lakebed.catalog.gc import run_token
from lakebed.format.gc import run_folder
from lakebed.gc.cursor import encode_cursor
from lakebed.http.reply import Reply
from lakebed.model.repository import Repository
from lakebed.model.tasks import TaskState

operations = Operations("internal")

_COMMITS = on_repository(Action.PREPARE_GC_COMMITS)


class GcConfig(msgspec.Struct):
    """How old an object must be before a collector may touch it, in seconds."""

    grace_period: int


class PrepareCommitsRequest(msgspec.Struct):
    """For which run; without one nothing is let go, and every commit is live."""

    run_id: str | None = None
    token: int | None = None


class PreparedCommits(msgspec.Struct, omit_defaults=True):
    """Where the list of commits lies; `roots` is the key of the document that names its files."""

    run_id: str
    gc_commits_location: str
    gc_addresses_location: str
    gc_commits_presigned_url: str | None = None
    roots: str = ""


class PreparedCommitsStatus(msgspec.Struct, omit_defaults=True):
    """How the preparation goes."""

    task_id: str
    completed: bool
    update_time: datetime
    result: PreparedCommits | None = None
    error: ErrorBody | None = None
    status_code: int | None = None
    error_kind: str | None = None


class TaskIdQuery(msgspec.Struct):
    """Which task."""

    id: str


class UncommittedRequest(msgspec.Struct):
    """Which page, and for which run."""

    continuation_token: str = ""
    run_id: str | None = None
    token: int | None = None


class PreparedUncommitted(msgspec.Struct, omit_defaults=True):
    """Where a page of uncommitted addresses lies: `key` from the namespace's root, with `rows` of them."""

    run_id: str
    gc_uncommitted_location: str
    key: str
    rows: int
    continuation_token: str | None = None


@operations.add("GET", "/config/garbage-collection", "getGarbageCollectionConfig", replies={200: GcConfig})
async def get_gc_config(call: Call) -> Reply:
    """Get how old an object must be before a collector may touch it."""
    return json_reply(200, GcConfig(int(call.services.lifetimes.link_seconds)))


@operations.add(
    "POST",
    "/repositories/{repository}/gc/prepare_commits",
    "prepareGarbageCollectionCommits",
    body=PrepareCommitsRequest,
    body_required=False,
    replies={201: PreparedCommits},
    permissions=_COMMITS,
)
async def prepare_commits(call: Call) -> Reply:
    """List the commits, and which of them are live."""
    body = call.body(PrepareCommitsRequest)
    repo, prepared = await call.session.gc.prepare_commits(
        call.path["repository"], run_token(body.run_id, body.token)
    )
    return json_reply(201, _prepared(repo, prepared.run, prepared.attempt, prepared.roots))


@operations.add(
    "POST",
    "/repositories/{repository}/gc/prepare_commits/async",
    "prepareGarbageCollectionCommitsAsync",
    body=PrepareCommitsRequest,
    body_required=False,
    replies={202: TaskInfo},
    permissions=_COMMITS,
)
async def prepare_commits_async(call: Call) -> Reply:
    """Begin to list the commits, and which of them are live."""
    body = call.body(PrepareCommitsRequest)
    task = await call.session.gc.start_prepare_commits(
        call.path["repository"], run_token(body.run_id, body.token)
    )
    return json_reply(202, TaskInfo(task.id))


@operations.add(
    "GET",
    "/repositories/{repository}/gc/prepare_commits/status",
    "prepareGarbageCollectionCommitsStatus",
    query=TaskIdQuery,
    replies={200: PreparedCommitsStatus},
    permissions=_COMMITS,
)
async def prepare_commits_status(call: Call) -> Reply:
    """Show how listing the commits goes."""
    repo, task = await call.session.gc.prepare_commits_status(
        call.path["repository"], call.query(TaskIdQuery).id
    )
    found = task.result
    is_done = task.state is TaskState.DONE
    asked = Asked("prepareGarbageCollectionCommits", call.path)
    return json_reply(
        200,
        PreparedCommitsStatus(
            task.id,
            task.state is not TaskState.RUNNING,
            task_time(task.updated_at),
            _prepared(repo, found["run"], found["attempt"], found["roots"]) if is_done else None,
            task_error(task, asked),
            task_status(task, asked),
            task.error_kind or None,
        ),
    )


@operations.add(
    "POST",
    "/repositories/{repository}/gc/prepare_uncommited",
    "prepareGarbageCollectionUncommitted",
    body=UncommittedRequest,
    body_required=False,
    replies={201: PreparedUncommitted},
    permissions=on_repository(Action.PREPARE_GC_UNCOMMITTED),
)
async def prepare_uncommitted(call: Call) -> Reply:
    """List a page of the addresses that something uncommitted may refer to."""
    body = call.body(UncommittedRequest)
    repo, page = await call.session.gc.prepare_uncommitted(
        call.path["repository"], run_token(body.run_id, body.token), continuation=body.continuation_token
    )
    return json_reply(
        201,
        PreparedUncommitted(
            run_id=page.run,
            # Never empty, whatever was found: a collector would take that for "there is nothing".
            gc_uncommitted_location=f"{repo.namespace}/{run_folder(page.run)}uncommitted/",
            key=page.key,
            rows=page.rows,
            continuation_token=encode_cursor(page.following) if page.following is not None else None,
        ),
    )


def _prepared(repo: Repository, run: str, attempt: str, roots: str) -> PreparedCommits:
    folder = f"{repo.namespace}/{run_folder(run)}"
    return PreparedCommits(
        run_id=run,
        gc_commits_location=f"{folder}commits/{attempt}/",
        gc_addresses_location=f"{folder}addresses/",
        roots=roots,
    )
