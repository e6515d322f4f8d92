"""Which staging tokens are looked into, when there are too many for one poll."""

import pytest
from tests.unit.compaction.shell import LIMITS, open_shell

from lakebed.compaction import sealer


async def test_nobody_is_passed_over_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sealer, "COMPACTION_LOOK_SECONDS", 0.0)
    async with open_shell() as shell:
        await shell.wired.catalog.branches.create("lake", "zoo", "main")
        await shell.put("main", a="never enough")
        await shell.put("zoo", **{f"a{n}": "x" for n in range(LIMITS.seal_quiet_rows)})
        for _ in range(6):
            await shell.poll(free=0)
            await shell.clock.advance(LIMITS.seal_quiet_seconds)
        assert len((await shell.branch("zoo")).sealed) == 1
