"""Compaction: what is staged and not merged yet, the jobs that merge it, and how to steer them."""

from typing import Annotated, Literal

import msgspec

from lakebed.api.arns import on_branch, on_repository
from lakebed.api.call import Call
from lakebed.api.operation import Operations
from lakebed.api.reply import empty_reply, json_reply
from lakebed.auth.actions import Action
from lakebed.env.clock import SECOND
from lakebed.http.reply import Reply
from lakebed.model.branch import Branch
from lakebed.model.compaction import Job

operations = Operations("compaction")

_READ = on_repository(Action.READ_COMPACTION)
_CONTROL = on_repository(Action.CONTROL_COMPACTION)


class CompactionJob(msgspec.Struct):
    """A job: what it merges, why, and where it is."""

    id: str
    kind: Literal["fold", "l2"]
    state: Literal["queued", "running", "parked"]
    branch: str
    reason: str
    layers: int
    creation_date: int
    failures: int
    worker: str
    error: str


class BranchCompaction(msgspec.Struct):
    """What of a branch's uncommitted changes is merged and what is not."""

    branch: str
    staging: bool
    """Whether there is a staging token, which may hold rows."""
    sealed_layers: int
    compacted: bool
    """Whether there is a compacted tree."""
    changes: int | None
    """Paths by which the compacted tree differs from the commit's."""


class CompactionState(msgspec.Struct):
    """A repository's jobs, and the branches with the most sealed layers."""

    paused: bool
    sealed_layers: int
    jobs: list[CompactionJob]
    branches: list[BranchCompaction]
    flushed_bytes: int
    """Of layers as writers made them, merged so far."""
    written_bytes: int
    """Of the files that were made of them: by the number above it is the write amplification."""
    epoch: int


class CompactionEpoch(msgspec.Struct):
    """The epoch of all tokens from now on."""

    epoch: int


class CompactionRetry(msgspec.Struct):
    """Which parked jobs to try again (without a list: all), and how often they may fail."""

    jobs: Annotated[list[str], msgspec.Meta(min_length=1, max_length=1000)] | None = None
    max_failures: Annotated[int, msgspec.Meta(ge=0, le=1000)] | None = None


class CompactionRetried(msgspec.Struct):
    """How many jobs are tried again."""

    retried: int


class CompactionStarted(msgspec.Struct):
    """The job that does it; none if there is nothing to do."""

    job: CompactionJob | None


@operations.add(
    "GET",
    "/repositories/{repository}/compaction",
    "getCompaction",
    replies={200: CompactionState},
    permissions=_READ,
)
async def get_compaction(call: Call) -> Reply:
    """Show what is staged and not merged yet, and the jobs that merge it."""
    found = await call.session.compaction.status(call.path["repository"])
    return json_reply(
        200,
        CompactionState(
            found.schedule.paused,
            found.sealed_layers,
            [_job(job) for job in found.schedule.jobs],
            [_branch(branch) for branch in found.branches],
            found.schedule.flushed_bytes,
            found.schedule.written_bytes,
            found.schedule.epoch,
        ),
    )


@operations.add(
    "POST",
    "/repositories/{repository}/compaction/pause",
    "pauseCompaction",
    replies={204: None},
    permissions=_CONTROL,
)
async def pause_compaction(call: Call) -> Reply:
    """Begin no more jobs; what runs goes on."""
    await call.session.compaction.pause(call.path["repository"], is_paused=True)
    return empty_reply(204)


@operations.add(
    "POST",
    "/repositories/{repository}/compaction/resume",
    "resumeCompaction",
    replies={204: None},
    permissions=_CONTROL,
)
async def resume_compaction(call: Call) -> Reply:
    """Begin jobs again."""
    await call.session.compaction.pause(call.path["repository"], is_paused=False)
    return empty_reply(204)


@operations.add(
    "POST",
    "/repositories/{repository}/compaction/epoch",
    "raiseCompactionEpoch",
    replies={200: CompactionEpoch},
    permissions=_CONTROL,
)
async def raise_compaction_epoch(call: Call) -> Reply:
    """Say that the database was restored from a copy, or that another took its place."""
    return json_reply(
        200, CompactionEpoch(await call.session.compaction.raise_epoch(call.path["repository"]))
    )


@operations.add(
    "POST",
    "/repositories/{repository}/compaction/retry",
    "retryCompaction",
    body=CompactionRetry,
    body_required=False,
    replies={200: CompactionRetried},
    permissions=_CONTROL,
)
async def retry_compaction(call: Call) -> Reply:
    """Try parked jobs again."""
    body = call.body(CompactionRetry)
    count = await call.session.compaction.retry(
        call.path["repository"], body.jobs, failures_max=body.max_failures
    )
    return json_reply(200, CompactionRetried(count))


@operations.add(
    "GET",
    "/repositories/{repository}/branches/{branch}/compaction",
    "getBranchCompaction",
    replies={200: BranchCompaction},
    permissions=on_branch(Action.READ_COMPACTION),
)
async def get_branch_compaction(call: Call) -> Reply:
    """Show what of a branch's uncommitted changes is merged and what is not."""
    branch = await call.session.compaction.branch(call.path["repository"], call.path["branch"])
    return json_reply(200, _branch(branch))


@operations.add(
    "POST",
    "/repositories/{repository}/branches/{branch}/compaction",
    "compactBranch",
    replies={202: CompactionStarted},
    permissions=on_branch(Action.CONTROL_COMPACTION),
)
async def compact_branch(call: Call) -> Reply:
    """Ask for everything staged on a branch to be merged, whatever its size."""
    job = await call.session.compaction.run(call.path["repository"], call.path["branch"])
    return json_reply(202, CompactionStarted(_job(job) if job is not None else None))


def _job(job: Job) -> CompactionJob:
    return CompactionJob(
        id=job.id,
        kind=job.spec.kind.value,
        state=job.state.value,
        branch=job.spec.branch,
        reason=job.spec.reason,
        layers=len(job.spec.sources),
        creation_date=job.added_at // SECOND,
        # Below 0 are those that somebody has given more tries than usual.
        failures=max(0, job.failures),
        worker=job.worker,
        error=job.error,
    )


def _branch(branch: Branch) -> BranchCompaction:
    return BranchCompaction(
        branch=branch.name,
        staging=branch.staging_token is not None,
        sealed_layers=len(branch.sealed),
        compacted=branch.compacted is not None,
        changes=branch.compacted_counts.total if branch.compacted_counts is not None else None,
    )
