"""Runs of garbage collection: who has the lease, and which marks count (see `lakebed.gc.state`)."""

from typing import Annotated, Literal

import msgspec

from lakebed.api.arns import on_repository
from lakebed.api.call import Call
from lakebed.api.operation import Operations
from lakebed.api.reply import empty_reply, json_reply
from lakebed.api.services import StorageInfo
from lakebed.auth.actions import Action
from lakebed.gc.commit_lists import RunToken
from lakebed.http.reply import Reply
from lakebed.limits import (
    GC_CLOCK_SLACK_SECONDS,
    GC_GRACE_SECONDS,
    GC_LEASE_SECONDS,
)
from lakebed.model.gc import GcState, Lease, Mark, MarkKind, Run, RunKind
from lakebed.model.repository import Repository
from lakebed.objects.namespaces import local_path, parse_place

operations = Operations("gc")

_RUN = on_repository(Action.RUN_GC)
_READ = on_repository(Action.GET_GC_RUNS)

_Short = Annotated[str, msgspec.Meta(max_length=200)]


class GcRunCreation(msgspec.Struct):
    """What a run is for, and who runs it. `grace_seconds` is how far its marks are from the next ones."""

    kind: Literal["mark", "sweep"]
    holder: _Short = ""
    grace_seconds: Annotated[float, msgspec.Meta(ge=0)] = GC_GRACE_SECONDS
    takeover: bool = False
    """Take the lease from whoever has it. Only for one that is known to be dead."""


class GcRunToken(msgspec.Struct):
    """Who has the lease."""

    token: int


class GcMarkCreation(GcRunToken):
    """A finished mark."""

    kind: Literal["clean", "optimized"]
    counts: Annotated[dict[_Short, int], msgspec.Meta(max_length=50)] = msgspec.field(default_factory=dict)


class GcSweepCreation(GcRunToken):
    """The mark whose lists are about to be deleted."""

    mark: str


class GcRunEnd(GcRunToken):
    """How a run ended, and what it did: a sweep says `deleted` and `deleted_bytes`."""

    outcome: _Short = ""
    counts: Annotated[dict[_Short, int], msgspec.Meta(max_length=50)] = msgspec.field(default_factory=dict)


class GcMark(msgspec.Struct):
    """A published mark. Times are the engine's, in microseconds."""

    run_id: str
    kind: Literal["clean", "optimized"]
    started_at: int
    marked_at: int
    optimized_since_clean: int
    counts: dict[str, int]


class GcStorage(msgspec.Struct):
    """Where the repository's namespace lies. Keys to it are nobody's business but the store's."""

    type: str
    url: str
    endpoint: str = ""
    region: str = ""
    path_style: bool | None = None


class GcRunStarted(msgspec.Struct):
    """A run that has the lease. Times are the engine's, in microseconds."""

    run_id: str
    token: int
    repository: str
    uid: str
    namespace: str
    storage: GcStorage
    now: int
    started_at: int
    lease_seconds: float
    grace_seconds: float
    link_seconds: float
    slice_seconds: float
    clock_slack_seconds: float
    marks: list[GcMark]
    """Newest first."""
    reader_grace_seconds: float
    """How long the server keeps what left its place; `grace_seconds` is how far apart marks are."""


class GcLease(msgspec.Struct):
    """How long the lease lasts."""

    now: int
    expires_at: int


class GcRun(msgspec.Struct):
    """A run. Times are the engine's, in microseconds."""

    run_id: str
    kind: Literal["mark", "sweep"]
    holder: str
    state: Literal["running", "ended", "lost"]
    """`lost`: it has not ended, and no longer has the lease."""
    started_at: int
    ended_at: int | None
    outcome: str
    mark: GcMark | None
    """What it has published."""
    counts: dict[str, int] = msgspec.field(default_factory=dict)
    """What it did: a sweep, how much it deleted."""


class GcRuns(msgspec.Struct):
    """The runs that are remembered, and the marks that can be swept, newest first; and where their reports lie."""

    results: list[GcRun]
    marks: list[GcMark]
    storage: GcStorage


@operations.add(
    "POST",
    "/repositories/{repository}/gc/runs",
    "beginGarbageCollectionRun",
    body=GcRunCreation,
    replies={201: GcRunStarted},
    permissions=_RUN,
)
async def begin_run(call: Call) -> Reply:
    """Begin a run: one at a time has a repository's lease."""
    body = call.body(GcRunCreation)
    begun = await call.session.gc.begin(
        call.path["repository"],
        RunKind(body.kind),
        holder=body.holder,
        grace_seconds=body.grace_seconds,
        takeover=body.takeover,
    )
    repo, lease = begun.repo, begun.lease
    return json_reply(
        201,
        GcRunStarted(
            run_id=lease.run,
            token=lease.token,
            repository=repo.name,
            uid=repo.uid,
            namespace=repo.namespace,
            storage=_storage(repo, call.services.storage),
            now=begun.now,
            started_at=lease.started_at,
            lease_seconds=GC_LEASE_SECONDS,
            grace_seconds=lease.grace_seconds,
            link_seconds=begun.lifetimes.link_seconds,
            slice_seconds=begun.lifetimes.slice_seconds,
            clock_slack_seconds=GC_CLOCK_SLACK_SECONDS,
            marks=[_mark(each) for each in begun.marks],
            reader_grace_seconds=begun.lifetimes.grace_seconds,
        ),
    )


@operations.add(
    "POST",
    "/repositories/{repository}/gc/runs/{run}/renew",
    "renewGarbageCollectionRun",
    body=GcRunToken,
    replies={200: GcLease},
    permissions=_RUN,
)
async def renew_run(call: Call) -> Reply:
    """Let a run's lease last longer."""
    lease, now = await call.session.gc.renew(call.path["repository"], _of(call, call.body(GcRunToken)))
    return json_reply(200, GcLease(now, lease.expires_at))


@operations.add(
    "POST",
    "/repositories/{repository}/gc/runs/{run}/sweep",
    "startGarbageCollectionSweep",
    body=GcSweepCreation,
    replies={204: None},
    permissions=_RUN,
)
async def start_sweep(call: Call) -> Reply:
    """Dump refs and announce a sweep: from now on the run may delete what the mark lists."""
    body = call.body(GcSweepCreation)
    await call.session.gc.start_sweep(call.path["repository"], _of(call, body), body.mark)
    return empty_reply(204)


@operations.add(
    "POST",
    "/repositories/{repository}/gc/runs/{run}/marked",
    "publishGarbageCollectionMark",
    body=GcMarkCreation,
    replies={200: GcMark},
    permissions=_RUN,
)
async def publish_mark(call: Call) -> Reply:
    """Publish a run's mark: from now on a sweep may delete by it."""
    body = call.body(GcMarkCreation)
    mark = await call.session.gc.publish(
        call.path["repository"], _of(call, body), kind=MarkKind(body.kind), counts=body.counts
    )
    return json_reply(200, _mark(mark))


@operations.add(
    "POST",
    "/repositories/{repository}/gc/runs/{run}/withdraw_marks",
    "withdrawGarbageCollectionMarks",
    body=GcRunToken,
    replies={204: None},
    permissions=_RUN,
)
async def withdraw_marks(call: Call) -> Reply:
    """Let none of the published marks count any more: a run is about to put back what they list."""
    await call.session.gc.withdraw_marks(call.path["repository"], _of(call, call.body(GcRunToken)))
    return empty_reply(204)


@operations.add(
    "POST",
    "/repositories/{repository}/gc/runs/{run}/end",
    "endGarbageCollectionRun",
    body=GcRunEnd,
    replies={204: None},
    permissions=_RUN,
)
async def end_run(call: Call) -> Reply:
    """Give a run's lease back."""
    body = call.body(GcRunEnd)
    await call.session.gc.end(
        call.path["repository"], _of(call, body), outcome=body.outcome, counts=body.counts
    )
    return empty_reply(204)


@operations.add(
    "GET",
    "/repositories/{repository}/gc/runs",
    "listGarbageCollectionRuns",
    replies={200: GcRuns},
    permissions=_READ,
)
async def list_runs(call: Call) -> Reply:
    """List the runs of garbage collection that are remembered, and the marks that can be swept."""
    repo, state = await call.session.gc.runs(call.path["repository"])
    found, marks = [_run(each, state) for each in state.runs], [_mark(each) for each in state.marks]
    return json_reply(200, GcRuns(found, marks, _storage(repo, call.services.storage)))


@operations.add(
    "GET",
    "/repositories/{repository}/gc/runs/{run}",
    "getGarbageCollectionRun",
    replies={200: GcRun},
    permissions=_READ,
)
async def get_run(call: Call) -> Reply:
    """Get one run of garbage collection."""
    run, state = await call.session.gc.run(call.path["repository"], call.path["run"])
    return json_reply(200, _run(run, state))


def _of(call: Call, body: GcRunToken) -> RunToken:
    return RunToken(run=call.path["run"], token=body.token)


def _mark(mark: Mark) -> GcMark:
    return GcMark(
        run_id=mark.run,
        kind=mark.kind.value,
        started_at=mark.started_at,
        marked_at=mark.marked_at,
        optimized_since_clean=mark.optimized_since_clean,
        counts=dict(mark.counts),
    )


def _run(run: Run, state: GcState) -> GcRun:
    mark = next((each for each in state.marks if each.run == run.id), None)
    return GcRun(
        run_id=run.id,
        kind=run.kind.value,
        holder=run.holder,
        state=_state(run, state.lease),
        started_at=run.started_at,
        ended_at=run.ended_at,
        outcome=run.outcome,
        counts=dict(run.counts),
        mark=_mark(mark) if mark is not None else None,
    )


def _state(run: Run, lease: Lease | None) -> Literal["running", "ended", "lost"]:
    if run.ended_at is not None:
        return "ended"
    return "running" if lease is not None and lease.run == run.id else "lost"


def _storage(repo: Repository, storage: StorageInfo) -> GcStorage:
    place = parse_place(repo.namespace)
    match place.scheme:
        case "local":
            return GcStorage("local", f"local://{local_path(place, storage.data_dir)}")
        case "s3":
            return GcStorage(
                "s3", repo.namespace, storage.s3_endpoint, storage.s3_region, storage.s3_path_style
            )
        case _:
            return GcStorage(place.scheme, repo.namespace)
