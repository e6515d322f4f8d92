"""The survey: a poll gets a bounded number of branches, the worst ones always, and every one in turn."""

import pytest
from tests.unit.compaction.shell import Shell, open_shell

from lakebed.compaction import survey as module
from lakebed.compaction.survey import Survey

BRANCHES = [f"b{n}" for n in range(6)]


async def surveyed(shell: Shell) -> Survey:
    """Six branches with something staged; `b3` has layers."""
    for name in BRANCHES:
        await shell.wired.catalog.branches.create("lake", name, "main")
        await shell.put(name, a=name)
    await shell.seal("b3")
    survey = Survey(shell.wired.engine.parts.kv, shell.repo.partition, clock=shell.clock)
    await survey.refresh()
    return survey


async def test_few_branches_are_all_chosen_and_those_without_changes_never() -> None:
    async with open_shell() as shell:
        survey = await surveyed(shell)
        assert set(survey.choose(10)) == set(BRANCHES)
        assert (survey.layers, survey.layers_max) == (1, 1)


async def test_of_many_the_worst_is_always_chosen_and_the_others_in_turn() -> None:
    async with open_shell() as shell:
        survey = await surveyed(shell)
        choices = [set(survey.choose(2)) for _ in range(5)]
        assert all("b3" in choice and len(choice) == 2 for choice in choices)
        assert set().union(*choices) == set(BRANCHES)


async def test_only_records_that_changed_are_decoded_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_shell() as shell:
        survey = await surveyed(shell)
        decode, decoded = module.decode_branch, list[str]()

        def counted(data: bytes) -> object:
            record = decode(data)
            decoded.append(record.name)
            return record

        monkeypatch.setattr(module, "decode_branch", counted)
        await survey.refresh()
        assert decoded == []
        await shell.seal("b1")
        await survey.refresh()
        assert decoded == ["b1"]
        assert survey.layers == 2
