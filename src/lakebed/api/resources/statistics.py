"""What clients report about their use, which nobody keeps, and what is reported about the installation's."""

from typing import Annotated

import msgspec

from lakebed.api.arns import EVERYTHING, on
from lakebed.api.call import Call
from lakebed.api.operation import Operations
from lakebed.api.reply import empty_reply, json_reply
from lakebed.auth.actions import Action
from lakebed.http.reply import Reply

operations = Operations("internal")


class StatsEvent(msgspec.Struct, rename={"kind": "class"}):
    """Something a client did so many times."""

    kind: str
    name: str
    count: int


class StatsEventsList(msgspec.Struct):
    """What a client did."""

    events: Annotated[list[StatsEvent], msgspec.Meta(max_length=10_000)]


class UsageReport(msgspec.Struct):
    """Requests in a month."""

    year: int
    month: int
    count: int


class InstallationUsage(msgspec.Struct):
    """The use of an installation: not counted, so no month has a report."""

    installation_id: str
    reports: list[UsageReport] = []


@operations.add("POST", "/statistics", "postStatsEvents", body=StatsEventsList, replies={204: None})
async def post_stats(_call: Call) -> Reply:
    """Take note of nothing: no statistics are kept."""
    return empty_reply(204)


@operations.add(
    "GET",
    "/usage-report/summary",
    "getUsageReportSummary",
    replies={200: InstallationUsage},
    permissions=on(EVERYTHING, Action.READ_CONFIG),
)
async def get_usage(call: Call) -> Reply:
    """Get the installation's id and its monthly use, which is not counted."""
    call.session.caller.require(Action.READ_CONFIG, EVERYTHING)
    installation = await call.services.auth.setup.installation()
    return json_reply(200, InstallationUsage(installation.id if installation is not None else ""))
