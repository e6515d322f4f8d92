"""The scenarios of the design, told one by one on records; numbers are those of its list.

What needs more than records (13 and 14: repositories and merges; the pins of 23) is told where it is built.
Every step checks that the branch shows what was acknowledged and that nothing referenced is gone.
"""

from collections.abc import Callable
from dataclasses import replace

import pytest
from tests.property.compaction_world import LIMITS, MAIN, Attempt, World

from lakebed.compaction.guard import Refusal
from lakebed.compaction.scheduler import Facts, Poll, Report, Status, prepare
from lakebed.compaction.update import apply, next_epoch
from lakebed.env.clock import after
from lakebed.errors import ConflictError
from lakebed.limits import GRACE_SECONDS
from lakebed.model.compaction import JobKind, JobState, source_of

STEPS = ("claim", "work", "install")


@pytest.fixture(params=[3, 5], ids=["fold", "l2"])
def world(request) -> World:
    """A branch with enough layers for a job of one kind: tombstones over the base among them."""
    made = World()
    for number in range(request.param):
        made.write({"abcde"[number]: None if number == 1 else f"v{number}"}, as_segment=False)
    return made


def assigned(world: World, worker: str = "w1") -> Attempt:
    world.poll(worker, free=1)
    return next(a for a in reversed(world.attempts) if a.worker == worker)


def advance(world: World, attempt: Attempt, *steps: str) -> None:
    for step in steps:
        if attempt in world.attempts:
            getattr(world, step)(attempt)
        world.check()


def pass_time(world: World, seconds: float) -> None:
    world.now = after(world.now, seconds)


def jobs(world: World) -> list[JobState]:
    return [job.state for job in world.schedule.jobs]


def test_01_two_workers_finish_one_job_and_the_newer_token_wins(world):
    old = assigned(world, "w1")
    advance(world, old, "claim", "work")
    pass_time(world, LIMITS.lease_seconds + 1)
    new = assigned(world, "w2")
    assert new.job.id == old.job.id
    advance(world, new, "claim", "work")

    advance(world, old, "install")
    assert world.refused == [Refusal.TOKEN]
    advance(world, new, "install")
    assert world.installed == [old.job.spec.kind]


def test_01_an_expired_worker_may_still_install_before_the_next_has_claimed(world):
    old = assigned(world, "w1")
    advance(world, old, "claim", "work")
    pass_time(world, LIMITS.lease_seconds + 1)
    new = assigned(world, "w2")

    advance(world, old, "install")
    advance(world, new, *STEPS)
    assert (len(world.installed), world.refused) == (1, [])
    world.poll("w2", free=0)
    assert jobs(world) == []


def test_02_a_worker_that_slept_past_the_grace_installs_nothing_that_was_collected(world):
    old = assigned(world, "w1")
    advance(world, old, "claim", "work")
    pass_time(world, LIMITS.lease_seconds + 1)
    advance(world, assigned(world, "w2"), *STEPS)
    pass_time(world, GRACE_SECONDS + 1)
    world.clean()
    world.check()

    advance(world, old, "install")
    assert len(world.installed) == 1


def test_03_a_worker_that_loses_a_job_and_gets_it_again_works_under_the_new_token(world):
    first = assigned(world, "w1")
    advance(world, first, "claim", "work")
    pass_time(world, LIMITS.lease_seconds + 1)
    again = assigned(world, "w1")
    assert (again.job.id, again.job.token > first.job.token) == (first.job.id, True)

    advance(world, again, "claim")
    advance(world, first, "install")
    advance(world, again, "work", "install")
    assert (world.refused, len(world.installed)) == ([Refusal.TOKEN], 1)


def test_04_and_05_a_completion_that_is_sent_again_changes_nothing(world):
    attempt = assigned(world)
    advance(world, attempt, *STEPS)
    report = world.reports["w1"][0]
    world.poll("w1", free=0)
    assert jobs(world) == []

    before = replace(world.schedule)
    world.reports["w1"] = [report, report]
    world.poll("w1", free=0)
    assert world.schedule.jobs == before.jobs


def test_06_an_assignment_that_got_lost_comes_again_when_its_lease_ran_out(world):
    world.poll("w1", free=1, reply_lost=True)
    assert world.attempts == []
    pass_time(world, LIMITS.lease_seconds + 1)

    attempt = assigned(world, "w2")
    assert attempt.job.failures == 0
    advance(world, attempt, *STEPS)
    assert len(world.installed) == 1


@pytest.mark.parametrize("clock", [3600, -3600])
def test_07_a_scheduler_with_a_wrong_clock_costs_work_and_nothing_else(world, clock):
    first = assigned(world, "w1")
    advance(world, first, "claim", "work")
    world.poll("w2", free=1, clock=clock)
    for attempt in list(world.attempts):
        advance(world, attempt, *(STEPS if not attempt.claimed else STEPS[2:]))
    assert len(world.installed) == 1


@pytest.mark.parametrize("done", range(3))
def test_08_a_commit_at_any_point_of_a_job_wins_and_is_never_made_to_start_over(world, done):
    attempt = assigned(world)
    advance(world, attempt, *STEPS[:done])
    world.begin_commit()
    advance(world, attempt, *STEPS[done:])
    assert world.installed == []
    world.build_commit()
    world.finish_commit()
    world.check()

    assert (world.committed, world.branch.sealed) == (world.view, ())
    assert (world.branch.l2_slot, world.branch.fold_slot) == (None, None)
    world.poll("w1", free=1)
    assert jobs(world) == []


def test_09_two_commits_around_a_compaction_hold_what_was_there(world):
    attempt = assigned(world)
    advance(world, attempt, "claim", "work")
    world.begin_commit()
    world.build_commit()
    world.write({"a": "on top"}, as_segment=True)
    world.finish_commit()
    world.check()
    advance(world, attempt, "install")
    world.begin_commit()
    world.build_commit()
    world.finish_commit()
    world.check()
    assert world.committed == world.view
    assert world.committed["a"] == "on top"


@pytest.mark.parametrize("done", range(3))
def test_10_and_11_what_was_reset_does_not_come_back_even_if_the_same_paths_are_written_again(world, done):
    attempt = assigned(world)
    advance(world, attempt, *STEPS[:done])
    world.reset()
    world.write({"a": "new"}, as_segment=False)
    advance(world, attempt, *STEPS[done:])

    assert world.installed == []
    assert world.view == {"a": "new", "b": "0", "c": "0"}


@pytest.mark.parametrize("done", range(3))
def test_12_a_branch_created_again_under_the_name_gets_nothing_of_the_old_one(world, done):
    attempt = assigned(world)
    advance(world, attempt, *STEPS[:done])
    world.delete_and_create()
    world.write({"a": "new"}, as_segment=False)
    advance(world, attempt, *STEPS[done:])

    assert world.installed == []
    world.poll("w1", free=1)
    assert jobs(world) == []


def test_15_appends_all_the_time_do_not_keep_a_result_from_being_installed(world):
    attempt = assigned(world)
    for step in STEPS:
        for _ in range(5):
            world.write({"e": step}, as_segment=True)
        advance(world, attempt, step)
    assert len(world.installed) == 1


def test_16_a_scheduler_without_memory_plans_the_same_again_from_the_branches(world):
    first = assigned(world)
    advance(world, first, "claim", "work")
    world.lose_schedule()
    again = assigned(world, "w2")
    assert (again.job.id, again.job.token > first.job.token) == (first.job.id, True)

    advance(world, again, "claim")
    advance(world, first, "install")
    advance(world, again, "work", "install")
    assert (world.refused, len(world.installed)) == ([Refusal.TOKEN], 1)


def test_17_of_two_schedulers_one_wins_the_swap_and_the_other_prepares_again(world):
    facts = Facts(branches={MAIN: world.record})
    free = dict.fromkeys(JobKind, 1)
    one, two = (
        prepare(world.schedule, Poll(id=name, worker=name, free=free), facts, now=world.now, limits=LIMITS)
        for name in ("w1", "w2")
    )
    assert [job.id for job in one.assigned] == [job.id for job in two.assigned]

    won = apply(world.schedule, one)
    with pytest.raises(ConflictError):
        apply(won, two)
    poll = Poll(id="w2 again", worker="w2", free=free)
    assert prepare(won, poll, facts, now=world.now, limits=LIMITS).assigned == ()


def test_18_and_19_a_poisonous_layer_ends_up_alone_and_parked_and_the_branch_goes_on():
    world = World()
    for number in range(4):
        world.write({"abcd"[number]: None}, as_segment=False)
    poison = world.branch.sealed[-1].seq
    for _ in range(40):
        world.poll("w1", free=2)
        for attempt in list(world.attempts):
            if any(source.seq == poison for source in attempt.job.spec.sources):
                advance(world, attempt, "claim", "fail")
            else:
                advance(world, attempt, *STEPS)
        pass_time(world, 61)

    (job,) = world.schedule.jobs
    assert (job.state, [s.seq for s in job.spec.sources]) == (JobState.PARKED, [poison])
    assert len(world.branch.sealed) == 2
    assert world.installed == [JobKind.FOLD]
    world.begin_commit()
    world.build_commit()
    world.finish_commit()
    world.check()
    assert world.committed == world.view


def search(world: World, fails: Callable[[Attempt], bool], *, minutes: int = 120) -> list[float]:
    """Let a worker poll and work, twice a minute; return the minutes in which an attempt failed."""
    failed = []
    for half_minute in range(2 * minutes):
        world.poll("w1", free=2)
        for attempt in list(world.attempts):
            if fails(attempt):
                failed.append(half_minute / 2)
                advance(world, attempt, "claim", "fail")
            else:
                advance(world, attempt, *STEPS)
        pass_time(world, 30)
    return failed


@pytest.mark.parametrize(
    ("layers", "place"), [(layers, place) for layers in (3, 4, 5, 10) for place in range(layers)]
)
def test_18_a_poisonous_layer_is_found_wherever_it_lies_and_the_others_are_merged(layers, place):
    world = World()
    for number in range(layers):
        world.write({"abcdefghij"[number]: f"v{number}"}, as_segment=False)
    poison = source_of(world.branch.sealed[place])

    failed = search(world, lambda attempt: poison in attempt.job.spec.sources)

    (parked,) = world.schedule.jobs
    assert (parked.state, parked.spec.sources) == (JobState.PARKED, (poison,))
    above = len([layer for layer in world.branch.sealed if layer.seq > poison.seq])
    below = len([layer for layer in world.branch.sealed if layer.seq < poison.seq])
    assert (above <= 2, below) == (True, 0), "what is older is in the tree, what is newer is merged"
    # Every failure is one of the first run, or of a halving: of the fold, and of the tree.
    assert len(failed) <= 2 * (LIMITS.failures_max + 1 + 4)
    assert max(failed) < 30, "it is tried no more"


def test_18_layers_that_fail_only_together_are_left_alone_for_a_while():
    world = World()
    for number in range(3):
        world.write({"abc"[number]: f"v{number}"}, as_segment=False)
    pair = {source_of(layer) for layer in world.branch.sealed[:2]}

    failed = search(world, lambda attempt: pair <= set(attempt.job.spec.sources), minutes=10)

    # Held for a minute here, for an hour outside.
    tries = LIMITS.failures_max + 1 + 2
    assert len(failed) <= 10 * tries
    assert not [job for job in world.schedule.jobs if job.state is JobState.PARKED]


def test_21_an_hour_without_workers_is_caught_up_with_a_bounded_queue():
    world = World()
    for number in range(60):
        world.write({"abcde"[number % 5]: None if number % 3 else "x"}, as_segment=bool(number % 2))
        pass_time(world, 60)
    for _ in range(20):
        world.poll("w1", free=1)
        assert len(world.schedule.jobs) <= LIMITS.jobs_max
        for attempt in list(world.attempts):
            advance(world, attempt, *STEPS)
    assert world.branch.sealed == ()


def test_22_other_limits_apply_to_jobs_that_are_under_way(world):
    attempt = assigned(world)
    advance(world, attempt, "claim", "work")
    other = replace(LIMITS, fold_layers=2, l2_layers=2, failures_max=0, jobs_max=1, lease_seconds=1)
    facts = Facts(branches={MAIN: world.record})
    report = Report(job=attempt.job.id, token=attempt.job.token, status=Status.RUNNING)
    poll = Poll(id="other", worker="w1", free=dict.fromkeys(JobKind, 1), reports=(report,))
    world.schedule = apply(world.schedule, prepare(world.schedule, poll, facts, now=world.now, limits=other))
    world.check()

    advance(world, attempt, "install")
    assert len(world.installed) == 1


def test_23_a_reader_of_the_old_record_finishes_within_the_grace(world):
    world.open_reader()
    advance(world, assigned(world), *STEPS)
    pass_time(world, GRACE_SECONDS - 1)
    world.clean()
    world.check()
    assert len(world.readers) == 1


def test_24_no_attempt_writes_under_the_name_of_another(world):
    first = assigned(world, "w1")
    advance(world, first, "claim", "work")
    pass_time(world, LIMITS.lease_seconds + 1)
    second = assigned(world, "w2")
    advance(world, second, "claim")
    world.clean()
    advance(world, second, "work")

    assert first.output != second.output
    world.clean()
    advance(world, second, "install")
    assert len(world.installed) == 1


def test_25_after_a_restore_tokens_are_above_all_that_were_ever_given_out(world):
    backup = (world.record, world.schedule)
    lost = assigned(world, "w1")
    advance(world, lost, "claim", "work")
    world.record, world.schedule = backup
    world.schedule = next_epoch(world.schedule, era=1, update="restored")

    again = assigned(world, "w2")
    assert again.job.token > lost.job.token
    advance(world, again, "claim")
    advance(world, lost, "install")
    advance(world, again, "work", "install")
    assert (world.refused, len(world.installed)) == ([Refusal.TOKEN], 1)
