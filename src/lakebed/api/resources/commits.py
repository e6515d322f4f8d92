"""Commits: made, looked up, listed."""

from dataclasses import replace
from datetime import datetime

import msgspec

from lakebed.api.arns import on_branch, on_repository
from lakebed.api.call import Call
from lakebed.api.commit_bodies import CommitBody, commit_body, request_of
from lakebed.api.numbers import Seconds
from lakebed.api.operation import Operations, Permission
from lakebed.api.pages import Amount, PageOf, page_of, wanted
from lakebed.api.reply import json_reply
from lakebed.auth.actions import Action
from lakebed.errors import ErrorKind, InvalidInputError, quoted
from lakebed.http.reply import Reply
from lakebed.limits import LIST_PAGE_DEFAULT
from lakebed.refs.log import LogQuery
from lakebed.versioning.commit import CommitRequest

operations = Operations("commits")


class CommitCreation(msgspec.Struct):
    """What a client says about a commit. `take_staged` also commits objects that are alike to those committed."""

    message: str
    metadata: dict[str, str] | None = None
    date: Seconds | None = None
    allow_empty: bool = False
    force: bool = False
    take_staged: bool = False


class CommitQuery(msgspec.Struct):
    """`source_metarange` commits the tree of another commit of this repository, onto a clean branch."""

    source_metarange: str | None = None


class CommitsQuery(msgspec.Struct):
    """Which part of a history: see the parameters' names."""

    after: str = ""
    amount: Amount = LIST_PAGE_DEFAULT
    objects: list[str] = []
    prefixes: list[str] = []
    limit: bool = False
    first_parent: bool = False
    since: str | None = None
    stop_at: str | None = None


def commit_request(call: Call, body: CommitCreation) -> CommitRequest:
    """Return what the catalog needs to know about a commit of what is staged."""
    request = request_of(
        call, body.message, metadata=body.metadata, date=body.date, allow_empty=body.allow_empty
    )
    return replace(request, take_staged=body.take_staged)


@operations.add(
    "POST",
    "/repositories/{repository}/branches/{branch}/commits",
    "commit",
    query=CommitQuery,
    body=CommitCreation,
    replies={201: CommitBody},
    permissions=on_branch(Action.CREATE_COMMIT),
)
async def commit(call: Call) -> Reply:
    """Commit what is staged."""
    body = call.body(CommitCreation)
    made = await call.session.commits.commit(
        call.path["repository"],
        call.path["branch"],
        commit_request(call, body),
        source_metarange=call.query(CommitQuery).source_metarange or None,
        force=body.force,
    )
    return json_reply(201, commit_body(made))


@operations.add(
    "GET",
    "/repositories/{repository}/commits/{commitId}",
    "getCommit",
    replies={200: CommitBody},
    permissions=on_repository(Action.READ_COMMIT),
)
async def get_commit(call: Call) -> Reply:
    """Get the commit of a ref expression."""
    return json_reply(
        200, commit_body(await call.session.commits.get(call.path["repository"], call.path["commitId"]))
    )


@operations.add(
    "GET",
    "/repositories/{repository}/refs/{ref}/commits",
    "logCommits",
    query=CommitsQuery,
    replies={200: PageOf[CommitBody]},
    permissions=(
        Permission(
            action=Action.READ_BRANCH, resource="arn:lakefs:fs:::repository/{repository}/branch/{ref}"
        ),
    ),
    tag="refs",
)
async def log_commits(call: Call) -> Reply:
    """List the history of a ref, newest first."""
    query = call.query(CommitsQuery)
    found = await call.session.commits.log(
        call.path["repository"],
        call.path["ref"],
        LogQuery(
            after=query.after,
            amount=wanted(query.amount),
            limit=query.limit,
            since=_seconds(query.since),
            first_parent=query.first_parent,
        ),
        stop_at=query.stop_at,
        objects=query.objects,
        prefixes=query.prefixes,
    )
    results = [commit_body(each) for each in found.results]
    return json_reply(200, page_of(results, has_more=found.has_more, last=results[-1].id if results else ""))


def _seconds(since: str | None) -> float | None:
    """Return the Unix seconds of an RFC 3339 date."""
    if not since:
        return None
    try:
        return msgspec.convert(since, datetime).timestamp()
    except msgspec.ValidationError as error:
        raise InvalidInputError(
            ErrorKind.INVALID_ARGUMENT,
            f"query: `since` {quoted(since)} is no RFC 3339 date",
            about=since,
        ) from error
