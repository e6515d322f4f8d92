"""A play about names for commits, and a collector that takes commits nobody names.

The collector condemns a commit, then looks for refs on it; a new ref looks the other
way round, or both ways in one step where the database has fences. Whatever the order:
no ref that anybody can see ever points to a commit that was given up for collection.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from lakebed.format.records import decode_branch, decode_commit, decode_tag, encode_commit
from lakebed.model.branch import Branch
from lakebed.model.commits import Tag
from lakebed.model.ids import EMPTY_TREE, BranchName, CommitId, Nonce, TagName
from lakebed.model.repository import Repository
from lakebed.refs.keys import BRANCHES_PREFIX, TAGS_PREFIX, commit_key
from lakebed.refs.scans import scan_records
from lakebed.testing.simulation.chance import Chance
from lakebed.testing.simulation.history import Op
from lakebed.testing.simulation.lake_play import open_lake
from lakebed.testing.simulation.process import SimProcess
from lakebed.testing.simulation.stage import Conditions, Stage
from lakebed.testing.simulation.world import World

_BRANCHES = ("dev", "exp")
_TAGS = ("v1", "v2")
_WORK = (
    ("commit", 1.0),
    ("create_branch", 4.0),
    ("delete_branch", 3.0),
    ("get_branch", 3.0),
    ("create_tag", 4.0),
    ("delete_tag", 3.0),
    ("get_tag", 3.0),
    ("collect", 5.0),
)


async def play_refs(world: World, conditions: Conditions) -> None:
    """Play it."""
    stage = Stage(world, conditions)
    lake = await open_lake(world, stage.processes[0], "lake", ("main",))
    head = world.truth.timeline(lake.partition, "main").last.commit_id
    assert head is not None
    shelf = _Shelf(world, lake.repo, [head])
    await stage.play(shelf.act)
    await stage.settle(shelf.look)


@dataclass(slots=True)
class _Shelf:
    """Commits, some with names."""

    world: World
    repo: Repository
    commits: list[CommitId] = field(default_factory=list)
    numbers: int = 0

    async def act(self, process: SimProcess, chance: Chance) -> None:
        kind = chance.weighted(_WORK)
        # The newest are the most wanted: by those who name them and by the collector.
        commit_id = self.commits[-1 - chance.below(min(3, len(self.commits)))]
        branch, tag = BranchName(chance.pick(_BRANCHES)), TagName(chance.pick(_TAGS))
        branches, tags = process.engine.parts.branches, process.engine.tags
        match kind:
            case "commit":
                await self._commit(process)
            case "create_branch":
                await self._ask(process, kind, partial(branches.create, self.repo, branch, commit_id), branch)
            case "delete_branch":
                await self._ask(process, kind, partial(branches.delete, self.repo, branch), branch)
            case "get_branch":
                await self._ask(process, kind, partial(branches.get, self.repo, branch), branch)
            case "create_tag":
                await self._ask(process, kind, partial(tags.create, self.repo, tag, commit_id), tag)
            case "delete_tag":
                await self._ask(process, kind, partial(tags.delete, self.repo, tag), tag)
            case "get_tag":
                await self._ask(process, kind, partial(tags.get, self.repo, tag), tag)
            case _:
                await self._ask(process, kind, partial(self._collect, process, commit_id))

    async def look(self, process: SimProcess) -> None:
        """See that nothing is half-way: every name can be deleted, and made again."""
        commit_id = await self._new_commit(process)
        engine = process.engine
        for name in _BRANCHES:
            branch = BranchName(name)
            await self._ask(
                process, "delete_branch", partial(engine.parts.branches.delete, self.repo, branch), name
            )
            await engine.parts.branches.create(self.repo, branch, commit_id)
        for name in _TAGS:
            tag = TagName(name)
            await self._ask(process, "delete_tag", partial(engine.tags.delete, self.repo, tag), name)
            await engine.tags.create(self.repo, tag, commit_id)

    async def _commit(self, process: SimProcess) -> None:
        async def call() -> None:
            self.commits.append(await self._new_commit(process))

        await self._ask(process, "new_commit", call)

    async def _new_commit(self, process: SimProcess) -> CommitId:
        self.numbers += 1
        commit = await process.engine.parts.commits.create(
            self.repo,
            committer=process.name,
            message=f"number {self.numbers}",
            tree=EMPTY_TREE,
            date=self.numbers,
            metadata={},
            parents=(self.commits[0],),
            nonce=Nonce(str(self.numbers)),
        )
        return commit.id

    async def _collect(self, process: SimProcess, commit_id: CommitId) -> None:
        """Condemn a commit, look for refs on it, and give it up, or release it."""
        kv, key = process.kv, commit_key(commit_id)
        item = await kv.get(self.repo.partition, key)
        assert item is not None
        commit = decode_commit(item.value)
        if commit.condemned_by or commit_id == self.commits[0]:
            return
        condemned = encode_commit(replace(commit, condemned_by=process.name))
        version = await kv.swap(self.repo.partition, key, condemned, expected=item.version)
        if await self._is_named(process, commit_id):
            self.world.met["collector found a ref"] += 1
            await kv.swap(self.repo.partition, key, encode_commit(commit), expected=version)
        else:
            self.world.met["commit collected"] += 1
            self.world.laws.give_up(self.repo.partition, commit_id)

    async def _is_named(self, process: SimProcess, commit_id: CommitId) -> bool:
        async for items in scan_records(process.kv, self.repo.partition, BRANCHES_PREFIX):
            for item in items:
                branch = decode_branch(item.value)
                if isinstance(branch, Branch) and branch.commit_id == commit_id:
                    return True
        async for items in scan_records(process.kv, self.repo.partition, TAGS_PREFIX):
            for item in items:
                tag = decode_tag(item.value)
                if isinstance(tag, Tag) and tag.commit_id == commit_id:
                    return True
        return False

    async def _ask(
        self, process: SimProcess, kind: str, call: Callable[[], Awaitable[Any]], branch: str = ""
    ) -> Op:
        return await self.world.ask(
            process, kind, call, repo=self.repo.partition, branch=branch, may_be_missing=True
        )
