"""Requests that stage segments, repeated after the branch record has forgotten them: each is staged once."""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

import pytest

from lakebed.catalog.segment_calls import SegmentCalls
from lakebed.errors import ErrorKind, UnavailableError
from lakebed.kv.port import prefix_end
from lakebed.limits import GRACE_SECONDS, SEGMENT_CALL_SECONDS
from lakebed.refs.keys import SEGMENT_CALL_TIMES_PREFIX, SEGMENT_CALLS_PREFIX
from lakebed.testing.asgi import Answer
from lakebed.testing.rest import Rest, open_rest
from tests.api.later import Later
from tests.api.test_segments import ID, deletions, hand_in, layers, segment_files


@dataclass
class World:
    """A branch whose object `a` is deleted by a segment, and then written again by somebody else."""

    rest: Rest
    clock: Later

    async def hand_in(self) -> Answer:
        return await hand_in(self.rest.admin, deletions("a"), id=ID)

    async def overwrite_and_forget(self) -> None:
        """Write `a` above the segment, commit, and let the branch record forget the layer."""
        await self.rest.lake.commit("main", a="again")
        await self.forget()
        assert await layers(self.rest) == ()

    async def forget(self) -> None:
        self.clock.ahead += GRACE_SECONDS + 1
        await self.rest.lake.cleaner.clean_once()

    async def shown(self) -> dict[str, str]:
        return await self.rest.lake.show("main")

    async def sweep(self) -> int:
        return await SegmentCalls(self.rest.lake.engine).sweep(self.rest.lake.repo)

    async def keys(self) -> list[bytes]:
        lake = self.rest.lake
        return [
            key
            for prefix in (SEGMENT_CALLS_PREFIX, SEGMENT_CALL_TIMES_PREFIX)
            async for page in lake.kv.scan(lake.repo.partition, start=prefix, end=prefix_end(prefix))
            for key in page.keys
        ]


@pytest.fixture
async def world() -> AsyncIterator[World]:
    clock = Later()
    async with open_rest(clock=clock) as rest:
        await rest.lake.commit("main", a="first")
        yield World(rest, clock)


def failing_once(honest: Callable[..., Any], *, after: bool) -> Callable[..., Any]:
    """The same, but that the first call fails, before or after it has done its work."""
    calls = iter([True])

    async def call(*args: Any, **kwargs: Any) -> Any:
        if not next(calls, False):
            return await honest(*args, **kwargs)
        if after:
            await honest(*args, **kwargs)
        raise UnavailableError(ErrorKind.OUTCOME_UNKNOWN, "no answer")

    return call


async def test_a_repeat_long_after_the_branch_forgot_the_segment_gives_the_same_answer(world: World) -> None:
    first = await world.hand_in()
    await world.overwrite_and_forget()

    again = await world.hand_in()

    assert (again.status, again.json()) == (first.status, first.json()) == (201, first.json())
    assert await world.shown() == {"a": "again"}
    assert await layers(world.rest) == ()


async def test_a_request_whose_mark_was_lost_is_marked_by_a_repeat(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SegmentCalls, "mark", failing_once(SegmentCalls.mark, after=False))
    first = await world.hand_in()
    assert (first.status, (await world.hand_in()).json()) == (201, first.json())
    await world.overwrite_and_forget()

    assert (await world.hand_in()).json() == first.json()
    assert await world.shown() == {"a": "again"}


async def test_a_late_repeat_of_a_request_without_a_mark_is_refused(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SegmentCalls, "mark", failing_once(SegmentCalls.mark, after=False))
    assert (await world.hand_in()).status == 201
    await world.overwrite_and_forget()

    late = await world.hand_in()

    assert (late.status, "under a new id" in late.detail) == (409, True)
    assert await world.shown() == {"a": "again"}


@pytest.mark.parametrize("after", [False, True])
async def test_a_request_that_broke_off_while_it_staged_is_staged_once_by_a_repeat(
    world: World, monkeypatch: pytest.MonkeyPatch, after: bool
) -> None:
    staging = world.rest.lake.engine.parts.staging
    monkeypatch.setattr(staging, "hand_in", failing_once(staging.hand_in, after=after))
    assert (await world.hand_in()).status == 503

    assert (await world.hand_in()).status == 201
    assert len(await layers(world.rest)) == 1
    assert await world.shown() == {}


async def test_a_request_that_broke_off_before_it_staged_is_not_staged_half_a_grace_later(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    staging = world.rest.lake.engine.parts.staging
    monkeypatch.setattr(staging, "hand_in", failing_once(staging.hand_in, after=False))
    assert (await world.hand_in()).status == 503
    world.clock.ahead += GRACE_SECONDS / 2 + 1

    assert (await world.hand_in()).status == 409
    assert await segment_files(world.rest) == []


async def test_a_request_that_stood_still_while_its_repeat_was_staged_and_forgotten_stages_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    staging = world.rest.lake.engine.parts.staging
    honest, stands, goes_on = staging.hand_in, asyncio.Event(), asyncio.Event()

    async def slow(*args: Any, **kwargs: Any) -> Any:
        if not stands.is_set():
            stands.set()
            await goes_on.wait()
        return await honest(*args, **kwargs)

    monkeypatch.setattr(staging, "hand_in", slow)
    frozen = asyncio.create_task(world.hand_in())
    await stands.wait()
    # Its place in the queue for checks belongs to it while it stands still.
    monkeypatch.setattr(world.rest.lake.engine.spool, "gate", asyncio.Semaphore(1))
    assert (await world.hand_in()).status == 201
    await world.overwrite_and_forget()
    goes_on.set()

    assert (await frozen).status == 409
    assert await world.shown() == {"a": "again"}


async def test_a_branch_that_was_created_again_takes_the_same_request(world: World) -> None:
    branches = world.rest.lake.catalog.branches
    for _ in range(2):
        await branches.create("lake", "dev", "main")
        await world.rest.admin(
            "POST", "/repositories/lake/branches/dev/staging/segments", query={"id": ID}, body=deletions("a")
        )
        assert await world.rest.lake.show("dev") == {}
        await branches.delete("lake", "dev")


async def test_a_request_is_forgotten_a_day_later_and_leaves_nothing(world: World) -> None:
    assert (await world.hand_in()).status == 201
    world.clock.ahead += SEGMENT_CALL_SECONDS - 60
    assert (await hand_in(world.rest.admin, deletions("b"), id=ID)).status == 201
    assert await world.sweep() == 0
    assert len(await world.keys()) == 4

    world.clock.ahead += 120
    assert await world.sweep() == 1
    assert len(await world.keys()) == 2

    world.clock.ahead += SEGMENT_CALL_SECONDS
    assert await world.sweep() == 1
    assert await world.keys() == []


async def test_a_request_without_an_id_leaves_no_record(world: World) -> None:
    assert (await hand_in(world.rest.admin, deletions("a"))).status == 201
    assert await world.keys() == []
