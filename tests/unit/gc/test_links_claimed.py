"""A link whose token could not be claimed, or was claimed without an answer: nothing is staged, and nothing is lost."""

from typing import Any

import pytest

from lakebed.catalog.links import Linked
from lakebed.errors import ErrorKind, InvalidInputError, NotFoundError, UnavailableError
from lakebed.format.links import decode_link
from lakebed.limits import CLAIM_SECONDS, GRACE_SECONDS, LINK_LIFETIME_SECONDS
from lakebed.model.links import LinkToken
from lakebed.refs.keys import LINKS_PREFIX, link_key
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


async def link(world: World, linked: Linked) -> str:
    return (await world.lake.catalog.links.link("lake", "main", "a", linked)).address


@pytest.mark.parametrize("kind", FAILURES)
async def test_a_claim_that_fails_stages_nothing_and_can_be_repeated(world: World, kind: ErrorKind) -> None:
    linked = await issued(world)

    async def fails(call: str, what: Any) -> None:
        if call == "swap" and what.startswith(LINKS_PREFIX):
            raise UnavailableError(kind, "no")

    world.kv.hook = fails
    with pytest.raises(UnavailableError):
        await link(world, linked)
    world.kv.hook = None
    with pytest.raises(NotFoundError):
        await world.lake.catalog.objects.stat("lake", "main", "a")
    assert (await token(world, linked)).used_at is None

    assert await link(world, linked) == relative(world, linked)


async def test_an_entry_whose_claim_expired_stands(world: World) -> None:
    linked = await issued(world)
    await link(world, linked)

    world.clock.advance(LINK_LIFETIME_SECONDS + GRACE_SECONDS + 1)

    assert await world.uncommitted() == {relative(world, linked): {"row"}}


async def test_another_checksum_is_refused_at_once_and_a_late_repeat_for_good(world: World) -> None:
    linked = await issued(world)
    await link(world, linked)
    other = Linked(address=linked.address, checksum="other", size_bytes=1, content_type="")

    with pytest.raises(InvalidInputError, match="linked before"):
        await link(world, other)
    await world.lake.catalog.objects.delete("lake", "main", ["a"])
    world.clock.advance(CLAIM_SECONDS + 1)
    with pytest.raises(InvalidInputError, match="ask for a new address"):
        await link(world, linked)


async def test_a_link_costs_one_swap_of_its_token(world: World) -> None:
    linked = await issued(world)
    swaps: list[bytes] = []

    async def count(call: str, what: Any) -> None:
        if call == "swap" and what.startswith(LINKS_PREFIX):
            swaps.append(what)

    world.kv.hook = count
    await link(world, linked)

    assert len(swaps) == 1
