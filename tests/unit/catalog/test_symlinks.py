"""An export goes through one record of its branch, and what that record names stays until it is done."""

from typing import Any

import pytest

from lakebed.catalog import symlinks
from lakebed.refs.pins import oldest_pin
from lakebed.testing.lake import Lake, open_lake
from lakebed.versioning.view import View


async def pin_of(lake: Lake) -> int | None:
    return await oldest_pin(lake.kv, lake.repo.partition, await lake.kv.now())


async def test_an_export_holds_a_pin_from_before_it_reads_the_branch_to_its_last_page(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with open_lake() as lake:
        await lake.put("main", **{"t/a": "1", "t/b": "2", "u": "3"})
        pinned: list[bool] = []

        def watched(method: Any) -> Any:
            async def watch(*args: Any, **kwargs: Any) -> Any:
                pinned.append(await pin_of(lake) is not None)
                return await method(*args, **kwargs)

            return watch

        monkeypatch.setattr(symlinks, "LIST_PAGE_MAX", 1)
        monkeypatch.setattr(View, "list", watched(View.list))
        monkeypatch.setattr(View, "of", watched(View.of))
        await lake.catalog.symlinks.create("lake", "main", "t/")

        assert pinned == [True] * 3
        assert await pin_of(lake) is None
        store = await lake.engine.store_of(lake.repo)
        assert len((await store.get("_lakebed/symlinks/main/t/symlink.txt")).split()) == 2
