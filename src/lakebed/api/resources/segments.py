"""Ready segments: many changes of a branch in one request, visible all at once or not at all."""

from typing import Annotated

import msgspec

from lakebed.api.arns import on
from lakebed.api.call import Call
from lakebed.api.operation import Body, Operations
from lakebed.api.reply import json_reply
from lakebed.auth.actions import Action
from lakebed.http.reply import Reply

operations = Operations("staging")


class SegmentQuery(msgspec.Struct):
    """How a segment is staged."""

    prefix: Annotated[
        str,
        msgspec.Meta(
            description="what all paths begin with: the caller needs the right to write, and where it applies to delete, "
            "everything there"
        ),
    ] = ""
    id: Annotated[
        str,
        msgspec.Meta(
            pattern=r"^([0-9a-v]{20})?$",
            description="a name for this request: sent again with the same rows within a day, it stages nothing more",
        ),
    ] = ""
    force: bool = False


class StagedSegment(msgspec.Struct):
    """The segment that was staged."""

    id: str
    entries: int
    tombstones: int


@operations.add(
    "POST",
    "/repositories/{repository}/branches/{branch}/staging/segments",
    "stageSegment",
    query=SegmentQuery,
    body=Body.RAW,
    replies={201: StagedSegment},
    permissions=on("arn:lakefs:fs:::repository/{repository}/object/{prefix}*", Action.WRITE_OBJECT),
)
async def stage_segment(call: Call) -> Reply:
    """Stage a Parquet file of changes, all or none."""
    query = call.query(SegmentQuery)
    staged = await call.session.segments.stage(
        call.path["repository"],
        call.path["branch"],
        call.chunks(),
        prefix=query.prefix,
        call=query.id,
        force=query.force,
    )
    return json_reply(201, StagedSegment(staged.id, staged.entries, staged.tombstones))
