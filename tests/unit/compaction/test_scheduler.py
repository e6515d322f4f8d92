from dataclasses import replace

import pytest
from tests.unit.compaction.examples import (
    LIMITS,
    NOW,
    Service,
    branch,
    later,
    pending,
    report,
    segment,
    tokens,
)

from lakebed.compaction.fairness import share
from lakebed.compaction.scheduler import Status
from lakebed.compaction.update import apply, next_epoch, paused, retried
from lakebed.env.clock import Instant
from lakebed.errors import ConflictError
from lakebed.model.compaction import JobKind, JobState, source_of
from lakebed.model.ids import BranchName, RepoUid

FOLDABLE = branch(*tokens(3))


def foldable(name: str):
    return branch(*tokens(3, name), name=name)


def poisoned(count: int = 1) -> Service:
    """A service with a run that nobody survives."""
    return Service(
        branch(*tokens(count)), limits=replace(LIMITS, fold_layers=count, fold_layers_max=count, l2_layers=99)
    )


def fail_until_parked(service: Service) -> int:
    """Let every attempt fail, and return how many there were."""
    attempts = 0
    for _ in range(50):
        for job in service.poll().assigned:
            attempts += 1
            service.poll(report(job, Status.FAILED), fold=0, l2=0)
        if all(job.state is JobState.PARKED for job in service.schedule.jobs):
            break
    return attempts


def test_a_worker_gets_a_job_with_a_token_and_a_lease():
    service = Service(FOLDABLE)

    (job,) = service.poll(worker="ada").assigned
    assert (job.state, job.token, job.worker) == (JobState.RUNNING, 1, "ada")
    assert job.lease_expires_at == later(15)
    assert service.job(job.id) == job


def test_a_repository_without_branches_has_no_jobs():
    assert Service().poll().is_empty


def test_a_job_is_given_out_once():
    service = Service(FOLDABLE)
    service.poll()

    assert service.poll(at=later(15)).assigned == ()


def test_no_more_is_planned_than_the_worker_has_places_for():
    service = Service(*(foldable(f"b{n}") for n in range(9)), limits=replace(LIMITS, jobs_max=100))

    assert len(service.poll(fold=2).assigned) == 2
    assert len(service.schedule.jobs) == 2
    assert service.poll(fold=0, l2=0).is_empty


def test_a_lease_that_ran_out_goes_to_the_next_worker_with_a_greater_token():
    service = Service(FOLDABLE)
    (first,) = service.poll(worker="a").assigned

    (second,) = service.poll(worker="b", at=later(16)).assigned
    assert (second.id, second.worker) == (first.id, "b")
    assert second.token > first.token


def test_heartbeats_keep_a_lease_and_only_those_of_the_attempt_that_has_it():
    service = Service(FOLDABLE)
    (first,) = service.poll(worker="a").assigned
    service.beat(first, later(10))
    assert service.poll(at=later(25)).assigned == ()

    (second,) = service.poll(at=later(26)).assigned
    service.beat(first, later(100))
    (third,) = service.poll(at=later(42)).assigned
    assert first.token < second.token < third.token


def test_a_report_with_an_older_token_changes_nothing_and_tells_the_worker_to_stop():
    service = Service(FOLDABLE)
    (first,) = service.poll(worker="a").assigned
    (second,) = service.poll(worker="b", at=later(16)).assigned

    for status in Status:
        update = service.prepare(report(first, status), at=later(17), fold=0, l2=0)
        assert (update.is_empty, update.lost) == (True, (first.id,))
    assert service.job(second.id) == second


def test_a_report_about_a_job_that_is_gone_tells_the_worker_to_stop():
    service = Service(FOLDABLE)
    (job,) = service.poll().assigned
    service.poll(report(job, Status.DONE), fold=0, l2=0)

    update = service.poll(report(job, Status.DONE), fold=0, l2=0)
    assert (update.is_empty, update.lost) == (True, (job.id,))


def test_a_late_success_counts_while_nobody_else_has_the_job():
    service = Service(FOLDABLE)
    (job,) = service.poll().assigned
    service.poll(at=later(16), fold=0, l2=0)
    assert service.job(job.id).state is JobState.QUEUED

    service.poll(report(job, Status.DONE), at=later(17), fold=0, l2=0)
    assert service.schedule.jobs == ()


def test_a_late_sign_of_life_counts_while_nobody_else_has_the_job():
    service = Service(FOLDABLE)
    (job,) = service.poll().assigned
    service.poll(at=later(16), fold=0, l2=0)

    service.poll(report(job, Status.RUNNING), at=later(17), fold=0, l2=0)
    assert service.job(job.id).lease_expires_at == later(32)
    assert service.job(job.id).token == job.token


def test_a_job_that_is_given_back_has_not_failed_and_goes_to_somebody_else():
    service = Service(FOLDABLE)
    (job,) = service.poll().assigned

    assert service.poll(report(job, Status.RELEASED)).assigned == ()
    (again,) = service.poll().assigned
    assert (again.id, again.failures) == (job.id, 0)


def test_an_assignment_that_nobody_heard_of_is_no_failure_the_first_times():
    service = Service(FOLDABLE)
    found = []
    for n in range(4):
        (job,) = service.poll(at=later(16 * n)).assigned
        found.append((job.silences, job.failures))

    assert found == [(0, 0), (1, 0), (2, 0), (2, 1)]


def test_an_attempt_that_began_and_fell_silent_is_a_failure():
    service = Service(FOLDABLE)
    (job,) = service.poll().assigned
    service.beat(job, NOW)

    (again,) = service.poll(at=later(16)).assigned
    assert (again.silences, again.failures) == (0, 1)


def test_a_single_layer_that_always_fails_is_parked_and_given_out_no_more():
    service = Service(branch(segment(1, tombstones=5_000)))

    assert fail_until_parked(service) == LIMITS.failures_max + 1
    assert service.poll(at=later(3600)).assigned == ()
    assert [(j.state, j.error) for j in service.schedule.jobs] == [(JobState.PARKED, "it broke")]


def test_a_run_that_fails_is_halved_until_the_poisonous_layer_is_alone():
    service = poisoned(8)
    assert fail_until_parked(service) == LIMITS.failures_max + 1 + 3

    (parked,) = service.schedule.jobs
    assert [source.seq for source in parked.spec.sources] == [1]


def test_beside_a_parked_layer_the_others_are_still_folded_and_never_it():
    service = poisoned(4)
    fail_until_parked(service)
    service.limits = replace(LIMITS, fold_layers=3, l2_layers=2)

    (job,) = service.poll().assigned
    assert (job.spec.kind, [s.seq for s in job.spec.sources]) == (JobKind.FOLD, [4, 3, 2])


def test_a_parked_job_is_tried_again_when_somebody_asks():
    service = Service(branch(segment(1, tombstones=5_000)))
    fail_until_parked(service)
    (parked,) = service.schedule.jobs

    service.schedule = retried(service.schedule, frozenset({"other"}), update="r1")
    assert service.poll().assigned == ()
    service.schedule = retried(service.schedule, frozenset({parked.id}), update="r2")
    (job,) = service.poll().assigned
    assert (job.id, job.failures) == (parked.id, 0)


def test_a_raised_limit_does_not_wake_parked_jobs_but_asking_does():
    service = Service(branch(segment(1, tombstones=5_000)))
    fail_until_parked(service)
    service.limits = replace(service.limits, failures_max=9)
    assert service.poll().assigned == ()

    service.schedule = retried(service.schedule, None, update="r")
    assert len(service.poll().assigned) == 1


def test_a_queue_full_of_parked_jobs_lets_a_healthy_one_in_and_forgets_no_layer():
    names = [f"b{n}" for n in range(LIMITS.jobs_max)]
    service = Service(*(branch(segment(1, tombstones=5_000, id=f"00000001-{n}"), name=n) for n in names))
    fail_until_parked(service)
    assert len(service.schedule.jobs) == LIMITS.jobs_max
    first = service.schedule.jobs[0]
    service.branches[BranchName("healthy")] = foldable("healthy")

    (job,) = service.poll().assigned
    assert job.spec.branch == "healthy"
    assert len(service.schedule.jobs) == LIMITS.jobs_max
    assert [(h.incarnation, h.source) for h in service.schedule.held] == [
        (first.spec.incarnation, first.spec.sources[0])
    ]
    service.poll(report(job, Status.DONE), fold=0, l2=0)
    del service.branches[BranchName("healthy")]
    assert service.poll(at=later(3500)).assigned == ()
    (again,) = service.poll(at=later(3700)).assigned
    assert again.id == first.id


def test_a_queue_full_of_live_jobs_takes_no_more():
    service = Service(*(foldable(f"b{n}") for n in range(9)))

    assert len(service.poll().assigned) == LIMITS.jobs_max
    assert service.poll().assigned == ()


def test_lower_levels_go_first_then_fewer_failures_then_who_waits_longest():
    large = branch(segment(1, tombstones=5_000), name="large")
    service = Service(large, foldable("b1"), foldable("b2"), foldable("b3"))
    service.poll(fold=0, l2=0)
    for job in service.poll(fold=3, l2=1).assigned:
        status = Status.FAILED if job.spec.branch == "b1" else Status.RELEASED
        service.poll(report(job, status), fold=0, l2=0)

    order = [job.spec.branch for job in service.poll().assigned]
    assert order == ["b2", "b3", "b1", "large"]


def test_a_branch_has_one_job_of_a_kind_at_a_time_and_both_kinds_beside_each_other():
    service = Service(branch(*tokens(6)))
    (tree,) = service.poll().assigned
    service.branches[tree.spec.branch] = branch(*tokens(12))

    (fold,) = service.poll().assigned
    assert (tree.spec.kind, fold.spec.kind) == (JobKind.L2, JobKind.FOLD)
    assert not {*tree.spec.sources} & {*fold.spec.sources}
    assert fold.token > tree.token


def test_a_queued_job_whose_layers_are_gone_is_done():
    service = Service(FOLDABLE)
    (job,) = service.poll().assigned
    service.poll(report(job, Status.RELEASED), fold=0, l2=0)
    service.branches[FOLDABLE.name] = branch()

    service.poll()
    assert service.schedule.jobs == ()


def test_a_queued_job_waits_while_an_operation_on_head_is_in_its_way():
    service = Service(FOLDABLE)
    (job,) = service.poll().assigned
    service.poll(report(job, Status.RELEASED), fold=0, l2=0)
    service.branches[FOLDABLE.name] = replace(FOLDABLE, pending=pending())

    assert service.poll().assigned == ()
    service.branches[FOLDABLE.name] = FOLDABLE
    assert [j.id for j in service.poll().assigned] == [job.id]


def test_tokens_are_above_what_any_branch_has_seen_and_above_older_epochs():
    service = Service(replace(FOLDABLE, last_token=500))
    (job,) = service.poll().assigned
    assert job.token == 501

    service.schedule = next_epoch(service.schedule, era=1, update="e")
    (again,) = service.poll(at=later(16)).assigned
    assert again.token == (1 << 40) + 1


def test_time_in_the_schedule_never_goes_back():
    service = Service(FOLDABLE)
    service.poll(at=later(3600))
    assert service.poll(at=NOW).now == later(3600)

    assert service.schedule.now == later(3600)
    assert service.poll(at=Instant(0)).assigned == ()


def test_an_update_that_was_overtaken_is_refused():
    service = Service(FOLDABLE)
    late = service.prepare()
    service.poll()

    with pytest.raises(ConflictError):
        apply(service.schedule, late)


def test_a_paused_schedule_still_takes_reports_and_gives_nothing_out():
    service = Service(FOLDABLE)
    (job,) = service.poll().assigned
    service.schedule = paused(service.schedule, is_paused=True, update="pause")

    assert service.poll(report(job, Status.DONE)).assigned == ()
    assert service.schedule.jobs == ()
    service.schedule = paused(service.schedule, is_paused=False, update="resume")
    assert len(service.poll().assigned) == 1


def test_a_backlog_is_planned_a_workers_capacity_at_a_time():
    branches = [foldable(f"b{n}") for n in range(300)]
    service = Service(*branches, limits=replace(LIMITS, jobs_max=1_000))
    done = 0
    for _ in range(20):
        jobs = service.poll(fold=2, l2=2).assigned
        done += len(jobs)
        assert len(service.schedule.jobs) <= 4
        service.poll(*(report(job, Status.DONE) for job in jobs), fold=0, l2=0)
        for job in jobs:
            service.branches[job.spec.branch] = branch(name=job.spec.branch)
    assert done == 40


def test_sources_of_a_job_are_never_in_another():
    service = Service(branch(*tokens(4)))
    (one,) = service.poll().assigned
    service.branches[one.spec.branch] = branch(*tokens(8))
    service.poll()

    found = [source for job in service.schedule.jobs for source in job.spec.sources]
    assert len(found) == len({*found})
    assert source_of(tokens(4)[0]) in one.spec.sources


A, B, C = RepoUid("a"), RepoUid("b"), RepoUid("c")


def test_repositories_take_turns_and_lower_levels_go_first():
    demands = {A: {JobKind.FOLD: 100, JobKind.L2: 5}, B: {JobKind.FOLD: 2}, C: {JobKind.L2: 1}}

    assert share(demands, 5) == {A: {JobKind.FOLD: 3}, B: {JobKind.FOLD: 2}}
    assert share({A: {JobKind.L2: 5}, C: {JobKind.L2: 1}}, 3) == {A: {JobKind.L2: 2}, C: {JobKind.L2: 1}}
    assert share(demands, 0) == {}


def test_who_was_served_last_comes_last():
    demands = {uid: {JobKind.FOLD: 9} for uid in (A, B, C)}

    assert share(demands, 1) == {A: {JobKind.FOLD: 1}}
    assert share(demands, 1, last=A) == {B: {JobKind.FOLD: 1}}
    assert share(demands, 1, last=C) == {A: {JobKind.FOLD: 1}}
    assert share(demands, 2, last=B) == {C: {JobKind.FOLD: 1}, A: {JobKind.FOLD: 1}}
