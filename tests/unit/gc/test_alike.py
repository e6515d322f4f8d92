"""An object that was uploaded again with equal content is garbage once its layer has drained, and not before."""

import pytest

from lakebed.errors import InvalidInputError
from lakebed.limits import GRACE_SECONDS
from lakebed.testing.lake import COMMIT
from tests.unit.gc.world import World


@pytest.mark.parametrize("more", [{}, {"b": "1"}], ids=["nothing else", "more"])
async def test_equal_bytes_again_are_listed_for_a_grace_and_then_no_longer(
    world: World, more: dict[str, str]
) -> None:
    await world.lake.commit("main", a="1")
    committed = await world.address("main", "a")
    await world.lake.put("main", a="1", **more)
    staged = await world.address("main", "a")
    assert staged in await world.uncommitted()

    if more:
        await world.lake.commit("main")
    else:
        with pytest.raises(InvalidInputError, match="no changes"):
            await world.lake.catalog.commits.commit("lake", "main", COMMIT)

    assert await world.address("main", "a") == committed
    assert staged in await world.uncommitted(), "readers of the old record may still read it"
    world.clock.advance(GRACE_SECONDS + 1)
    await world.lake.cleaner.clean_once()
    assert staged not in await world.uncommitted()
    assert staged not in await addresses(world)


async def addresses(world: World) -> list[str]:
    """Return every address that the branch's commit names."""
    page = await world.lake.catalog.objects.list("lake", "main@", amount=1000)
    found: list[str] = page.rows.column("address").to_pylist()
    return found
