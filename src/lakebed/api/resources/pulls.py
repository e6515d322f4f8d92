"""Pull requests: there are none yet, so the list is empty, nothing is found and none can be made."""

from datetime import datetime
from typing import Literal

import msgspec

from lakebed.api.arns import on_repository
from lakebed.api.call import Call
from lakebed.api.operation import Operations
from lakebed.api.pages import PageOf, PageQuery, page_of
from lakebed.api.reply import json_reply
from lakebed.api.resources.refs import MergeResult
from lakebed.auth.actions import Action
from lakebed.http.reply import Reply

operations = Operations("pulls")

_WRITE = on_repository(Action.WRITE_PULL_REQUEST)


class PullsQuery(PageQuery):
    """Pull requests in a state."""

    status: Literal["open", "closed", "all"] = "all"


class PullRequest(msgspec.Struct, omit_defaults=True):
    """A branch that somebody wants to be merged."""

    id: str
    status: str
    title: str
    description: str
    creation_date: datetime
    author: str
    source_branch: str
    destination_branch: str
    merged_commit_id: str | None = None
    closed_date: datetime | None = None


class PullRequestCreation(msgspec.Struct):
    """A branch to be merged into another."""

    title: str
    source_branch: str
    destination_branch: str
    description: str = ""


class PullRequestUpdate(msgspec.Struct):
    """What to change."""

    status: str | None = None
    title: str | None = None
    description: str | None = None


class PullRequestCreated(msgspec.Struct):
    """The id of a new pull request."""

    id: str


@operations.add(
    "GET",
    "/repositories/{repository}/pulls",
    "listPullRequests",
    query=PullsQuery,
    replies={200: PageOf[PullRequest]},
    permissions=on_repository(Action.LIST_PULL_REQUESTS),
)
async def list_pulls(call: Call) -> Reply:
    """List pull requests."""
    await call.session.planned.list_pulls(call.path["repository"])
    return json_reply(200, page_of([], has_more=False, last=""))


@operations.add(
    "POST",
    "/repositories/{repository}/pulls",
    "createPullRequest",
    body=PullRequestCreation,
    replies={201: PullRequestCreated},
    permissions=_WRITE,
)
async def create_pull(call: Call) -> Reply:
    """Ask for a branch to be merged: not supported yet."""
    await call.session.planned.write_pull(call.path["repository"])


@operations.add(
    "GET",
    "/repositories/{repository}/pulls/{pull_request}",
    "getPullRequest",
    replies={200: PullRequest},
    permissions=on_repository(Action.READ_PULL_REQUEST),
)
async def get_pull(call: Call) -> Reply:
    """Get a pull request."""
    await call.session.planned.pull(call.path["repository"], call.path["pull_request"])


@operations.add(
    "PATCH",
    "/repositories/{repository}/pulls/{pull_request}",
    "updatePullRequest",
    body=PullRequestUpdate,
    replies={200: None},
    permissions=_WRITE,
)
async def update_pull(call: Call) -> Reply:
    """Change a pull request: not supported yet."""
    await call.session.planned.write_pull(call.path["repository"])


@operations.add(
    "PUT",
    "/repositories/{repository}/pulls/{pull_request}/merge",
    "mergePullRequest",
    replies={200: MergeResult},
    permissions=_WRITE,
)
async def merge_pull(call: Call) -> Reply:
    """Merge a pull request: not supported yet."""
    await call.session.planned.write_pull(call.path["repository"])
