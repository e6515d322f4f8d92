"""Namespaces whose database is lost: adopted by a new repository, and what nothing refers to in them."""

from datetime import datetime
from typing import Annotated

import msgspec

from lakebed.api.arns import on_repository
from lakebed.api.call import Call
from lakebed.api.operation import Operations, Permission
from lakebed.api.reply import json_reply
from lakebed.api.resources.dumps import RefsDumpBody, TaskQuery, UnrestoredRef, task_time
from lakebed.auth.actions import Action
from lakebed.catalog.adoption import Source
from lakebed.env.clock import Instant
from lakebed.format.adoption import AdoptionReport
from lakebed.http.reply import Reply
from lakebed.limits import LIST_PAGE_MAX
from lakebed.model.tasks import Task, TaskState
from lakebed.refs.dump import RefsDump

operations = Operations("experimental")


class Adoption(msgspec.Struct):
    """A namespace to adopt. Without a `name` the repository gets its old one; without a dump the newest is restored."""

    storage_namespace: str
    name: str = ""
    dump: str = ""
    """`<uid>/<generation>-<number>`: one of the automatic dumps in the namespace."""
    manifest: RefsDumpBody | None = None
    """A dump that was asked for. Then a name is needed."""


class AdoptionStarted(msgspec.Struct):
    """The repository that adopts, and the task, to ask about it."""

    id: str
    repository: str


class MissingFile(msgspec.Struct):
    """What the storage does not have, and the commit that refers to it."""

    where: str
    what: str


class AdoptionResult(msgspec.Struct, omit_defaults=True, kw_only=True):
    """What came back, and what cannot. Lists hold the first ones, counts all."""

    repository: str
    storage_namespace: str
    generation: int
    default_branch: str
    dump: str
    dumped_at: datetime | None = None
    gc_not_before: datetime
    commits: int
    branches: int
    tags: int
    expired_commits: int
    lost_refs: list[UnrestoredRef]
    missing: int
    missing_listed: list[MissingFile]
    orphans: int
    orphan_bytes: int


class AdoptionStatus(msgspec.Struct, omit_defaults=True):
    """How an adoption goes; `progress` counts files and objects that were looked at."""

    id: str
    done: bool
    update_time: datetime
    progress: int = 0
    error: str | None = None
    error_kind: str | None = None
    result: AdoptionResult | None = None


class OrphansQuery(msgspec.Struct):
    """Which page: from number `after` on."""

    after: Annotated[int, msgspec.Meta(ge=0)] = 0
    amount: Annotated[int, msgspec.Meta(ge=1, le=LIST_PAGE_MAX)] = LIST_PAGE_MAX


class Orphan(msgspec.Struct):
    """An object that nothing refers to; `path` is where it was staged, if that is known."""

    address: str
    size_bytes: int
    mtime: datetime
    path: str


class Orphans(msgspec.Struct, omit_defaults=True, kw_only=True):
    """A page of them, newest first; `after` asks for the next."""

    results: list[Orphan]
    total: int
    gc_not_before: datetime
    after: int | None = None


@operations.add(
    "POST",
    "/storage/adopt",
    "adoptStorage",
    body=Adoption,
    replies={202: AdoptionStarted},
    permissions=(
        Permission(
            action=Action.ATTACH_STORAGE_NAMESPACE,
            resource="arn:lakefs:fs:::namespace/{body.storage_namespace}",
        ),
        Permission(action=Action.ADOPT_REPOSITORY, resource="arn:lakefs:fs:::repository/{body.name}"),
    ),
)
async def adopt_storage(call: Call) -> Reply:
    """Begin to adopt a namespace whose database is lost: its old owner is fenced off, its refs are restored."""
    body = call.body(Adoption)
    manual = None
    if body.manifest is not None:
        manual = RefsDump(
            commits=body.manifest.commits_meta_range_id,
            branches=body.manifest.branches_meta_range_id,
            tags=body.manifest.tags_meta_range_id,
        )
    name, task = await call.session.adoptions.start(
        body.storage_namespace, name=body.name, source=Source(name=body.dump, manual=manual)
    )
    return json_reply(202, AdoptionStarted(task.id, name))


@operations.add(
    "GET",
    "/repositories/{repository}/adoption",
    "getAdoption",
    query=TaskQuery,
    replies={200: AdoptionStatus},
    permissions=on_repository(Action.ADOPT_REPOSITORY),
)
async def get_adoption(call: Call) -> Reply:
    """Show how an adoption goes, and what came of it."""
    task = await call.session.adoptions.status(call.path["repository"], call.query(TaskQuery).task_id)
    return json_reply(200, _status(task))


@operations.add(
    "GET",
    "/repositories/{repository}/orphans",
    "listOrphans",
    query=OrphansQuery,
    replies={200: Orphans},
    permissions=on_repository(Action.ADOPT_REPOSITORY),
)
async def list_orphans(call: Call) -> Reply:
    """List the objects that nothing referred to when the repository was adopted."""
    query = call.query(OrphansQuery)
    page = await call.session.adoptions.orphans(
        call.path["repository"], after=query.after, amount=query.amount
    )
    results = [
        Orphan(row["address"], row["size"], task_time(Instant(row["mtime"])), row["path"])
        for row in page.rows
    ]
    report = page.report
    return json_reply(
        200,
        Orphans(
            results=results,
            total=report.orphans.objects,
            gc_not_before=task_time(report.gc_not_before),
            after=page.after,
        ),
    )


def _status(task: Task) -> AdoptionStatus:
    status = AdoptionStatus(
        task.id,
        task.state is not TaskState.RUNNING,
        task_time(task.updated_at),
        task.progress,
        task.error or None,
        task.error_kind or None,
    )
    if task.state is TaskState.DONE:
        status.result = _result(msgspec.json.decode(task.result["report"], type=AdoptionReport))
    return status


def _result(report: AdoptionReport) -> AdoptionResult:
    return AdoptionResult(
        repository=report.repository,
        storage_namespace=report.namespace,
        generation=report.generation,
        default_branch=report.default_branch,
        dump=report.dump,
        dumped_at=task_time(report.dumped_at) if report.dumped_at is not None else None,
        gc_not_before=task_time(report.gc_not_before),
        commits=report.commits,
        branches=report.branches,
        tags=report.tags,
        expired_commits=report.expired_commits,
        lost_refs=[UnrestoredRef(ref.kind, ref.name, ref.commit_id, ref.reason) for ref in report.lost_refs],
        missing=report.missing,
        missing_listed=[MissingFile(each.where, each.what) for each in report.missing_listed],
        orphans=report.orphans.objects,
        orphan_bytes=report.orphans.bytes,
    )
