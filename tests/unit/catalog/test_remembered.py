"""What was found out for the last request counts for the next only as long as it still holds."""

from collections.abc import AsyncIterator, Awaitable

import pytest

from lakebed.errors import DeniedError, ErrorKind, NotFoundError
from lakebed.kv.drivers.memory import MemoryKV
from lakebed.testing.lake import Lake, open_lake


@pytest.fixture
async def lake() -> AsyncIterator[Lake]:
    """`main` has `a` committed, and everything about it was asked for once."""
    async with open_lake(MemoryKV()) as lake:
        await lake.commit("main", a="1")
        assert await lake.show("main") == {"a": "1"}
        yield lake


async def _fails(call: Awaitable[object], kind: ErrorKind) -> None:
    with pytest.raises((DeniedError, NotFoundError)) as raised:
        await call
    assert raised.value.kind is kind


async def test_a_write_a_commit_and_a_reset_are_seen_at_once(lake: Lake) -> None:
    await lake.put("main", b="2")
    assert await lake.show("main") == {"a": "1", "b": "2"}
    assert await lake.show("main@") == {"a": "1"}
    await lake.commit("main", c="3")
    assert await lake.show("main@") == {"a": "1", "b": "2", "c": "3"}
    await lake.put("main", a="changed")
    await lake.catalog.branches.reset("lake", "main")
    assert (await lake.show("main"))["a"] == "1"


async def test_a_branch_that_was_deleted_and_created_again_is_another(lake: Lake) -> None:
    await lake.catalog.branches.create("lake", "dev", "main")
    await lake.put("dev", only="here")
    assert "only" in await lake.show("dev")

    await lake.catalog.branches.delete("lake", "dev")
    await _fails(lake.catalog.objects.stat("lake", "dev", "a"), ErrorKind.REF_NOT_FOUND)
    await lake.catalog.branches.create("lake", "dev", "main")

    assert await lake.show("dev") == {"a": "1"}


async def test_a_repository_that_was_deleted_and_created_again_is_another(lake: Lake) -> None:
    await lake.catalog.repositories.delete("lake")
    await _fails(lake.catalog.objects.stat("lake", "main", "a"), ErrorKind.REPO_NOT_FOUND)
    await _fails(lake.catalog.objects.upload("lake", "main", "b", b"2"), ErrorKind.REPO_NOT_FOUND)

    await lake.catalog.repositories.create("lake", "mem://another")

    await _fails(lake.catalog.objects.stat("lake", "main", "a"), ErrorKind.OBJECT_NOT_FOUND)
    await lake.catalog.objects.upload("lake", "main", "b", b"2")
    assert await lake.show("main") == {"b": "2"}


async def test_protection_counts_from_the_moment_it_is_set_until_it_is_taken_away(lake: Lake) -> None:
    await lake.put("main", b="2")
    await lake.catalog.settings.add_protection("lake", "ma*")
    await _fails(lake.catalog.objects.upload("lake", "main", "c", b"3"), ErrorKind.PROTECTED_BRANCH)
    await lake.catalog.settings.remove_protection("lake", "ma*")
    await lake.put("main", c="3")
    assert set(await lake.show("main")) == {"a", "b", "c"}
