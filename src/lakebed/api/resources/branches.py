"""Branches: created, deleted, reset, reverted; and what is uncommitted on them."""

from typing import Literal

import msgspec

from lakebed.api.arns import on_branch, on_repository
from lakebed.api.call import Call
from lakebed.api.commit_bodies import CommitBody, CommitOverrides, commit_body, request_of
from lakebed.api.diff_bodies import DiffBody, DiffPageQuery, diff_page
from lakebed.api.numbers import ParentNumber
from lakebed.api.operation import Operations, Permission
from lakebed.api.pages import PageOf, PageQuery, page_of, wanted
from lakebed.api.reply import empty_reply, json_reply, text_reply
from lakebed.api.resources.repositories import ForceQuery
from lakebed.auth.actions import Action
from lakebed.catalog.diffs import DiffQuery
from lakebed.errors import ErrorKind, InvalidInputError
from lakebed.http.reply import Reply

operations = Operations("branches")


class RefBody(msgspec.Struct):
    """A branch or tag and its commit."""

    id: str
    commit_id: str


class BranchListQuery(PageQuery):
    """`show_hidden` lists hidden branches too."""

    show_hidden: bool = False


class BranchCreation(msgspec.Struct):
    """A new branch on the commit of `source`."""

    name: str
    source: str
    force: bool = False
    hidden: bool = False


class ResetCreation(msgspec.Struct):
    """What to reset: everything, one object, or a prefix."""

    type: Literal["object", "common_prefix", "reset", "prefix"]
    path: str = ""
    force: bool = False


class RevertCreation(msgspec.Struct):
    """Which commit to undo."""

    ref: str
    parent_number: ParentNumber
    commit_overrides: CommitOverrides | None = None
    force: bool = False
    allow_empty: bool = False


class CherryPickCreation(msgspec.Struct):
    """Which commit to repeat."""

    ref: str
    parent_number: ParentNumber = 0
    commit_overrides: CommitOverrides | None = None
    force: bool = False


class HardResetQuery(ForceQuery, kw_only=True):
    """Where HEAD goes."""

    ref: str


@operations.add(
    "GET",
    "/repositories/{repository}/branches",
    "listBranches",
    query=BranchListQuery,
    replies={200: PageOf[RefBody]},
    permissions=on_repository(Action.LIST_BRANCHES),
)
async def list_branches(call: Call) -> Reply:
    """List branches."""
    query = call.query(BranchListQuery)
    found = await call.session.branches.list(
        call.path["repository"],
        prefix=query.prefix,
        after=query.after,
        amount=wanted(query.amount),
        show_hidden=query.show_hidden,
    )
    results = [RefBody(branch.name, branch.commit_id) for branch in found.results]
    return json_reply(200, page_of(results, has_more=found.has_more, last=results[-1].id if results else ""))


@operations.add(
    "POST",
    "/repositories/{repository}/branches",
    "createBranch",
    body=BranchCreation,
    replies={201: str},
    permissions=(
        Permission(
            action=Action.CREATE_BRANCH, resource="arn:lakefs:fs:::repository/{repository}/branch/{body.name}"
        ),
    ),
)
async def create_branch(call: Call) -> Reply:
    """Create a branch; the reply is its commit's id as plain text."""
    body = call.body(BranchCreation)
    commit_id = await call.session.branches.create(
        call.path["repository"], body.name, body.source, hidden=body.hidden, force=body.force
    )
    return text_reply(201, commit_id)


@operations.add(
    "GET",
    "/repositories/{repository}/branches/{branch}",
    "getBranch",
    replies={200: RefBody},
    permissions=on_branch(Action.READ_BRANCH),
)
async def get_branch(call: Call) -> Reply:
    """Get a branch."""
    branch = await call.session.branches.get(call.path["repository"], call.path["branch"])
    return json_reply(200, RefBody(branch.name, branch.commit_id))


@operations.add(
    "DELETE",
    "/repositories/{repository}/branches/{branch}",
    "deleteBranch",
    query=ForceQuery,
    replies={204: None},
    permissions=on_branch(Action.DELETE_BRANCH),
)
async def delete_branch(call: Call) -> Reply:
    """Delete a branch and what is uncommitted on it."""
    force = call.query(ForceQuery).force
    await call.session.branches.delete(call.path["repository"], call.path["branch"], force=force)
    return empty_reply(204)


@operations.add(
    "PUT",
    "/repositories/{repository}/branches/{branch}",
    "resetBranch",
    body=ResetCreation,
    replies={204: None},
    permissions=on_branch(Action.REVERT_BRANCH),
)
async def reset_branch(call: Call) -> Reply:
    """Throw uncommitted changes away."""
    body = call.body(ResetCreation)
    repo, branch, branches = call.path["repository"], call.path["branch"], call.session.branches
    if body.type == "reset":
        await branches.reset(repo, branch, force=body.force)
    elif body.type == "object":
        if not body.path:
            raise InvalidInputError(ErrorKind.INVALID_ARGUMENT, "body: `path` is needed to reset an object")
        await branches.reset_path(repo, branch, body.path, force=body.force)
    else:
        await branches.reset_prefix(repo, branch, body.path, force=body.force)
    return empty_reply(204)


@operations.add(
    "PUT",
    "/repositories/{repository}/branches/{branch}/hard_reset",
    "hardResetBranch",
    query=HardResetQuery,
    replies={204: None},
    permissions=on_branch(Action.REVERT_BRANCH),
    tag="experimental",
)
async def hard_reset(call: Call) -> Reply:
    """Let a clean branch point at another commit; `force` throws uncommitted changes away."""
    query = call.query(HardResetQuery)
    await call.session.branches.hard_reset(
        call.path["repository"], call.path["branch"], query.ref, force=query.force
    )
    return empty_reply(204)


@operations.add(
    "POST",
    "/repositories/{repository}/branches/{branch}/revert",
    "revertBranch",
    body=RevertCreation,
    replies={204: None},
    permissions=on_branch(Action.REVERT_BRANCH),
)
async def revert_branch(call: Call) -> Reply:
    """Undo a commit by a new one."""
    body = call.body(RevertCreation)
    request = request_of(
        call, f"Revert {body.ref}", overrides=body.commit_overrides, allow_empty=body.allow_empty
    )
    await call.session.branches.revert(
        call.path["repository"],
        call.path["branch"],
        body.ref,
        request,
        parent_number=body.parent_number,
        force=body.force,
    )
    return empty_reply(204)


@operations.add(
    "POST",
    "/repositories/{repository}/branches/{branch}/cherry-pick",
    "cherryPick",
    body=CherryPickCreation,
    replies={201: CommitBody},
    permissions=(*on_branch(Action.CREATE_COMMIT), *on_repository(Action.READ_COMMIT)),
)
async def cherry_pick(call: Call) -> Reply:
    """Repeat a commit on this branch, with its metadata; one whose changes are there already becomes an empty commit."""
    body = call.body(CherryPickCreation)
    picked = await call.session.commits.get(call.path["repository"], body.ref)
    request = request_of(
        call,
        picked.message,
        metadata=picked.metadata,
        overrides=body.commit_overrides,
        allow_empty=True,
    )
    made = await call.session.branches.cherry_pick(
        call.path["repository"],
        call.path["branch"],
        body.ref,
        request,
        parent_number=body.parent_number,
        force=body.force,
    )
    return json_reply(201, commit_body(made))


@operations.add(
    "GET",
    "/repositories/{repository}/branches/{branch}/diff",
    "diffBranch",
    query=DiffPageQuery,
    replies={200: PageOf[DiffBody]},
    permissions=on_repository(Action.LIST_OBJECTS),
)
async def diff_branch(call: Call) -> Reply:
    """Show what is uncommitted."""
    query = call.query(DiffPageQuery)
    page = await call.session.diffs.uncommitted(
        call.path["repository"],
        call.path["branch"],
        DiffQuery(
            prefix=query.prefix, after=query.after, delimiter=query.delimiter, amount=wanted(query.amount)
        ),
    )
    return json_reply(200, diff_page(page, with_removed_size=False))
