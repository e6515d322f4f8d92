"""The garbage collector's run record as a KV value (see `codec` for the version byte and what may change)."""

from typing import Final

import msgspec

from lakebed.env.clock import Instant
from lakebed.format.codec import Codec, Stored
from lakebed.model.gc import GcState, Lease, Mark, MarkKind, Run, RunKind


class _Lease(Stored):
    run: str
    token: int
    kind: RunKind
    holder: str
    started_at: Instant
    expires_at: Instant
    grace_seconds: float
    attempt: str
    prepared: str


class _Mark(Stored):
    run: str
    condemner: str
    kind: MarkKind
    started_at: Instant
    marked_at: Instant
    optimized_since_clean: int
    counts: dict[str, int]


class _Run(Stored):
    id: str
    kind: RunKind
    holder: str
    started_at: Instant
    ended_at: Instant | None
    outcome: str
    counts: dict[str, int] = msgspec.field(default_factory=dict)


class _GcState(Stored):
    lease: _Lease | None
    last_token: int
    last_started_at: Instant
    marks: tuple[_Mark, ...]
    settled_at: Instant
    runs: tuple[_Run, ...]


_STATE: Final = Codec[_GcState]("gc state", 1, _GcState)


def encode_gc_state(state: GcState) -> bytes:
    """Return the run record as its KV value."""
    return _STATE.seal(
        _GcState(
            _store_lease(state.lease) if state.lease is not None else None,
            state.last_token,
            state.last_started_at,
            tuple(
                _Mark(
                    each.run,
                    each.condemner,
                    each.kind,
                    each.started_at,
                    each.marked_at,
                    each.optimized_since_clean,
                    dict(each.counts),
                )
                for each in state.marks
            ),
            state.settled_at,
            tuple(
                _Run(
                    each.id,
                    each.kind,
                    each.holder,
                    each.started_at,
                    each.ended_at,
                    each.outcome,
                    dict(each.counts),
                )
                for each in state.runs
            ),
        )
    )


def decode_gc_state(data: bytes) -> GcState:
    """Return what `encode_gc_state` was given, or raise `CorruptError`."""
    s = _STATE.open(data)
    return GcState(
        lease=_load_lease(s.lease) if s.lease is not None else None,
        last_token=s.last_token,
        last_started_at=s.last_started_at,
        marks=tuple(
            Mark(
                run=each.run,
                condemner=each.condemner,
                kind=each.kind,
                started_at=each.started_at,
                marked_at=each.marked_at,
                optimized_since_clean=each.optimized_since_clean,
                counts=each.counts,
            )
            for each in s.marks
        ),
        settled_at=s.settled_at,
        runs=tuple(
            Run(
                id=each.id,
                kind=each.kind,
                holder=each.holder,
                started_at=each.started_at,
                ended_at=each.ended_at,
                outcome=each.outcome,
                counts=each.counts,
            )
            for each in s.runs
        ),
    )


def _store_lease(lease: Lease) -> _Lease:
    return _Lease(
        lease.run,
        lease.token,
        lease.kind,
        lease.holder,
        lease.started_at,
        lease.expires_at,
        lease.grace_seconds,
        lease.attempt,
        lease.prepared,
    )


def _load_lease(s: _Lease) -> Lease:
    return Lease(
        run=s.run,
        token=s.token,
        kind=s.kind,
        holder=s.holder,
        started_at=s.started_at,
        expires_at=s.expires_at,
        grace_seconds=s.grace_seconds,
        attempt=s.attempt,
        prepared=s.prepared,
    )
