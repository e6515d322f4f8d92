"""Whoever reads a commit that garbage collection has let go is told so, and not to look for a backup."""

from dataclasses import replace

import pytest

from lakebed.committed.cache import RangeCache
from lakebed.committed.trees import Trees
from lakebed.env.work import InlineWorkers
from lakebed.errors import CorruptError, ErrorKind, NotFoundError
from lakebed.format.layout import METARANGES_FOLDER, RANGES_FOLDER
from lakebed.model.ids import parse_path
from lakebed.model.repository import Repository
from lakebed.versioning.view import Source, View
from tests.unit.gc.world import DAY, World


async def let_go(world: World, *, rules: int) -> tuple[str, View, Source]:
    """A commit that no ref reaches, no file of any tree left, and a reader that has none in its cache."""
    catalog, engine = world.lake.catalog, world.lake.engine
    await catalog.branches.create("lake", "dev", "main")
    commit = await world.lake.commit("dev", a="1")
    await catalog.branches.delete("lake", "dev")
    await world.rules(rules)
    world.clock.advance(2 * DAY)
    await world.mark()
    store = await engine.store_of(world.lake.repo)
    for folder in (RANGES_FOLDER, METARANGES_FOLDER):
        await store.delete([info.key async for page in store.list(folder) for info in page])

    async def trees_of(_repo: Repository) -> Trees:
        return Trees(store, RangeCache(None, workers=InlineWorkers()), InlineWorkers())

    view = View(replace(engine.parts, trees_of=trees_of))
    return (
        commit,
        view,
        await view.of(world.lake.repo, await engine.resolver.resolve(world.lake.repo, commit)),
    )


async def test_a_commit_that_was_let_go_says_what_became_of_it(world: World) -> None:
    commit, view, source = await let_go(world, rules=0)
    repo = world.lake.repo

    for reading in (
        view.stat(repo, source, parse_path("a")),
        view.list(repo, source, amount=10),
        view.list(repo, source, amount=10, delimiter="/"),
    ):
        with pytest.raises(NotFoundError, match=f"commit {commit} expired, and garbage collection") as caught:
            await reading
        assert caught.value.kind is ErrorKind.DATA_MISSING


async def test_a_commit_that_stands_and_whose_files_are_gone_is_damage(world: World) -> None:
    _, view, source = await let_go(world, rules=365)
    repo = world.lake.repo

    with pytest.raises(CorruptError, match="restore it from a backup"):
        await view.stat(repo, source, parse_path("a"))
    with pytest.raises(CorruptError, match="restore it from a backup"):
        await view.list(repo, source, amount=10)
