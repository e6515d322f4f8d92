"""Two refs: their difference, their common ancestor, one merged into the other."""

from typing import Literal

import msgspec

from lakebed.api.arns import on_repository
from lakebed.api.call import Call
from lakebed.api.commit_bodies import request_of
from lakebed.api.diff_bodies import DiffBody, DiffPageQuery, diff_page
from lakebed.api.operation import Operations, Permission
from lakebed.api.pages import PageOf, wanted
from lakebed.api.reply import json_reply
from lakebed.auth.actions import Action
from lakebed.catalog.diffs import DiffQuery
from lakebed.http.reply import Reply
from lakebed.model.diffs import MergeStrategy
from lakebed.versioning.merge import MergeConflictError, MergeRequest

operations = Operations("refs")


class RefsDiffQuery(DiffPageQuery):
    """Two dots compare directly, three dots with the common ancestor."""

    type: Literal["two_dot", "three_dot"] = "three_dot"
    include_right_stats: bool = False


class Merge(msgspec.Struct):
    """How to merge."""

    message: str = ""
    metadata: dict[str, str] | None = None
    strategy: Literal["", "dest-wins", "source-wins"] = ""
    force: bool = False
    allow_empty: bool = False
    squash_merge: bool = False


class MergeResult(msgspec.Struct):
    """The merge's commit; empty if there are conflicts."""

    reference: str


class MergeBase(msgspec.Struct):
    """Where two histories part."""

    source_commit_id: str
    destination_commit_id: str
    base_commit_id: str


@operations.add(
    "GET",
    "/repositories/{repository}/refs/{leftRef}/diff/{rightRef}",
    "diffRefs",
    query=RefsDiffQuery,
    replies={200: PageOf[DiffBody]},
    permissions=on_repository(Action.LIST_OBJECTS),
)
async def diff_refs(call: Call) -> Reply:
    """Show what differs between two refs."""
    query = call.query(RefsDiffQuery)
    page = await call.session.diffs.diff(
        call.path["repository"],
        call.path["leftRef"],
        call.path["rightRef"],
        DiffQuery(
            prefix=query.prefix, after=query.after, delimiter=query.delimiter, amount=wanted(query.amount)
        ),
        two_dot=query.type == "two_dot",
    )
    return json_reply(200, diff_page(page, with_right=query.include_right_stats))


@operations.add(
    "POST",
    "/repositories/{repository}/refs/{sourceRef}/merge/{destinationBranch}",
    "mergeIntoBranch",
    body=Merge,
    body_required=False,
    replies={200: MergeResult, 409: MergeResult},
    permissions=(
        Permission(
            action=Action.CREATE_COMMIT,
            resource="arn:lakefs:fs:::repository/{repository}/branch/{destinationBranch}",
        ),
    ),
)
async def merge_into_branch(call: Call) -> Reply:
    """Merge a ref into a branch."""
    body = call.body(Merge)
    source, dest = call.path["sourceRef"], call.path["destinationBranch"]
    request = merge_request(call, body, source, dest)
    try:
        merged = await call.session.diffs.merge(
            call.path["repository"], source, dest, request, force=body.force
        )
    except MergeConflictError:
        return json_reply(409, MergeResult(""))
    return json_reply(200, MergeResult(merged.commit.id))


@operations.add(
    "GET",
    "/repositories/{repository}/refs/{sourceRef}/merge/{destinationBranch}",
    "findMergeBase",
    replies={200: MergeBase},
    permissions=on_repository(Action.LIST_COMMITS),
)
async def find_merge_base(call: Call) -> Reply:
    """Find the common ancestor of two refs."""
    found = await call.session.diffs.merge_base(
        call.path["repository"], call.path["sourceRef"], call.path["destinationBranch"]
    )
    return json_reply(
        200,
        MergeBase(source_commit_id=found.source, destination_commit_id=found.dest, base_commit_id=found.base),
    )


def merge_request(call: Call, body: Merge, source: str, dest: str) -> MergeRequest:
    """Return what the catalog needs to know about a merge."""
    return MergeRequest(
        commit=request_of(
            call,
            body.message or f"Merge '{source}' into '{dest}'",
            metadata=body.metadata,
            allow_empty=body.allow_empty or body.force,
        ),
        strategy=MergeStrategy(body.strategy),
        squash=body.squash_merge,
    )
