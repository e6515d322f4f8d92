"""The epoch: after a restore, no token of before is given out again."""

from dataclasses import replace

from tests.unit.compaction.shell import open_shell
from tests.unit.compaction.test_service import staged

from lakebed.compaction.keys import SCHEDULE_KEY
from lakebed.compaction.update import next_epoch
from lakebed.kv.port import Expect
from lakebed.model.compaction import Schedule
from lakebed.refs.keys import branch_key, compaction_partition


async def test_tokens_after_a_restore_are_above_all_that_were_given_out_before_it() -> None:
    async with open_shell() as shell:
        await staged(shell)
        kv, repo = shell.wired.engine.parts.kv, shell.repo
        places = [
            (compaction_partition(repo.partition), SCHEDULE_KEY),
            (repo.partition, branch_key((await shell.branch()).name)),
        ]
        await shell.service.pause(repo, is_paused=False)
        copy = [await kv.get(*place) for place in places]
        (before,) = (await shell.poll()).assigned
        for place, item in zip(places, copy, strict=True):
            assert item is not None or place == places[0]
            if item is not None:
                await kv.swap(*place, item.value, expected=Expect.ANY)
        await shell.service.raise_epoch(repo)
        await shell.clock.advance(20)
        (after,) = (await shell.poll()).assigned
        assert after.job.id == before.job.id
        assert after.job.token > before.job.token


def test_of_two_restores_of_one_copy_the_later_has_the_greater_epoch() -> None:
    copy = Schedule(epoch=3)
    first, second = (next_epoch(copy, era=era, update="u").epoch for era in (500_000, 500_001))
    assert copy.epoch < first < second
    assert next_epoch(replace(copy, epoch=first), era=500_000, update="u").epoch > first
