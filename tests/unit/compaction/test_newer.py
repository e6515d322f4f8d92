"""A job document that a newer lakebed has written: left alone, said once, and said to whoever asks."""

import pytest
from tests.unit.compaction.shell import Shell, open_shell
from tests.unit.compaction.test_service import staged

from lakebed.compaction.keys import SCHEDULE_KEY
from lakebed.errors import CorruptError, ErrorKind
from lakebed.format.compaction_records import encode_schedule
from lakebed.kv.port import Expect
from lakebed.model.compaction import Schedule
from lakebed.refs.keys import compaction_partition
from lakebed.staging.record import seal

NEWER = b"\x02" + encode_schedule(Schedule(last_token=9))[1:]


async def planned_by_a_newer_one(shell: Shell) -> None:
    partition = compaction_partition(shell.repo.partition)
    await shell.wired.engine.parts.kv.swap(partition, SCHEDULE_KEY, NEWER, expected=Expect.ANY)


async def test_a_repository_that_a_newer_lakebed_plans_is_left_alone_and_others_are_not(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async with open_shell() as shell:
        await staged(shell)
        await planned_by_a_newer_one(shell)
        other = await shell.wired.catalog.repositories.create("other", "mem://other")
        await shell.wired.catalog.objects.upload("other", "main", "a", b"x")
        branch = (await shell.branch()).name
        await shell.wired.engine.parts.branches.update(
            other, branch, lambda b, _: seal(b), landed=lambda b: b.staging_token is None
        )
        before, view = await shell.branch(), await shell.view()
        for _ in range(3):
            await shell.compact()
        assert await shell.branch() == before
        assert await shell.view() == view
        assert (await shell.wired.engine.parts.branches.get(other, branch)).value.sealed == ()
        item = await shell.wired.engine.parts.kv.get(compaction_partition(shell.repo.partition), SCHEDULE_KEY)
        assert item is not None
        assert item.value == NEWER
        assert capsys.readouterr().out.count("upgrade lakebed") == 1


async def test_whoever_asks_is_told_to_upgrade() -> None:
    async with open_shell() as shell:
        await planned_by_a_newer_one(shell)
        compaction = shell.wired.catalog.compaction
        for ask in (
            lambda: compaction.status("lake"),
            lambda: compaction.pause("lake", is_paused=True),
            lambda: compaction.retry("lake", None),
            lambda: compaction.raise_epoch("lake"),
        ):
            with pytest.raises(CorruptError, match="upgrade lakebed") as caught:
                await ask()
            assert caught.value.kind is ErrorKind.NEWER_VERSION


async def test_a_commit_does_not_mind_who_plans() -> None:
    async with open_shell() as shell:
        await staged(shell)
        await planned_by_a_newer_one(shell)
        view = await shell.view()
        await shell.commit()
        assert await shell.view() == view
