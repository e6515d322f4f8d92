"""Runs of hooks: there are none yet, so lists are empty and nothing is found."""

from datetime import datetime

import msgspec

from lakebed.api.arns import on_repository
from lakebed.api.call import Call
from lakebed.api.operation import Operations
from lakebed.api.pages import AfterQuery, PageOf, page_of
from lakebed.api.reply import json_reply
from lakebed.auth.actions import Action
from lakebed.http.reply import Reply

operations = Operations("actions")

_READ = on_repository(Action.READ_ACTION)


class RunsQuery(AfterQuery):
    """Runs on a branch or of a commit."""

    branch: str = ""
    commit: str = ""


class ActionRun(msgspec.Struct, omit_defaults=True):
    """One run of the hooks of an event."""

    run_id: str
    branch: str
    start_time: datetime
    event_type: str
    status: str
    commit_id: str
    end_time: datetime | None = None


class HookRun(msgspec.Struct, omit_defaults=True):
    """One hook of a run."""

    hook_run_id: str
    action: str
    hook_id: str
    start_time: datetime
    status: str
    end_time: datetime | None = None


@operations.add(
    "GET",
    "/repositories/{repository}/actions/runs",
    "listRepositoryRuns",
    query=RunsQuery,
    replies={200: PageOf[ActionRun]},
    permissions=_READ,
)
async def list_runs(call: Call) -> Reply:
    """List runs of hooks."""
    await call.session.planned.list_runs(call.path["repository"])
    return json_reply(200, page_of([], has_more=False, last=""))


@operations.add(
    "GET",
    "/repositories/{repository}/actions/runs/{run_id}",
    "getRun",
    replies={200: ActionRun},
    permissions=_READ,
)
async def get_run(call: Call) -> Reply:
    """Get a run of hooks."""
    await call.session.planned.run(call.path["repository"], call.path["run_id"])


@operations.add(
    "GET",
    "/repositories/{repository}/actions/runs/{run_id}/hooks",
    "listRunHooks",
    query=AfterQuery,
    replies={200: PageOf[HookRun]},
    permissions=_READ,
)
async def list_run_hooks(call: Call) -> Reply:
    """List the hooks of a run."""
    await call.session.planned.run(call.path["repository"], call.path["run_id"])


@operations.add(
    "GET",
    "/repositories/{repository}/actions/runs/{run_id}/hooks/{hook_run_id}/output",
    "getRunHookOutput",
    replies={200: bytes},
    permissions=_READ,
)
async def get_run_output(call: Call) -> Reply:
    """Get what a hook has printed."""
    await call.session.planned.run(call.path["repository"], call.path["run_id"])
