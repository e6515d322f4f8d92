import pytest

from lakebed.errors import ConflictError, ErrorKind, InvalidInputError, UnavailableError
from lakebed.limits import METADATA_BYTES_MAX
from lakebed.model.repository import Repository
from tests.unit.refs.world import Call, Fault, World


async def test_keys_are_set_replaced_and_deleted_and_others_stay(world: World, repo: Repository) -> None:
    assert await world.metadata.get(repo) == {}
    await world.metadata.set(repo, {"a": "1", "b": "2"})
    await world.metadata.set(repo, {"b": "3", "c": ""})
    assert await world.metadata.get(repo) == {"a": "1", "b": "3", "c": ""}
    await world.metadata.delete(repo, ["a", "missing"])
    assert await world.metadata.get(repo) == {"b": "3", "c": ""}


async def test_nothing_is_written_if_nothing_changes(world: World, repo: Repository) -> None:
    async def never(_call: Call) -> Fault:
        return Fault.REFUSED

    world.kv.hook = never
    await world.metadata.delete(repo, ["missing"])
    with pytest.raises(UnavailableError):
        await world.metadata.set(repo, {"a": "1"})


async def test_two_writers_of_different_keys_both_succeed(world: World, repo: Repository) -> None:
    async def rival(_call: Call) -> None:
        world.kv.hook = None
        await world.metadata.set(repo, {"theirs": "1"})

    world.kv.hook = rival
    await world.metadata.set(repo, {"mine": "1"})
    assert await world.metadata.get(repo) == {"mine": "1", "theirs": "1"}


@pytest.mark.parametrize("fault", [Fault.LOST_REPLY, Fault.LOST_REQUEST])
async def test_metadata_is_set_whatever_gets_lost(world: World, repo: Repository, fault: Fault) -> None:
    async def once(_call: Call) -> Fault:
        world.kv.hook = None
        return fault

    world.kv.hook = once
    await world.metadata.set(repo, {"a": "1"})
    assert await world.metadata.get(repo) == {"a": "1"}


async def test_a_write_that_may_have_been_overwritten_is_unknown_and_not_repeated(
    world: World, repo: Repository
) -> None:
    async def lose(_call: Call) -> Fault:
        world.kv.hook = None
        world.kv.read_hook = rival
        return Fault.LOST_REPLY

    async def rival(_call: Call) -> None:
        world.kv.read_hook = None
        await world.metadata.set(repo, {"a": "theirs"})

    world.kv.hook = lose
    with pytest.raises(UnavailableError) as caught:
        await world.metadata.set(repo, {"a": "mine"})
    assert caught.value.kind is ErrorKind.OUTCOME_UNKNOWN
    assert await world.metadata.get(repo) == {"a": "theirs"}


async def test_metadata_has_a_size_limit(world: World, repo: Repository) -> None:
    with pytest.raises(InvalidInputError) as caught:
        await world.metadata.set(repo, {"a": "x" * METADATA_BYTES_MAX})
    assert caught.value.kind is ErrorKind.TOO_LARGE


async def test_metadata_that_never_gets_written_says_so(world: World, repo: Repository) -> None:
    async def always(_call: Call) -> Fault:
        return Fault.CONFLICT

    world.kv.hook = always
    with pytest.raises(ConflictError) as caught:
        await world.metadata.set(repo, {"a": "1"})
    assert caught.value.kind is ErrorKind.TOO_MANY_RETRIES


async def test_a_swap_that_stays_unknown_is_unknown(world: World, repo: Repository) -> None:
    async def always(_call: Call) -> Fault:
        return Fault.LOST_REQUEST

    world.kv.hook = always
    with pytest.raises(UnavailableError) as caught:
        await world.metadata.set(repo, {"a": "1"})
    assert caught.value.kind is ErrorKind.OUTCOME_UNKNOWN
