"""A call that stages an object a client has uploaded, repeated: it takes effect once, whoever wrote in between.

The same cases for a link and for an upload in parts. What a repeat meets depends on where the first call ended: before
its entry was staged, or after, without an answer.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from lakebed.catalog.links import Linked
from lakebed.catalog.objects import Attributes
from lakebed.catalog.part_uploads import UploadOf
from lakebed.errors import ErrorKind, InvalidInputError, LakebedError, PreconditionError, UnavailableError
from lakebed.limits import CLAIM_SECONDS, GRACE_SECONDS
from lakebed.staging.conditions import Condition, IfAbsent
from lakebed.testing.lake import Lake
from tests.unit.gc.world import World, open_world

Complete = Callable[[Condition | None], Awaitable[object]]
REFUSED = (ErrorKind.LINK_REFUSED, ErrorKind.UPLOAD_NOT_FOUND)


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with open_world() as world:
        yield world


async def a_link(lake: Lake) -> Complete:
    issued = await lake.catalog.links.issue("lake", "main", "a")
    store = await lake.engine.store_of(lake.repo)
    await store.put(issued.address.removeprefix(f"{lake.repo.namespace}/"), b"mine")
    linked = Linked(address=issued.address, checksum="c", size_bytes=4, content_type="")
    return lambda condition: lake.catalog.links.link("lake", "main", "a", linked, condition=condition)


async def an_upload(lake: Lake) -> Complete:
    uploads = lake.catalog.part_uploads
    begun = await uploads.begin("lake", "main", "a", Attributes())
    of = UploadOf(repo_name="lake", branch="main", path="a", id=begun.id)
    part = await uploads.put(of, 1, pieces(b"mine"), size_bytes=4)
    return lambda condition: uploads.complete(of, [(1, part.md5)], condition=condition)


async def pieces(data: bytes) -> AsyncIterator[bytes]:
    yield data


@pytest.fixture(params=[a_link, an_upload], ids=["link", "upload"])
async def complete(request: pytest.FixtureRequest, world: World) -> Complete:
    made: Complete = await request.param(world.lake)
    return made


def unanswered(lake: Lake, patch: pytest.MonkeyPatch, *, staged: bool) -> None:
    """Let the next write end without an answer, staged or not."""
    staging = lake.engine.parts.staging
    write = staging.write

    async def without_answer(*args: Any, **options: Any) -> None:
        patch.setattr(staging, "write", write)
        if staged:
            await write(*args, **options)
        raise UnavailableError(ErrorKind.OUTCOME_UNKNOWN, "no answer")

    patch.setattr(staging, "write", without_answer)


async def ended_without_answer(
    lake: Lake, complete: Complete, patch: pytest.MonkeyPatch, *, staged: bool
) -> None:
    unanswered(lake, patch, staged=staged)
    with pytest.raises(UnavailableError):
        await complete(None)


@pytest.mark.parametrize("condition", [None, IfAbsent()], ids=["always", "if absent"])
@pytest.mark.parametrize("staged", [True, False], ids=["staged", "not staged"])
async def test_a_repeat_never_erases_what_was_written_since(
    world: World,
    complete: Complete,
    monkeypatch: pytest.MonkeyPatch,
    staged: bool,
    condition: Condition | None,
) -> None:
    await ended_without_answer(world.lake, complete, monkeypatch, staged=staged)
    await world.lake.put("main", a="theirs")

    with pytest.raises(UnavailableError, match="repeat this one in a few seconds"):
        await complete(condition)
    world.clock.advance(CLAIM_SECONDS + 1)
    with pytest.raises(LakebedError, match="does not show it") as refused:
        await complete(condition)

    assert refused.value.kind in REFUSED
    assert await world.lake.show("main") == {"a": "theirs"}


async def test_a_repeat_never_brings_back_what_was_deleted_since(
    world: World, complete: Complete, monkeypatch: pytest.MonkeyPatch
) -> None:
    await ended_without_answer(world.lake, complete, monkeypatch, staged=True)
    await world.lake.catalog.objects.delete("lake", "main", ["a"])
    world.clock.advance(CLAIM_SECONDS + 1)

    with pytest.raises(LakebedError, match=r"upload the object again|send the parts again"):
        await complete(None)

    assert await world.lake.show("main") == {}


@pytest.mark.parametrize("condition", [None, IfAbsent()], ids=["always", "if absent"])
async def test_a_repeat_of_what_stands_is_the_same_success_committed_or_not(
    world: World, complete: Complete, monkeypatch: pytest.MonkeyPatch, condition: Condition | None
) -> None:
    await ended_without_answer(world.lake, complete, monkeypatch, staged=True)

    first = await complete(condition)
    await world.lake.commit("main", b="more")

    assert await complete(condition) == first
    assert await world.lake.show("main") == {"a": "mine", "b": "more"}


@pytest.fixture(params=[a_link, an_upload], ids=["link", "upload"])
async def twice(request: pytest.FixtureRequest, world: World) -> tuple[Complete, Complete]:
    """Two calls that stage equal objects at one path."""
    return await request.param(world.lake), await request.param(world.lake)


async def test_a_repeat_succeeds_if_a_commit_has_kept_what_is_alike(
    world: World, twice: tuple[Complete, Complete], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = twice
    await first(None)
    await world.lake.commit("main")
    committed = await world.lake.catalog.objects.stat("lake", "main", "a")
    await ended_without_answer(world.lake, second, monkeypatch, staged=True)
    await world.lake.commit("main", b="more")

    await second(None)

    assert await world.lake.catalog.objects.stat("lake", "main", "a") == committed


async def test_a_call_that_dies_before_it_stages_is_not_done_by_its_repeat(
    world: World, complete: Complete, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def dies(*_args: Any, **_options: Any) -> None:
        raise ZeroDivisionError

    with monkeypatch.context() as patch:
        patch.setattr(world.lake.engine.parts.staging, "write", dies)
        with pytest.raises(ZeroDivisionError):
            await complete(None)

    world.clock.advance(CLAIM_SECONDS + 1)
    with pytest.raises(LakebedError, match="does not show it"):
        await complete(None)
    # The collector may not meet the call in between, however long it takes to stage.
    world.clock.advance(GRACE_SECONDS)
    assert len(await world.uncommitted()) == 1


@pytest.mark.parametrize(
    "error",
    [
        UnavailableError(ErrorKind.TOO_MANY_LAYERS, "wait"),
        UnavailableError(ErrorKind.STORE_UNAVAILABLE, "no connection"),
        PreconditionError(ErrorKind.CONDITION_FAILED, "exists"),
        InvalidInputError(ErrorKind.INVALID_ARGUMENT, "cannot be stored"),
    ],
    ids=lambda error: error.kind.value,
)
async def test_a_call_that_was_refused_for_certain_can_be_repeated(
    world: World, complete: Complete, monkeypatch: pytest.MonkeyPatch, error: LakebedError
) -> None:
    async def refuses(*_args: Any, **_options: Any) -> None:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(world.lake.engine.parts.staging, "write", refuses)
        with pytest.raises(type(error)):
            await complete(None)
    await world.lake.put("main", a="theirs")

    await complete(None)

    assert await world.lake.show("main") == {"a": "mine"}


async def test_two_calls_at_once_stage_one_entry(
    world: World, complete: Complete, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second call arrives while the first is staging."""
    staging = world.lake.engine.parts.staging
    write, staged = staging.write, 0

    async def with_company(*args: Any, **options: Any) -> None:
        nonlocal staged
        staged += 1
        with pytest.raises(UnavailableError, match="by an earlier call"):
            await complete(None)
        await write(*args, **options)

    monkeypatch.setattr(staging, "write", with_company)

    await complete(None)

    assert staged == 1
    assert await world.lake.show("main") == {"a": "mine"}


async def test_an_upload_whose_parts_are_fixed_is_completed_with_those_parts_only(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store has made the object of the first list: an entry of another list would describe other bytes."""
    lake = world.lake
    uploads, store = lake.catalog.part_uploads, await lake.engine.store_of(lake.repo)
    begun = await uploads.begin("lake", "main", "a", Attributes())
    of = UploadOf(repo_name="lake", branch="main", path="a", id=begun.id)
    parts = [(n, (await uploads.put(of, n, pieces(data), size_bytes=4)).md5) for n, data in PARTS.items()]
    complete_upload = store.complete_upload

    async def dies_after(*args: Any) -> None:
        await complete_upload(*args)
        raise ZeroDivisionError

    with monkeypatch.context() as patch:
        patch.setattr(store, "complete_upload", dies_after)
        with pytest.raises(ZeroDivisionError):
            await uploads.complete(of, parts[:1])

    with pytest.raises(InvalidInputError, match="other parts"):
        await uploads.complete(of, parts[1:])
    assert await lake.show("main") == {}
    await uploads.complete(of, parts[:1])
    entry = await lake.catalog.objects.stat("lake", "main", "a")
    assert (await lake.show("main"), entry.size_bytes) == ({"a": "one."}, 4)


async def test_an_upload_whose_parts_the_store_refuses_takes_other_parts(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = world.lake
    uploads, store = lake.catalog.part_uploads, await lake.engine.store_of(lake.repo)
    begun = await uploads.begin("lake", "main", "a", Attributes())
    of = UploadOf(repo_name="lake", branch="main", path="a", id=begun.id)
    parts = [(n, (await uploads.put(of, n, pieces(data), size_bytes=4)).md5) for n, data in PARTS.items()]

    async def refuses(*_args: Any) -> None:
        raise InvalidInputError(ErrorKind.INVALID_PART, "no such part")

    with monkeypatch.context() as patch:
        patch.setattr(store, "complete_upload", refuses)
        with pytest.raises(InvalidInputError, match="no such part"):
            await uploads.complete(of, parts[:1])

    await uploads.complete(of, parts[1:])
    assert await lake.show("main") == {"a": "two."}


async def test_an_upload_that_is_half_completed_can_be_aborted(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = world.lake
    uploads, store = lake.catalog.part_uploads, await lake.engine.store_of(lake.repo)
    begun = await uploads.begin("lake", "main", "a", Attributes())
    of = UploadOf(repo_name="lake", branch="main", path="a", id=begun.id)
    part = await uploads.put(of, 1, pieces(b"one."), size_bytes=4)

    async def unavailable(*_args: Any) -> None:
        raise UnavailableError(ErrorKind.STORE_UNAVAILABLE, "no connection")

    with monkeypatch.context() as patch:
        patch.setattr(store, "complete_upload", unavailable)
        with pytest.raises(UnavailableError):
            await uploads.complete(of, [(1, part.md5)])
    assert [upload.id for upload in await uploads.under_way("lake")] == [of.id]

    await uploads.abort(of)

    assert await uploads.under_way("lake") == []
    assert await world.uncommitted() == {}


PARTS = {1: b"one.", 2: b"two."}
