"""Stashes: uncommitted changes put aside, listed, laid over a branch again, and given up."""

import msgspec

from lakebed.api.arns import on, on_branch, on_repository
from lakebed.api.call import Call
from lakebed.api.operation import Operations
from lakebed.api.pages import AfterQuery, PageOf, page_of, wanted
from lakebed.api.reply import empty_reply, json_reply
from lakebed.api.resources.repositories import ForceQuery
from lakebed.auth.actions import Action
from lakebed.env.clock import SECOND
from lakebed.http.reply import Reply
from lakebed.model.stash import Stash

operations = Operations("stashes")


class StashBody(msgspec.Struct):
    """Changes of a branch against the commit it had."""

    id: str
    branch: str
    base_commit_id: str
    message: str
    creation_date: int


class StashCreation(msgspec.Struct):
    """What the stash is for."""

    message: str = ""
    force: bool = False


class StashPop(msgspec.Struct):
    """Where the changes go: to the branch they came from, unless another is named."""

    into: str = ""
    force: bool = False


@operations.add(
    "POST",
    "/repositories/{repository}/branches/{branch}/stash",
    "createStash",
    body=StashCreation,
    body_required=False,
    replies={201: StashBody},
    permissions=on_branch(Action.REVERT_BRANCH),
)
async def create_stash(call: Call) -> Reply:
    """Put everything uncommitted on a branch aside."""
    body = call.body(StashCreation)
    made = await call.session.stashes.create(
        call.path["repository"], call.path["branch"], message=body.message, force=body.force
    )
    return json_reply(201, _body(made))


@operations.add(
    "GET",
    "/repositories/{repository}/stashes",
    "listStashes",
    query=AfterQuery,
    replies={200: PageOf[StashBody]},
    permissions=on_repository(Action.LIST_OBJECTS),
)
async def list_stashes(call: Call) -> Reply:
    """List stashes, oldest first."""
    query, amount = call.query(AfterQuery), wanted(call.query(AfterQuery).amount)
    found = [_body(each) for each in await call.session.stashes.list(call.path["repository"])]
    at = next((i + 1 for i, each in enumerate(found) if each.id == query.after), 0)
    page = found[at : at + amount]
    return json_reply(200, page_of(page, has_more=len(found) > at + amount, last=page[-1].id if page else ""))


@operations.add(
    "POST",
    "/repositories/{repository}/stashes/{stash}/pop",
    "popStash",
    body=StashPop,
    body_required=False,
    replies={200: StashBody},
    permissions=on(
        "arn:lakefs:fs:::repository/{repository}/object/*", Action.WRITE_OBJECT, Action.DELETE_OBJECT
    ),
)
async def pop_stash(call: Call) -> Reply:
    """Lay a stash over a branch."""
    body = call.body(StashPop)
    popped = await call.session.stashes.pop(
        call.path["repository"], call.path["stash"], into=body.into or None, force=body.force
    )
    return json_reply(200, _body(popped))


@operations.add(
    "DELETE",
    "/repositories/{repository}/stashes/{stash}",
    "dropStash",
    query=ForceQuery,
    replies={204: None},
    permissions=on("arn:lakefs:fs:::repository/{repository}/branch/*", Action.REVERT_BRANCH),
)
async def drop_stash(call: Call) -> Reply:
    """Give a stash up for good; its changes are freed after the grace."""
    await call.session.stashes.drop(
        call.path["repository"], call.path["stash"], force=call.query(ForceQuery).force
    )
    return empty_reply(204)


def _body(stash: Stash) -> StashBody:
    return StashBody(stash.id, stash.branch, stash.base, stash.message, stash.at // SECOND)
