"""A job whose result could no longer be installed stops before it has cost what the work costs."""

import asyncio
from dataclasses import replace

import pytest
from tests.unit.compaction.shell import LIMITS, Shell, open_shell, settle
from tests.unit.compaction.test_service import nth, staged

from lakebed.compaction.limits import CompactionLimits
from lakebed.compaction.service import Assignment
from lakebed.compaction.store import Attempt
from lakebed.env.clock import after
from lakebed.errors import ConflictError
from lakebed.kv.wrappers.faults import Delay, Operation
from lakebed.model.ids import Nonce
from lakebed.model.layers import layer_name
from lakebed.staging.record import begin

KINDS = {"l2": LIMITS, "fold": replace(LIMITS, l2_layers=99, fold_layers=2)}


async def begun(shell: Shell) -> tuple[Assignment, asyncio.Task[object]]:
    """Begin a job, and let it come as far as its first look into a layer."""
    await staged(shell)
    (given,) = (await shell.poll()).assigned
    await hold_up_the_first_look(shell)
    running = asyncio.create_task(shell.runner.run(given.repo, given.job))
    await settle()
    assert not running.done()
    return given, running


async def hold_up_the_first_look(shell: Shell) -> None:
    tokens = {layer_name(layer) for layer in (await shell.branch()).sealed}
    shell.faults.plan = nth(
        0, lambda call: call.operation is Operation.SCAN and call.partition in tokens, Delay(2.0)
    )


async def files(shell: Shell) -> set[str]:
    store = await shell.wired.engine.store_of(shell.repo)
    return {info.key async for infos in store.list("_lakebed/") for info in infos}


@pytest.mark.parametrize("limits", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize("change", ["commit", "reset", "begin", "claim"])
async def test_a_job_stops_when_the_branch_moves_under_it(limits: CompactionLimits, change: str) -> None:
    async with open_shell(limits=limits) as shell:
        given, running = await begun(shell)
        match change:
            case "commit":
                await shell.commit()
            case "reset":
                await shell.wired.catalog.branches.reset("lake", "main")
            case "begin":
                await pending(shell)
            case _:
                await claimed_again(shell, given.attempt)
        before = await files(shell)
        await shell.clock.advance(3)
        with pytest.raises(ConflictError, match="in vain"):
            await running
        assert await files(shell) == before


async def test_a_job_that_stopped_for_a_commit_is_over_at_the_next_poll_and_no_failure() -> None:
    async with open_shell() as shell:
        await staged(shell)
        worker = shell.worker()
        await worker.round()
        await hold_up_the_first_look(shell)
        await settle()
        await shell.commit()
        await shell.clock.advance(3)
        await worker.idle()
        (job,) = (await shell.schedule()).jobs
        assert job.failures == 0
        await worker.round()
        await worker.round()
        assert (await shell.schedule()).jobs == ()


async def pending(shell: Shell) -> None:
    """Begin an operation on HEAD, as a commit does that takes long."""
    await shell.wired.engine.parts.branches.update(
        shell.repo,
        (await shell.branch()).name,
        lambda branch, now: begin(branch, Nonce("operation"), (branch.commit_id,), now),
        landed=lambda branch: Nonce("operation") in branch.pending,
    )


async def claimed_again(shell: Shell, attempt: Attempt) -> None:
    """Let the lease run out, and another worker take the job."""
    job, token = attempt
    await shell.service.jobs.change(
        shell.repo,
        lambda schedule, update: replace(
            schedule,
            jobs=tuple(replace(each, lease_expires_at=after(each.added_at, -1)) for each in schedule.jobs),
            version=schedule.version + 1,
            update=update,
        ),
    )
    (again,) = (await shell.poll()).assigned
    assert again.attempt[0] == job
    assert again.attempt[1] > token
