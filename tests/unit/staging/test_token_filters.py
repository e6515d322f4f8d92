"""Sealed tokens are asked for a path only if they may hold it, once their keys are known; nothing else changes."""

from collections.abc import Sequence

import pytest

from lakebed.env.work import InlineWorkers
from lakebed.errors import NotFoundError
from lakebed.format.bloom import key_hash
from lakebed.format.rows import OPEN_KEY, OPEN_VALUE, row_key
from lakebed.kv.drivers.memory import MemoryKV
from lakebed.kv.port import Item, Row
from lakebed.model.branch import Branch
from lakebed.model.ids import BranchName, StagingToken, parse_path
from lakebed.staging import token_filters
from lakebed.staging.record import seal
from lakebed.staging.sieve import FEW_LAYERS
from lakebed.staging.token_filters import TokenFilters
from lakebed.testing.lake import Lake, open_lake, open_wired

MAIN = BranchName("main")
TOKEN = StagingToken("lake-main:t")
LAYERS = FEW_LAYERS + 3


class Counting(MemoryKV):
    """Counts the keys of point reads."""

    asked = 0

    async def get_many(self, lookups: Sequence[tuple[str, bytes]]) -> list[Item | None]:
        self.asked += len(lookups)
        return await super().get_many(lookups)


async def rows(kv: MemoryKV, *paths: str) -> None:
    await kv.set_rows(TOKEN, [Row(OPEN_KEY, OPEN_VALUE), *(Row(row_key(path), b"") for path in paths)])


async def test_a_filter_knows_every_row_of_its_token() -> None:
    kv = MemoryKV()
    paths = [f"é/{n}" for n in range(5_000)]
    await rows(kv, *paths)
    filters = TokenFilters(kv, InlineWorkers())
    assert filters.find(TOKEN) is None

    await filters.learn(TOKEN)

    bloom = filters.find(TOKEN)
    assert bloom is not None
    assert all(bloom.may_hold(key_hash(path)) for path in paths)
    assert not all(bloom.may_hold(key_hash(f"other {n}")) for n in range(5))


@pytest.mark.parametrize("is_open", [True, False], ids=["too many rows", "dropped"])
async def test_a_token_that_is_too_large_or_being_dropped_has_none(
    is_open: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    kv = MemoryKV()
    await rows(kv, "a", "b", "c")
    if is_open:
        monkeypatch.setattr(token_filters, "TOKEN_FILTER_ROWS_MAX", 2)
    else:
        await kv.delete_rows(TOKEN, [OPEN_KEY])
    filters = TokenFilters(kv, InlineWorkers())
    await filters.learn(TOKEN)
    assert filters.find(TOKEN) is None


async def piled_up(lake: Lake) -> Branch:
    for number in range(LAYERS):
        await lake.put("main", **{f"p{number}": str(number)})
        await lake.engine.parts.branches.update(
            lake.repo, MAIN, lambda branch, _now: seal(branch), landed=lambda _branch: False
        )
    return (await lake.engine.parts.branches.get(lake.repo, MAIN)).value


async def test_a_missing_path_costs_no_read_of_tokens_whose_keys_are_known() -> None:
    kv = Counting()
    async with open_lake(kv) as lake:
        reader, branch = lake.engine.parts.staging.reader, await piled_up(lake)

        async def cost(path: str) -> int:
            before = kv.asked
            await reader.lookup(lake.repo, branch, parse_path(path))
            return kv.asked - before

        for _ in range(20):
            assert await cost("nothing") == 2 * LAYERS
        await reader.learn(branch)
        assert await cost("nothing") == 0
        assert await cost("p3") == 2
        shown = {path: str(number) for number, path in enumerate(f"p{n}" for n in range(LAYERS))}
        assert await lake.show("main") == shown

        await lake.put("main", p3="newer", nothing="something")
        assert await lake.show("main") == {**shown, "p3": "newer", "nothing": "something"}


async def test_a_server_learns_the_tokens_of_branches_that_are_read() -> None:
    kv = Counting()
    async with open_wired(kv) as (wired, _):
        repo = await wired.catalog.repositories.create("lake", "mem://lake")
        await piled_up(Lake(kv, wired.engine, wired.catalog, wired.cleaner, repo))

        async def cost() -> int:
            before = kv.asked
            with pytest.raises(NotFoundError):
                await wired.catalog.objects.stat("lake", "main", "nothing")
            return kv.asked - before

        costs = [await cost() for _ in range(10)]
        await wired.read_ahead.once()
        assert (costs[-1], await cost()) == (2 + 2 * LAYERS, 2)
