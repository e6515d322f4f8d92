"""The service on an engine in memory: jobs end to end, lost swaps, lost replies, two services at once."""

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest
from tests.unit.compaction.shell import LIMITS, MAIN, Shell, open_shell

from lakebed.compaction.keys import SCHEDULE_KEY
from lakebed.compaction.scheduler import Report, Status
from lakebed.kv.port import Expect
from lakebed.kv.wrappers.faults import (
    Call,
    Conflict,
    Delay,
    Fault,
    LostReply,
    LostRequest,
    Operation,
    Refused,
)
from lakebed.limits import PENDING_TIMEOUT_SECONDS, SEALED_LAYERS_SLOWDOWN
from lakebed.model.compaction import JobState, Schedule
from lakebed.model.diffs import ChangeCounts
from lakebed.model.ids import Nonce
from lakebed.refs.keys import branch_key
from lakebed.staging.record import begin

PATHS = {f"p{n:02}": f"old {n}" for n in range(20)}


async def staged(shell: Shell) -> None:
    """Three layers over a commit: paths added, changed, removed, and put back."""
    await shell.put(**PATHS)
    await shell.commit()
    await shell.delete("p03", "p04", "never")
    await shell.put(new="1", p05="changed")
    await shell.seal()
    await shell.put(p03="back", p06="changed", p07="old 7")
    await shell.delete("new")
    await shell.seal()
    await shell.put(top="not sealed")


async def test_an_l2_job_changes_nothing_that_anyone_sees() -> None:
    async with open_shell() as shell:
        await staged(shell)
        view, diff = await shell.view(), await shell.diff()
        await shell.compact()
        branch = await shell.branch()
        assert branch.sealed == ()
        assert branch.compacted is not None
        assert branch.l2_slot is None
        assert await shell.view() == view
        assert await shell.diff() == diff
        assert (await shell.schedule()).jobs == ()


async def test_counts_are_those_of_the_diff_however_many_trees_came_before() -> None:
    async with open_shell() as shell:
        await staged(shell)
        await shell.seal()
        await shell.compact()
        await shell.delete("p05", "p08", "top")
        await shell.put(p04="back", p09="x")
        await shell.seal()
        await shell.compact()
        kinds = [kind for _, kind in await shell.diff()]
        assert (await shell.branch()).compacted_counts == ChangeCounts(
            added=kinds.count("added"), changed=kinds.count("changed"), removed=kinds.count("removed")
        )


async def test_a_commit_after_compaction_takes_the_compacted_tree_as_it_is() -> None:
    async with open_shell() as shell:
        await staged(shell)
        await shell.seal()
        view = await shell.view()
        await shell.compact()
        tree = (await shell.branch()).compacted
        commit = await shell.commit()
        made = await shell.wired.catalog.commits.get("lake", commit)
        assert made.tree == tree
        assert await shell.view() == view
        assert await shell.diff() == []


async def test_what_is_staged_and_taken_back_leaves_no_tree() -> None:
    async with open_shell() as shell:
        await shell.put(**PATHS)
        await shell.commit()
        await shell.delete("never", "there")
        await shell.seal()
        await shell.compact()
        branch = await shell.branch()
        assert (branch.sealed, branch.compacted, branch.compacted_counts) == ((), None, None)


async def test_the_slot_is_claimed_before_the_worker_gets_the_job() -> None:
    async with open_shell() as shell:
        await staged(shell)
        (given,) = (await shell.poll()).assigned
        slot = (await shell.branch()).l2_slot
        assert slot is not None
        assert (slot.job, slot.token) == given.attempt


@pytest.mark.parametrize("fault", [LostReply(), LostRequest(), Conflict(), Refused()])
@pytest.mark.parametrize("key", [SCHEDULE_KEY, branch_key(MAIN)])
@pytest.mark.parametrize("number", range(4))
async def test_no_lost_request_or_reply_of_a_swap_does_harm(fault: Fault, key: bytes, number: int) -> None:
    async with open_shell() as shell:
        await staged(shell)
        view, diff = await shell.view(), await shell.diff()
        shell.faults.plan = nth(
            number, lambda call: (call.operation, call.key) == (Operation.SWAP, key), fault
        )
        worker = shell.worker()
        for _ in range(6):
            await worker.round()
            await worker.idle()
            await shell.clock.advance(LIMITS.lease_seconds + 1)
        branch = await shell.branch()
        assert branch.sealed == ()
        assert branch.l2_slot is None
        assert await shell.view() == view
        assert await shell.diff() == diff
        assert (await shell.schedule()).jobs == ()


def nth(number: int, is_meant: Callable[[Call], bool], fault: Fault) -> Callable[[Call], Fault | None]:
    """Return a plan that meets one call with a fault."""
    left = number

    def plan(call: Call) -> Fault | None:
        nonlocal left
        if not is_meant(call):
            return None
        left -= 1
        return fault if left == -1 else None

    return plan


async def test_two_services_never_give_a_job_to_two_workers() -> None:
    async with open_shell() as shell:
        await staged(shell)
        first, second = shell.another_service(), shell.another_service()
        given = [*(await first.poll("a", free=2)).assigned, *(await second.poll("b", free=2)).assigned]
        assert len(given) == 1


async def test_of_two_services_that_plan_at_once_one_gives_the_job_out() -> None:
    async with open_shell() as shell:
        await staged(shell)
        shell.faults.plan = lambda call: Delay(0.1) if call.key == SCHEDULE_KEY else None
        services = shell.another_service(), shell.another_service()
        answers = await asyncio.gather(*(each.poll("w", free=2) for each in services))
        assert sum(len(answer.assigned) for answer in answers) == 1
        assert len((await shell.schedule()).jobs) == 1


async def test_an_assignment_whose_reply_got_lost_is_handed_out() -> None:
    async with open_shell() as shell:
        await staged(shell)
        shell.faults.plan = nth(
            0, lambda call: call == Call(Operation.SWAP, call.partition, SCHEDULE_KEY), LostReply()
        )
        assert len((await shell.poll()).assigned) == 1


async def test_a_job_takes_nothing_along_but_its_own_layers() -> None:
    async with open_shell() as shell:
        await staged(shell)
        await shell.compact()
        tree = (await shell.branch()).compacted
        assert tree is not None
        trees = await shell.wired.engine.parts.trees_of(shell.repo)
        assert await trees.lookup(tree, "top") is None
        assert await trees.lookup(tree, "p06") is not None


async def test_a_service_that_loses_the_swap_prepares_again() -> None:
    async with open_shell() as shell:
        await staged(shell)
        await shell.wired.catalog.branches.create("lake", "other", "main")
        await shell.put("other", a="1")
        await shell.seal("other")
        rival, polled = shell.another_service(), []

        def interrupt(call: Call) -> Fault | None:
            if (call.operation, call.key) == (Operation.SWAP, SCHEDULE_KEY) and not polled:
                polled.append(call)
                return Conflict()
            return None

        shell.faults.plan = interrupt
        answer = await shell.poll(free=5)
        assert {each.job.spec.branch for each in answer.assigned} == {"main", "other"}
        assert (await rival.poll("b", free=5)).assigned == []


async def test_an_attempt_that_was_replaced_installs_nothing() -> None:
    async with open_shell() as shell:
        await staged(shell)
        (old,) = (await shell.poll()).assigned
        made = await shell.runner.run(old.repo, old.job)
        await shell.clock.advance(LIMITS.lease_seconds + 1)
        (new,) = (await shell.poll()).assigned
        assert new.job.token > old.job.token
        before = await shell.branch()
        assert await shell.service.install(old.repo, old.job, made.output) is Status.RELEASED
        assert await shell.branch() == before


async def test_a_job_whose_layers_were_committed_is_done() -> None:
    async with open_shell() as shell:
        await staged(shell)
        (given,) = (await shell.poll()).assigned
        made = await shell.runner.run(given.repo, given.job)
        await shell.commit()
        view = await shell.view()
        assert await shell.service.install(given.repo, given.job, made.output) is Status.DONE
        assert (await shell.branch()).compacted is None
        assert await shell.view() == view


async def test_a_job_of_a_deleted_branch_is_done() -> None:
    async with open_shell() as shell:
        await shell.wired.catalog.branches.create("lake", "other", "main")
        await shell.put("other", a="1")
        await shell.seal("other")
        (given,) = (await shell.poll()).assigned
        made = await shell.runner.run(given.repo, given.job)
        await shell.wired.catalog.branches.delete("lake", "other")
        assert await shell.service.install(given.repo, given.job, made.output) is Status.DONE


async def test_a_job_under_a_live_commit_is_given_back_and_done_later() -> None:
    async with open_shell() as shell:
        await staged(shell)
        (given,) = (await shell.poll()).assigned
        made = await shell.runner.run(given.repo, given.job)
        await shell.wired.engine.parts.branches.update(
            shell.repo,
            MAIN,
            lambda current, now: begin(current, Nonce("n"), (current.commit_id,), now),
            landed=lambda current: Nonce("n") in current.pending,
        )
        status = await shell.service.install(given.repo, given.job, made.output)
        assert status is Status.RELEASED
        answer = await shell.poll([Report(job=given.job.id, token=given.job.token, status=status)])
        assert answer.assigned == []
        await shell.clock.advance(PENDING_TIMEOUT_SECONDS + 1)
        await shell.compact()
        assert (await shell.branch()).sealed == ()


async def test_a_slot_that_no_job_has_is_cleared() -> None:
    async with open_shell() as shell:
        await staged(shell)
        (given,) = (await shell.poll()).assigned
        report = Report(job=given.job.id, token=given.job.token, status=Status.DONE)
        await shell.poll([report], free=0)
        await shell.poll(free=0)
        assert (await shell.branch()).l2_slot is None


async def test_a_full_staging_token_is_sealed_at_once_and_a_smaller_one_after_a_pause() -> None:
    async with open_shell() as shell:
        await shell.put(**{f"a{n}": "x" for n in range(LIMITS.seal_quiet_rows)})
        await shell.poll(free=0)
        assert (await shell.branch()).sealed == ()
        await shell.clock.advance(LIMITS.seal_quiet_seconds)
        await shell.poll(free=0)
        assert len((await shell.branch()).sealed) == 1
        await shell.put(**{f"b{n}": "x" for n in range(LIMITS.seal_rows)})
        await shell.poll(free=0)
        assert len((await shell.branch()).sealed) == 2


async def test_a_few_staged_rows_are_left_alone() -> None:
    async with open_shell() as shell:
        await shell.put(a="1")
        for _ in range(3):
            await shell.poll()
            await shell.clock.advance(LIMITS.seal_quiet_seconds)
        assert (await shell.branch()).sealed == ()


async def test_nothing_is_assigned_while_compaction_is_paused() -> None:
    async with open_shell() as shell:
        await staged(shell)
        await shell.service.pause(shell.repo, is_paused=True)
        assert (await shell.poll()).assigned == []
        await shell.service.pause(shell.repo, is_paused=False)
        assert len((await shell.poll()).assigned) == 1


async def test_a_branch_can_be_asked_for_whatever_it_holds() -> None:
    async with open_shell() as shell:
        await shell.put(a="1")
        job = await shell.service.ask(shell.repo, MAIN)
        assert job is not None
        assert job.spec.reason == "asked for"
        again = await shell.service.ask(shell.repo, MAIN)
        assert again is not None
        assert again.id == job.id
        await shell.compact()
        branch = await shell.branch()
        assert (branch.staging_token, branch.sealed) == (None, ())
        assert await shell.service.ask(shell.repo, MAIN) is None


async def test_a_parked_job_can_be_tried_again() -> None:
    async with open_shell() as shell:
        await staged(shell)
        await fail_until_parked(shell)
        parked = [job for job in (await shell.schedule()).jobs if job.state is JobState.PARKED]
        assert parked
        more = LIMITS.failures_max + 2
        assert await shell.service.retry(shell.repo, [parked[0].id], failures_max=more) == 1
        (again,) = [job for job in (await shell.schedule()).jobs if job.id == parked[0].id]
        assert (again.state, again.failures, again.error) == (JobState.QUEUED, -2, "")
        assert await shell.service.retry(shell.repo, [parked[0].id]) == 0
        await shell.compact()
        assert (await shell.branch()).sealed == ()


async def fail_until_parked(shell: Shell) -> None:
    for _ in range(20):
        for given in (await shell.poll()).assigned:
            failed = Report(job=given.job.id, token=given.job.token, status=Status.FAILED, error="no")
            await shell.poll([failed], free=0)


async def test_a_branch_whose_jobs_are_parked_says_so_until_they_are_tried_again() -> None:
    async with open_shell() as shell:
        await staged(shell)
        assert not (await shell.branch()).parked
        await fail_until_parked(shell)
        assert (await shell.branch()).parked
        assert await shell.service.retry(shell.repo) > 0
        await shell.poll(free=0)
        assert not (await shell.branch()).parked


async def test_a_branch_whose_jobs_are_parked_takes_more_layers_and_can_be_committed() -> None:
    async with open_shell() as shell:
        await staged(shell)
        await fail_until_parked(shell)
        for number in range(SEALED_LAYERS_SLOWDOWN):
            await shell.put(**{f"more{number}": "1"})
            await shell.seal()
        view = await shell.view()
        assert len((await shell.branch()).sealed) > SEALED_LAYERS_SLOWDOWN
        await shell.commit()
        assert await shell.view() == view
        branch = await shell.branch()
        assert (branch.sealed, branch.parked) == ((), False)
        await shell.poll(free=0)
        assert not (await shell.branch()).parked


async def test_a_repository_that_a_newer_lakebed_plans_does_not_stop_the_others() -> None:
    async with open_shell() as shell:
        newer = await shell.wired.catalog.repositories.create("another", "mem://another")
        await shell.wired.engine.parts.kv.swap(
            f"compaction-{newer.partition}", SCHEDULE_KEY, b"\xff{}", expected=Expect.ANY
        )
        await staged(shell)
        assert len((await shell.poll()).assigned) == 1


async def test_all_parked_jobs_are_tried_again_as_if_they_had_never_failed() -> None:
    async with open_shell() as shell:
        await staged(shell)
        (given,) = (await shell.poll()).assigned

        def park(schedule: Schedule, update: str) -> Schedule:
            jobs = tuple(replace(job, state=JobState.PARKED, failures=9) for job in schedule.jobs)
            return replace(schedule, jobs=jobs, version=schedule.version + 1, update=update)

        await shell.service.jobs.change(shell.repo, park)
        assert await shell.service.retry(shell.repo) == 1
        (job,) = (await shell.schedule()).jobs
        assert (job.id, job.state, job.failures) == (given.job.id, JobState.QUEUED, 0)


async def test_repositories_take_turns() -> None:
    async with open_shell() as shell:
        engine = shell.wired.engine
        other = await shell.wired.catalog.repositories.create("another", "mem://another")
        await shell.wired.catalog.objects.upload("another", "main", "a", b"1")
        assert await engine.compaction.ask(other, MAIN) is not None
        for n in range(3):
            await shell.wired.catalog.branches.create("lake", f"b{n}", "main")
            await shell.put(f"b{n}", a="1")
            await shell.seal(f"b{n}")
        given = (await shell.poll(free=2)).assigned
        assert {each.repo.name for each in given} == {"lake", "another"}


async def test_a_backlog_of_many_branches_drains_by_the_places_there_are() -> None:
    async with open_shell() as shell:
        for n in range(40):
            await shell.wired.catalog.branches.create("lake", f"b{n}", "main")
            for m in range(2):
                await shell.put(f"b{n}", **{f"p{m}": "1"})
                await shell.seal(f"b{n}")
        worker = shell.worker(places=3)
        rounds = 0
        while any([(await shell.branch(f"b{n}")).sealed for n in range(40)]):
            await worker.round()
            assert len((await shell.schedule()).jobs) <= 6
            await worker.idle()
            rounds += 1
            assert rounds < 40
        assert await shell.view("b39") == await shell.view("b0")
