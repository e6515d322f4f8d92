"""A link whose entry was staged, and whose token could not be marked used: nothing is lost, and it can be repeated."""

from typing import Any

import pytest

from lakebed.catalog.links import Linked
from lakebed.errors import ErrorKind, InvalidInputError, PreconditionError, UnavailableError
from lakebed.format.links import decode_link
from lakebed.limits import GRACE_SECONDS, LINK_LIFETIME_SECONDS
from lakebed.model.links import LinkToken
from lakebed.refs.keys import LINKS_PREFIX, link_key
from lakebed.staging.conditions import IfAbsent
from tests.unit.gc.world import World

FAILURES = [ErrorKind.STORE_UNAVAILABLE, ErrorKind.OUTCOME_UNKNOWN]


async def issued(world: World) -> Linked:
    """An object that was written to an address that was given out."""
    found = await world.lake.catalog.links.issue("lake", "main", "a")
    return Linked(address=found.address, checksum="c", size_bytes=1, content_type="")


def relative(world: World, linked: Linked) -> str:
    return linked.address.removeprefix(f"{world.lake.repo.namespace}/")


async def token(world: World, linked: Linked) -> LinkToken:
    item = await world.kv.get(world.lake.repo.partition, link_key(relative(world, linked)))
    assert item is not None
    return decode_link(item.value)


async def not_noted(world: World, linked: Linked, kind: ErrorKind = ErrorKind.STORE_UNAVAILABLE) -> None:
    """Link, while the database takes rows but no tokens."""

    async def fails(call: str, what: Any) -> None:
        if call == "swap" and what.startswith(LINKS_PREFIX):
            raise UnavailableError(kind, "no")

    world.kv.hook = fails
    with pytest.raises(UnavailableError, match="link it again") as caught:
        await world.lake.catalog.links.link("lake", "main", "a", linked)
    world.kv.hook = None
    assert caught.value.kind is ErrorKind.OUTCOME_UNKNOWN


@pytest.mark.parametrize("kind", FAILURES)
async def test_the_entry_stands_and_the_collector_sees_it_twice(world: World, kind: ErrorKind) -> None:
    linked = await issued(world)

    await not_noted(world, linked, kind)

    stands = await world.lake.catalog.objects.stat("lake", "main", "a")
    assert stands.address == relative(world, linked)
    assert (await token(world, linked)).used_at is None
    assert await world.uncommitted() == {relative(world, linked): {"row", "link"}}


@pytest.mark.parametrize("kind", FAILURES)
async def test_repeating_it_notes_it_and_is_the_same_success(world: World, kind: ErrorKind) -> None:
    linked = await issued(world)
    await not_noted(world, linked, kind)

    again = await world.lake.catalog.links.link("lake", "main", "a", linked)
    noted = await token(world, linked)
    once_more = await world.lake.catalog.links.link("lake", "main", "a", linked)

    assert (again.address, again.checksum) == (relative(world, linked), "c")
    assert once_more == await world.lake.catalog.objects.stat("lake", "main", "a") == again
    assert noted.used_at is not None
    assert await token(world, linked) == noted
    other = Linked(address=linked.address, checksum="other", size_bytes=1, content_type="")
    with pytest.raises(InvalidInputError, match="linked before"):
        await world.lake.catalog.links.link("lake", "main", "a", other)


async def test_a_condition_that_its_own_entry_fails_is_no_failure(world: World) -> None:
    linked, others = await issued(world), await issued(world)
    await not_noted(world, linked)

    again = await world.lake.catalog.links.link("lake", "main", "a", linked, condition=IfAbsent())

    assert again.address == relative(world, linked)
    assert (await token(world, linked)).used_at is not None
    with pytest.raises(PreconditionError):
        await world.lake.catalog.links.link("lake", "main", "a", others, condition=IfAbsent())


async def test_an_entry_that_was_deleted_meanwhile_can_be_linked_once_more_and_then_never_again(
    world: World,
) -> None:
    linked = await issued(world)
    await not_noted(world, linked)
    await world.lake.catalog.objects.delete("lake", "main", ["a"])
    world.clock.advance(GRACE_SECONDS + 1)
    assert relative(world, linked) in await world.uncommitted(), "its token is open"

    await world.lake.catalog.links.link("lake", "main", "a", linked)
    await world.lake.catalog.objects.delete("lake", "main", ["a"])

    with pytest.raises(InvalidInputError, match="linked before"):
        await world.lake.catalog.links.link("lake", "main", "a", linked)


async def test_an_entry_that_stands_outlives_its_token(world: World) -> None:
    linked = await issued(world)
    await not_noted(world, linked)

    world.clock.advance(LINK_LIFETIME_SECONDS + GRACE_SECONDS + 1)

    assert await world.uncommitted() == {relative(world, linked): {"row"}}
