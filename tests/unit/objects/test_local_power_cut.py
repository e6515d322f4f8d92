"""A power cut takes nothing that was acknowledged, and every sync is needed for that."""

from itertools import count
from pathlib import Path

import pytest
from tests.unit.objects.power import Scenario, broken_promises, die, lucks, open_root

from lakebed.objects.local.disk import Sync
from lakebed.testing.fake_disk import ForgetfulDisk, PowerCutError

SEEDS = 4


async def losses(tmp_path: Path, *, ignored: Sync | None) -> list[str]:
    """Cut the power after each acknowledged step, with every kind of luck; return what was lost first."""
    base = tmp_path / "base"
    base.mkdir()
    disk = ForgetfulDisk(base, ignored=ignored)
    scenario = Scenario(base, disk)
    numbers = count()
    async for name in scenario.run():
        for luck in lucks(SEEDS):
            after = tmp_path / f"after-{next(numbers)}"
            left = disk.cut(after, luck=luck)
            broken = await broken_promises(after, left, scenario.promises)
            if broken:
                die(scenario.store)
                return [f"after {name!r}: {text}" for text in broken]
    await scenario.store.close()
    return []


async def test_nothing_acknowledged_is_lost(tmp_path: Path) -> None:
    assert await losses(tmp_path, ignored=None) == []


async def losses_of_two_cuts(tmp_path: Path, *, ignored: Sync | None) -> list[str]:
    """Cut the power, and again at every moment while the folder is opened after that."""
    base = tmp_path / "base"
    base.mkdir()
    disk = ForgetfulDisk(base, ignored=ignored, failing=Sync.CHECKPOINT)
    scenario = Scenario(base, disk)
    await scenario.run_again_and_again()
    die(scenario.store)
    scenario.promises.pending["another"] = b"1"
    for moment in count(1):
        once = tmp_path / f"once-{moment}"
        opening = disk.cut(once, stop_at=moment)
        store = open_root(once, opening)
        try:
            await store.put("another", b"1")
        except PowerCutError:
            die(store)
        else:
            die(store)
            return []
        for number, luck in enumerate(lucks(SEEDS)):
            twice = tmp_path / f"twice-{moment}-{number}"
            left = opening.cut(twice, luck=luck)
            broken = await broken_promises(twice, left, scenario.promises)
            if broken:
                return broken
    return []


async def test_a_second_power_cut_while_opening_takes_nothing_either(tmp_path: Path) -> None:
    assert await losses_of_two_cuts(tmp_path, ignored=None) == []


async def test_old_journals_that_come_back_in_part_would_undo_newer_changes(tmp_path: Path) -> None:
    assert await losses_of_two_cuts(tmp_path, ignored=Sync.JOURNAL_REMOVAL) != []


@pytest.mark.parametrize(
    "ignored", [sync for sync in Sync if sync is not Sync.JOURNAL_REMOVAL], ids=lambda sync: sync.name
)
async def test_without_any_one_sync_something_is_lost(tmp_path: Path, ignored: Sync) -> None:
    assert await losses(tmp_path, ignored=ignored) != []


@pytest.mark.parametrize("lucky", range(3))
async def test_the_power_may_go_out_at_any_moment(tmp_path: Path, lucky: int) -> None:
    for moment in count(1 + lucky, 3):
        base = tmp_path / f"base-{moment}"
        base.mkdir()
        disk = ForgetfulDisk(base, stop_at=moment)
        scenario = Scenario(base, disk)
        try:
            async for _ in scenario.run():
                pass
        except PowerCutError:
            die(scenario.store)
        else:
            die(scenario.store)
            assert moment > 300, "the scenario has become too short to mean anything"
            return
        for number, luck in enumerate(lucks(2)):
            after = tmp_path / f"after-{moment}-{number}"
            assert await broken_promises(after, disk.cut(after, luck=luck), scenario.promises) == [], moment
