"""The run record: one collector at a time, and nothing counts that lost its lease."""

from dataclasses import replace

import pytest

from lakebed.env.clock import Instant, after
from lakebed.errors import ConflictError, ErrorKind, FencedError, InvalidInputError, NotFoundError
from lakebed.gc.state import (
    begin,
    discard_restored,
    end,
    find_run,
    finish_attempt,
    publish,
    renew,
    require,
    start_attempt,
    withdraw_marks,
)
from lakebed.limits import GC_LEASE_SECONDS, GC_MARKS_KEPT, GC_RUNS_KEPT
from lakebed.model.gc import GcState, Lease, MarkKind, RunKind
from lakebed.refs.condemned import begun_at, is_final

NOW = Instant(1_800_000_000_000_000)
DAY = 24 * 3600.0


def begun(
    state: GcState | None = None,
    *,
    now: Instant = NOW,
    chance: str = "aaaaaaaaaaaaaaaaaaaa",
    kind: RunKind = RunKind.MARK,
    grace: float = DAY,
    takeover: bool = False,
) -> GcState:
    return begin(
        state or GcState(),
        kind=kind,
        holder="me",
        grace_seconds=grace,
        token=chance,
        now=now,
        takeover=takeover,
    )


def lease_of(state: GcState) -> Lease:
    assert state.lease is not None
    return state.lease


def prepared(state: GcState, *, now: Instant = NOW, chance: str = "p") -> GcState:
    lease = lease_of(state)
    state = start_attempt(state, lease.run, lease.token, chance=chance, now=now)
    return finish_attempt(state, lease.run, lease.token, lease_of(state).attempt)


def published(state: GcState, *, kind: MarkKind = MarkKind.CLEAN, now: Instant = NOW) -> GcState:
    lease = lease_of(state)
    return publish(state, lease.run, lease.token, kind=kind, counts={"objects": 1}, now=now)


def test_a_live_lease_is_refused_with_who_has_it() -> None:
    with pytest.raises(ConflictError, match="of me is collecting") as caught:
        begun(begun(), now=after(NOW, GC_LEASE_SECONDS - 1), chance="b" * 20)
    assert caught.value.kind is ErrorKind.GC_RUNNING


def test_an_expired_lease_goes_to_the_next_with_a_higher_token() -> None:
    first = begun()
    second = begun(first, now=after(NOW, GC_LEASE_SECONDS), chance="b" * 20)
    assert lease_of(second).token == lease_of(first).token + 1
    assert lease_of(second).run < lease_of(first).run, "newer runs sort first"
    for lost in (lease_of(first),):
        with pytest.raises(FencedError) as caught:
            require(second, lost.run, lost.token)
        assert caught.value.kind is ErrorKind.LEASE_LOST


def test_a_takeover_ends_a_live_lease() -> None:
    first = begun()
    second = begun(first, takeover=True, chance="b" * 20)
    with pytest.raises(FencedError):
        renew(second, lease_of(first).run, lease_of(first).token, NOW)


def test_a_begin_whose_reply_was_lost_is_recognised() -> None:
    first = begun()
    assert begun(first) is first


def test_names_of_runs_rise_though_the_clock_goes_back() -> None:
    first = begun()
    second = begun(first, now=after(NOW, -DAY), chance="b" * 20, takeover=True)
    assert lease_of(second).run < lease_of(first).run
    assert begun_at(lease_of(second).run) == lease_of(second).started_at


def test_renewing_never_shortens_a_lease() -> None:
    state = begun()
    lease = lease_of(state)
    later = renew(state, lease.run, lease.token, after(NOW, 30))
    assert lease_of(later).expires_at == after(NOW, 30 + GC_LEASE_SECONDS)
    assert renew(later, lease.run, lease.token, NOW) == later


def test_a_mark_is_published_only_with_its_commits_prepared() -> None:
    state = begun()
    lease = lease_of(state)
    with pytest.raises(ConflictError, match="have not been prepared"):
        published(state)
    started = start_attempt(state, lease.run, lease.token, chance="p", now=NOW)
    with pytest.raises(ConflictError, match="have not been prepared"):
        published(started)
    assert published(prepared(state)).marks[0].run == lease.run


def test_a_second_preparation_makes_the_first_one_worthless() -> None:
    state = begun()
    lease = lease_of(state)
    first = start_attempt(state, lease.run, lease.token, chance="p", now=NOW)
    second = start_attempt(first, lease.run, lease.token, chance="q", now=NOW)
    with pytest.raises(FencedError):
        finish_attempt(second, lease.run, lease.token, lease_of(first).attempt)
    again = start_attempt(prepared(state), lease.run, lease.token, chance="r", now=NOW)
    with pytest.raises(ConflictError, match="have not been prepared"):
        published(again)


def test_nothing_is_prepared_after_the_mark_is_published() -> None:
    state = published(prepared(begun()))
    lease = lease_of(state)
    with pytest.raises(ConflictError) as caught:
        start_attempt(state, lease.run, lease.token, chance="q", now=NOW)
    assert caught.value.kind is ErrorKind.TASK_COMPLETED


def test_a_sweep_prepares_nothing() -> None:
    state = begun(kind=RunKind.SWEEP)
    lease = lease_of(state)
    with pytest.raises(InvalidInputError):
        start_attempt(state, lease.run, lease.token, chance="q", now=NOW)


def test_a_run_that_took_longer_than_half_a_grace_marks_nothing() -> None:
    state = prepared(begun(grace=1000))
    assert published(state, now=after(NOW, 500)).marks
    with pytest.raises(ConflictError) as caught:
        published(state, now=after(NOW, 501))
    assert caught.value.kind is ErrorKind.TOO_LATE
    assert published(prepared(begun(grace=0)), now=after(NOW, 10_000)).marks


def test_publishing_twice_is_publishing_once() -> None:
    state = published(prepared(begun()))
    assert published(state, now=after(NOW, 5)) is state


def test_optimized_marks_are_counted_since_the_last_clean_one() -> None:
    state = GcState()
    counted = []
    for index, kind in enumerate([MarkKind.CLEAN, MarkKind.OPTIMIZED, MarkKind.OPTIMIZED, MarkKind.CLEAN]):
        at = after(NOW, index * 1000)
        state = published(prepared(begun(state, now=at, chance=str(index) * 20), now=at), kind=kind, now=at)
        counted.append(state.marks[0].optimized_since_clean)
    assert counted == [0, 1, 2, 0]


def test_only_what_a_published_mark_condemned_is_condemned_for_ever() -> None:
    state = prepared(begun())
    attempt = lease_of(state).attempt
    assert not is_final(state, attempt)
    state = published(state)
    assert is_final(state, attempt)
    other = prepared(begun(state, now=after(NOW, 1000), chance="b" * 20), now=after(NOW, 1000))
    assert not is_final(other, lease_of(other).attempt)


def test_marks_that_are_no_longer_listed_still_condemn_for_ever() -> None:
    state = GcState()
    attempts = []
    for index in range(GC_MARKS_KEPT + 3):
        at = after(NOW, index * 1000)
        state = prepared(begun(state, now=at, chance=f"{index:08}{0:012}"), now=at)
        attempts.append(lease_of(state).attempt)
        state = published(state, now=at)
    assert len(state.marks) == GC_MARKS_KEPT
    assert len(state.runs) == GC_RUNS_KEPT
    assert all(is_final(state, attempt) for attempt in attempts)


def test_what_is_discarded_stops_runs_and_sweeps_and_revives_nothing() -> None:
    state = prepared(begun())
    attempt = lease_of(state).attempt
    state = published(state)
    lease = lease_of(state)
    state = discard_restored(state, NOW)
    assert state.marks == ()
    assert is_final(state, attempt)
    with pytest.raises(FencedError):
        renew(state, lease.run, lease.token, NOW)
    after_it = prepared(begun(state, chance="b" * 20))
    assert not is_final(after_it, lease_of(after_it).attempt), "a name that is not settled yet"


def test_a_run_that_has_the_lease_withdraws_marks_and_goes_on_and_revives_nothing() -> None:
    state = prepared(begun())
    attempt, marker = lease_of(state).attempt, lease_of(state)
    state = end(published(state), marker.run, marker.token, outcome="done", now=NOW)
    state = begun(state, kind=RunKind.SWEEP, chance="b" * 20)
    lease = lease_of(state)
    with pytest.raises(FencedError):
        withdraw_marks(state, marker.run, marker.token)

    withdrawn = withdraw_marks(state, lease.run, lease.token)

    assert withdrawn.marks == ()
    assert is_final(withdrawn, attempt)
    assert require(withdrawn, lease.run, lease.token) == lease
    assert withdraw_marks(withdrawn, lease.run, lease.token) is withdrawn


def test_a_dump_brings_condemned_commits_that_nobody_may_revive() -> None:
    foreign = lease_of(prepared(begun())).attempt
    assert is_final(discard_restored(GcState(), after(NOW, 1)), foreign)


def test_ending_gives_the_lease_back_and_is_remembered() -> None:
    state = begun()
    lease = lease_of(state)
    state = end(state, lease.run, lease.token, outcome="done", now=after(NOW, 9))
    assert state.lease is None
    run = find_run(state, lease.run)
    assert (run.outcome, run.ended_at) == ("done", after(NOW, 9))
    assert end(state, lease.run, lease.token, outcome="again", now=NOW) is state
    with pytest.raises(NotFoundError):
        find_run(state, "none")


def test_a_run_cannot_end_the_lease_of_another() -> None:
    first = begun()
    second = begun(first, takeover=True, chance="b" * 20)
    with pytest.raises(FencedError):
        end(second, lease_of(first).run, lease_of(first).token, outcome="", now=NOW)
    assert replace(second) == second
