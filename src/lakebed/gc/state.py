"""What may happen to the run record. Pure: record in, record out.

A mark, step by step:

    1. begin     swap: a lease with a token above every one before, if none is live
    2. attempt   swap: a new attempt to prepare the commits begins; from here no other one counts
    3. prepare   commits are condemned under the attempt's name, refs are read, some are released again
    4. prepared  swap, if the attempt is still the newest: nobody condemns or releases under that name any more
    5. publish   swap, if the lease is still ours and 4 has happened: the mark counts, and what its
                 attempt condemned is condemned for ever
    6. end       swap: the lease is free. If 5 has not happened, commits of 3 are released first, under a new attempt

Crash after 1: the lease expires. After 2 or in 3: commits are condemned under a name that no mark ever bears, so the
next run takes them over, or releases them. After 4: the same. After 5: a mark that a sweep can use; the lease expires.

Whoever lost its lease, or was overtaken by a newer attempt, loses every swap from then on, and where the store
can fence its rows too. A commit is condemned for ever if, and only if, `refs.condemned` says so of its condemner.
"""

from collections.abc import Mapping
from dataclasses import replace

from lakebed.env.clock import SECOND, Instant, after
from lakebed.errors import (
    ConflictError,
    ErrorKind,
    FencedError,
    InvalidInputError,
    NotFoundError,
    cut,
    quoted,
)
from lakebed.gc.names import run_name
from lakebed.limits import GC_LEASE_SECONDS, GC_MARKS_KEPT, GC_RUNS_KEPT
from lakebed.model.gc import GcState, Lease, Mark, MarkKind, Run, RunKind
from lakebed.refs.condemned import begun_at


def begin(
    state: GcState,
    *,
    kind: RunKind,
    holder: str,
    grace_seconds: float,
    token: str,
    now: Instant,
    takeover: bool = False,
) -> GcState:
    """Give the lease to a new run. `token` is the chance in its name.

    Raises:
        ConflictError: `GC_RUNNING`: another run holds it, and is not to be taken over.
    """
    held = state.lease
    if held is not None and held.run == run_name(held.started_at, token):
        return state  # By this very call: only its reply was lost.
    if held is not None and held.expires_at > now and not takeover:
        left = (held.expires_at - now) / SECOND
        raise ConflictError(
            ErrorKind.GC_RUNNING,
            f"run {held.run} of {held.holder or 'somebody'} is collecting garbage here for {left:.0f} s more at least: "
            "wait for it, or take over if it is dead",
        )
    # A clock that went back must not make a name that sorts wrong.
    started_at = max(now, Instant(state.last_started_at + 1))
    lease = Lease(
        run=run_name(started_at, token),
        token=state.last_token + 1,
        kind=kind,
        holder=holder,
        started_at=started_at,
        expires_at=after(max(now, started_at), GC_LEASE_SECONDS),
        grace_seconds=grace_seconds,
    )
    run = Run(id=lease.run, kind=kind, holder=holder, started_at=started_at)
    return replace(
        state,
        lease=lease,
        last_token=lease.token,
        last_started_at=started_at,
        runs=(run, *state.runs)[:GC_RUNS_KEPT],
    )


def require(state: GcState, run: str, token: int) -> Lease:
    """Return the lease if it is the run's.

    It may have expired: as long as nobody else has taken it, it is still good.

    Raises:
        FencedError: `LEASE_LOST`.
    """
    lease = state.lease
    if lease is None or (lease.run, lease.token) != (run, token):
        now_held = f": run {lease.run} of {lease.holder or 'somebody'} has it" if lease is not None else ""
        raise FencedError(
            ErrorKind.LEASE_LOST,
            f"run {cut(run)} no longer holds the lease{now_held}. It must not go on: begin another run",
        )
    return lease


def renew(state: GcState, run: str, token: int, now: Instant) -> GcState:
    """Let the lease last longer; errors as for `require`."""
    lease = require(state, run, token)
    expires_at = max(lease.expires_at, after(now, GC_LEASE_SECONDS))
    return replace(state, lease=replace(lease, expires_at=expires_at))


def start_attempt(state: GcState, run: str, token: int, *, chance: str, now: Instant) -> GcState:
    """Let a new attempt prepare the run's commits: an older one no longer counts. `chance` is part of its name.

    Raises:
        FencedError: `LEASE_LOST`.
        InvalidInputError: `INVALID_ARGUMENT`: not a run that marks.
        ConflictError: `TASK_COMPLETED`: its mark is published, so nothing may be condemned or released any more.
    """
    lease = require(state, run, token)
    if lease.kind is not RunKind.MARK:
        raise InvalidInputError(
            ErrorKind.INVALID_ARGUMENT, f"run {run} sweeps: only a run that marks lists what is live"
        )
    if any(mark.run == run for mark in state.marks):
        raise ConflictError(
            ErrorKind.TASK_COMPLETED, f"the mark of run {run} is published: begin another run"
        )
    began_at = max(now, lease.started_at, Instant(state.settled_at + 1))
    return replace(state, lease=replace(lease, attempt=run_name(began_at, chance), prepared=""))


def finish_attempt(state: GcState, run: str, token: int, attempt: str) -> GcState:
    """Say that an attempt is done; errors as for `require`, also if a newer attempt has begun."""
    lease = require(state, run, token)
    if lease.attempt != attempt:
        raise FencedError(
            ErrorKind.LEASE_LOST, f"another preparation of run {run} has begun: this one no longer counts"
        )
    return replace(state, lease=replace(lease, prepared=attempt))


def publish(
    state: GcState, run: str, token: int, *, kind: MarkKind, counts: Mapping[str, int], now: Instant
) -> GcState:
    """Make the run's mark count. Published already, it stays as it is.

    Raises:
        FencedError: `LEASE_LOST`.
        ConflictError: `VERSION_CHANGED`: its commits are not prepared; `TOO_LATE`: it took longer than half a grace.
    """
    if any(mark.run == run for mark in state.marks):
        return state
    lease = require(state, run, token)
    if not lease.prepared or lease.prepared != lease.attempt:
        raise ConflictError(
            ErrorKind.VERSION_CHANGED, f"the commits of run {run} have not been prepared: nothing is marked"
        )
    if lease.grace_seconds and now > after(lease.started_at, lease.grace_seconds / 2):
        raise ConflictError(
            ErrorKind.TOO_LATE,
            f"run {run} took longer than half of its grace of {lease.grace_seconds:.0f} s: "
            "what it saw first may be out of date. Run again with more machines or a longer grace",
        )
    since = 0 if kind is MarkKind.CLEAN else (state.marks[0].optimized_since_clean if state.marks else 0) + 1
    mark = Mark(
        run=run,
        condemner=lease.prepared,
        kind=kind,
        started_at=lease.started_at,
        marked_at=max(now, lease.started_at),
        optimized_since_clean=since,
        counts=dict(counts),
    )
    kept, dropped = (mark, *state.marks)[:GC_MARKS_KEPT], (mark, *state.marks)[GC_MARKS_KEPT:]
    settled_at = max([state.settled_at, *(begun_at(each.condemner) for each in dropped)])
    return replace(state, marks=kept, settled_at=settled_at)


def end(
    state: GcState,
    run: str,
    token: int,
    *,
    outcome: str,
    now: Instant,
    counts: Mapping[str, int] | None = None,
) -> GcState:
    """Give the lease back. Of a run that has ended nothing changes; errors as for `require`."""
    known = next((each for each in state.runs if each.id == run), None)
    if known is not None and known.ended_at is not None:
        return state
    require(state, run, token)
    runs = tuple(
        replace(each, ended_at=now, outcome=outcome, counts=dict(counts or {})) if each is known else each
        for each in state.runs
    )
    return replace(state, lease=None, runs=runs)


def withdraw_marks(state: GcState, run: str, token: int) -> GcState:
    """Forget what was marked, for the run that has the lease: objects that marks list are about to come back.

    What those marks condemned stays condemned, because its objects may be gone.

    Raises:
        FencedError: `LEASE_LOST`.
    """
    require(state, run, token)
    if not state.marks:
        return state
    settled_at = max([state.settled_at, *(begun_at(each.condemner) for each in state.marks)])
    return replace(state, marks=(), settled_at=settled_at)


def discard_restored(state: GcState, now: Instant) -> GcState:
    """Forget what was marked, and stop whoever collects: a dump may make garbage referenced again.

    All that was condemned stays so: whoever condemned the commits in the dump, nobody here knows whether that was
    published.
    """
    return replace(state, lease=None, marks=(), settled_at=max(state.settled_at, now))


def find_run(state: GcState, run: str) -> Run:
    """Return a run that is remembered, or raise `NotFoundError`."""
    for each in state.runs:
        if each.id == run:
            return each
    raise NotFoundError(ErrorKind.GC_RUN_NOT_FOUND, f"there is no garbage collection run {quoted(run)}")
