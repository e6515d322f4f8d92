"""Found in review: a link that took long to stage was remembered as used before it was."""

from typing import Any

from lakebed.catalog.links import Linked
from lakebed.limits import GRACE_SECONDS
from lakebed.refs.keys import LINKS_PREFIX
from tests.unit.gc.world import World


async def test_an_address_is_listed_for_a_grace_after_it_was_staged_however_long_that_took(
    world: World,
) -> None:
    issued = await world.lake.catalog.links.issue("lake", "main", "a")
    linked = Linked(address=issued.address, checksum="c", size_bytes=1, content_type="")

    async def slow(call: str, what: Any) -> None:
        if call == "set_rows" or (call == "swap" and not what.startswith(LINKS_PREFIX)):
            world.kv.hook = None
            world.clock.advance(GRACE_SECONDS + 1)

    world.kv.hook = slow
    await world.lake.catalog.links.link("lake", "main", "a", linked)
    assert world.kv.hook is None, "staging took long"
    address = issued.address.removeprefix(f"{world.lake.repo.namespace}/")
    assert await world.uncommitted() == {address: {"row", "link"}}
