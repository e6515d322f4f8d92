"""Folds end to end: adjacent layers become one segment that readers, trees and commits take for the layers it was."""

from dataclasses import replace

import pytest
from tests.unit.compaction.shell import LIMITS, Shell, open_shell

from lakebed.compaction.scheduler import Status
from lakebed.model.compaction import JobKind
from lakebed.model.layers import SegmentLayer

FOLDING = replace(LIMITS, l2_layers=99, fold_layers=3, fold_layers_max=4)


async def layered(shell: Shell) -> None:
    """Three layers over a commit, with paths overwritten, deleted and put back between them."""
    await shell.put(**{f"p{n}": "old" for n in range(9)})
    await shell.commit()
    await shell.delete("p1", "p2")
    await shell.put(new="1")
    await shell.seal()
    await shell.put(p1="back", p3="changed")
    await shell.seal()
    await shell.delete("new", "p4")
    await shell.seal()


async def test_a_fold_changes_nothing_that_anyone_sees() -> None:
    async with open_shell(limits=FOLDING) as shell:
        await layered(shell)
        view, diff = await shell.view(), await shell.diff()
        await shell.compact()
        (layer,) = (await shell.branch()).sealed
        assert isinstance(layer, SegmentLayer)
        assert (layer.level, layer.entries, layer.tombstones) == (1, 2, 3)
        assert await shell.view() == view
        assert await shell.diff() == diff


@pytest.mark.parametrize("through_the_tree", [True, False])
async def test_what_was_folded_is_committed_like_any_layer(through_the_tree: bool) -> None:
    async with open_shell(limits=FOLDING) as shell:
        await layered(shell)
        view = await shell.view()
        await shell.compact()
        if through_the_tree:
            assert await shell.service.ask(shell.repo, (await shell.branch()).name) is not None
            await shell.compact()
            assert (await shell.branch()).compacted is not None
        await shell.commit()
        assert await shell.view() == view
        assert await shell.diff() == []


async def test_a_fold_that_was_replaced_installs_nothing() -> None:
    async with open_shell(limits=FOLDING) as shell:
        await layered(shell)
        (old,) = (await shell.poll()).assigned
        assert old.job.spec.kind is JobKind.FOLD
        made = await shell.runner.run(old.repo, old.job)
        await shell.clock.advance(FOLDING.lease_seconds + 1)
        await shell.poll()
        before = await shell.branch()
        assert await shell.service.install(old.repo, old.job, made.output) is Status.RELEASED
        assert await shell.branch() == before
