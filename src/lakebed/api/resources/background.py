"""Commits and merges as tasks: started, then asked about."""

from datetime import UTC, datetime

import msgspec

from lakebed.api.arns import on, on_branch
from lakebed.api.call import Call
from lakebed.api.commit_bodies import CommitBody, commit_body
from lakebed.api.errors import ErrorBody
from lakebed.api.operation import Operations
from lakebed.api.phrases import Asked
from lakebed.api.reply import json_reply
from lakebed.api.resources.commits import CommitCreation, commit_request
from lakebed.api.resources.dumps import TaskInfo
from lakebed.api.resources.refs import Merge, MergeResult, merge_request
from lakebed.api.task_errors import task_error, task_status
from lakebed.auth.actions import Action
from lakebed.env.clock import SECOND
from lakebed.http.reply import Reply
from lakebed.model.tasks import Task, TaskState

operations = Operations("experimental")

_DESTINATION = "arn:lakefs:fs:::repository/{repository}/branch/{destinationBranch}"


class CommitAsyncStatus(msgspec.Struct, omit_defaults=True):
    """How a commit goes."""

    task_id: str
    completed: bool
    update_time: datetime
    result: CommitBody | None = None
    error: ErrorBody | None = None
    status_code: int | None = None


class MergeAsyncStatus(msgspec.Struct, omit_defaults=True):
    """How a merge goes."""

    task_id: str
    completed: bool
    update_time: datetime
    result: MergeResult | None = None
    error: ErrorBody | None = None
    status_code: int | None = None


@operations.add(
    "POST",
    "/repositories/{repository}/branches/{branch}/commits/async",
    "commitAsync",
    body=CommitCreation,
    replies={202: TaskInfo},
    permissions=on_branch(Action.CREATE_COMMIT),
)
async def commit_async(call: Call) -> Reply:
    """Begin to commit what is staged."""
    body = call.body(CommitCreation)
    task = await call.session.background.start_commit(
        call.path["repository"],
        call.path["branch"],
        commit_request(call, body),
        force=body.force,
    )
    return json_reply(202, TaskInfo(task.id))


@operations.add(
    "GET",
    "/repositories/{repository}/branches/{branch}/commits/async/{id}/status",
    "commitAsyncStatus",
    replies={200: CommitAsyncStatus},
    permissions=on_branch(Action.CREATE_COMMIT),
)
async def commit_async_status(call: Call) -> Reply:
    """Show how a commit goes."""
    repository = call.path["repository"]
    task = await call.session.background.commit_status(repository, call.path["branch"], call.path["id"])
    made = None
    if task.state is TaskState.DONE:
        made = commit_body(await call.session.background.commit_of(repository, task))
    asked = Asked("commit", call.path)
    error, status = task_error(task, asked), task_status(task, asked)
    return json_reply(200, CommitAsyncStatus(task.id, _ended(task), _time(task), made, error, status))


@operations.add(
    "POST",
    "/repositories/{repository}/refs/{sourceRef}/merge/{destinationBranch}/async",
    "mergeIntoBranchAsync",
    body=Merge,
    body_required=False,
    replies={202: TaskInfo},
    permissions=on(_DESTINATION, Action.CREATE_COMMIT),
)
async def merge_async(call: Call) -> Reply:
    """Begin to merge a ref into a branch."""
    body = call.body(Merge)
    source, dest = call.path["sourceRef"], call.path["destinationBranch"]
    task = await call.session.background.start_merge(
        call.path["repository"], source, dest, merge_request(call, body, source, dest), force=body.force
    )
    return json_reply(202, TaskInfo(task.id))


@operations.add(
    "GET",
    "/repositories/{repository}/refs/{sourceRef}/merge/{destinationBranch}/async/{id}/status",
    "mergeIntoBranchAsyncStatus",
    replies={200: MergeAsyncStatus},
    permissions=on(_DESTINATION, Action.CREATE_COMMIT),
)
async def merge_async_status(call: Call) -> Reply:
    """Show how a merge goes."""
    task = await call.session.background.merge_status(
        call.path["repository"], call.path["destinationBranch"], call.path["id"]
    )
    result = MergeResult(task.result["commit_id"]) if task.state is TaskState.DONE else None
    asked = Asked("mergeIntoBranch", call.path)
    error, status = task_error(task, asked), task_status(task, asked)
    return json_reply(200, MergeAsyncStatus(task.id, _ended(task), _time(task), result, error, status))


def _ended(task: Task) -> bool:
    return task.state is not TaskState.RUNNING


def _time(task: Task) -> datetime:
    return datetime.fromtimestamp(task.updated_at / SECOND, UTC)
