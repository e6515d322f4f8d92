"""Preparation of garbage collection: refused until there is one.

Refused, not empty: an answer that looks like "nothing is live" would make a collector
that knows only the peer's formats delete everything.
"""

from datetime import datetime

import msgspec

from lakebed.api.arns import on_repository
from lakebed.api.call import Call
from lakebed.api.errors import ErrorBody
from lakebed.api.operation import Operations
from lakebed.api.reply import json_reply
from lakebed.api.resources.dumps import TaskInfo
from lakebed.auth.actions import Action
from lakebed.http.reply import Reply
from lakebed.limits import LINK_LIFETIME_SECONDS

operations = Operations("internal")

_COMMITS = on_repository(Action.PREPARE_GC_COMMITS)


class GcConfig(msgspec.Struct):
    """How old an object must be before a collector may touch it, in seconds."""

    grace_period: int


class PreparedCommits(msgspec.Struct, omit_defaults=True):
    """Where the list of live commits lies."""

    run_id: str
    gc_commits_location: str
    gc_addresses_location: str
    gc_commits_presigned_url: str | None = None


class PreparedCommitsStatus(msgspec.Struct, omit_defaults=True):
    """How the preparation goes."""

    task_id: str
    completed: bool
    update_time: datetime
    result: PreparedCommits | None = None
    error: ErrorBody | None = None


class TaskIdQuery(msgspec.Struct):
    """Which task."""

    id: str


class UncommittedRequest(msgspec.Struct):
    """Which page."""

    continuation_token: str = ""


class PreparedUncommitted(msgspec.Struct, omit_defaults=True):
    """Where a page of uncommitted addresses lies."""

    run_id: str
    gc_uncommitted_location: str
    continuation_token: str | None = None


@operations.add("GET", "/config/garbage-collection", "getGarbageCollectionConfig", replies={200: GcConfig})
async def get_gc_config(_call: Call) -> Reply:
    """Get how old an object must be before a collector may touch it."""
    return json_reply(200, GcConfig(int(LINK_LIFETIME_SECONDS)))


@operations.add(
    "POST",
    "/repositories/{repository}/gc/prepare_commits",
    "prepareGarbageCollectionCommits",
    replies={201: PreparedCommits},
    permissions=_COMMITS,
)
async def prepare_commits(call: Call) -> Reply:
    """List the live commits: not supported yet."""
    await call.session.planned.prepare_gc_commits(call.path["repository"])


@operations.add(
    "POST",
    "/repositories/{repository}/gc/prepare_commits/async",
    "prepareGarbageCollectionCommitsAsync",
    replies={202: TaskInfo},
    permissions=_COMMITS,
)
async def prepare_commits_async(call: Call) -> Reply:
    """Begin to list the live commits: not supported yet."""
    await call.session.planned.prepare_gc_commits(call.path["repository"])


@operations.add(
    "GET",
    "/repositories/{repository}/gc/prepare_commits/status",
    "prepareGarbageCollectionCommitsStatus",
    query=TaskIdQuery,
    replies={200: PreparedCommitsStatus},
    permissions=_COMMITS,
)
async def prepare_commits_status(call: Call) -> Reply:
    """Show how listing the live commits goes: not supported yet."""
    await call.session.planned.prepare_gc_commits(call.path["repository"])


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
    """List uncommitted addresses: not supported yet."""
    await call.session.planned.prepare_gc_uncommitted(call.path["repository"])
