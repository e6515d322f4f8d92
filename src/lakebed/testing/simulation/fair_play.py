"""A play about one branch that everybody wants to change: a merge that takes long, and many small ones, in several
processes and in one. The network is fair, and nobody dies: here it is the time that counts.
"""

import asyncio
from functools import partial

import pyarrow as pa

from lakebed.model.ids import BranchName
from lakebed.testing.simulation.chance import Chance
from lakebed.testing.simulation.clients import Client
from lakebed.testing.simulation.fairness_laws import Fairness
from lakebed.testing.simulation.history import Op
from lakebed.testing.simulation.lake_play import look_at, open_lake
from lakebed.testing.simulation.process import SimProcess
from lakebed.testing.simulation.stage import Conditions, Stage
from lakebed.testing.simulation.world import World
from lakebed.versioning.commit import CommitRequest
from lakebed.versioning.merge import MergeRequest

_PROCESSES = 3
_SMALL = 5
# What both sides have changed, in ranges of a few, and how long each of those takes to merge.
_PATHS = [f"big/{number:02}/{side}" for number in range(24) for side in "ab"]
_TOIL_SECONDS = 0.6
# What nobody changes: more than a range has, so that no range has both what the long merge changes and what others do.
_BETWEEN = [f"mid/{number:02}" for number in range(8)]
# More small merges by each than come while a long one gets its turn.
_ROUNDS_MAX = 16
_REQUEST = MergeRequest(commit=CommitRequest(committer="somebody", message="a merge"))


async def play_fair(world: World) -> None:
    """Play it."""
    stage = Stage(world, Conditions(clients=0, processes=_PROCESSES))
    small = tuple(f"small{number}" for number in range(_SMALL))
    lake = await open_lake(world, stage.processes[0], "lake", ("main",))
    chance, fairness = world.chance.fork("fair"), Fairness(sharing=_SMALL + 1)
    somebody = _Patient(lake, stage.processes[0], chance)
    await _commit(somebody, "main", [*_PATHS, *_BETWEEN])
    await _branch_off(somebody, "big")
    await _commit(somebody, "big", _PATHS[::2])
    await _commit(somebody, "main", _PATHS[1::2])
    for branch in ("alone", *small):
        await _branch_off(somebody, branch)
    world.toil["merge_blocks"] = _toil
    for branch in small[:2]:
        await _commit(somebody, branch, [f"small/{branch}"])
        fairness.alone("small", await _merge(somebody, branch, "alone"))
    fairness.alone("large", await _merge(somebody, "big", "alone"))
    over = asyncio.Event()

    async def be_large(process: SimProcess) -> None:
        op = await _merge(_Patient(lake, process, chance.fork("large")), "big", "main")
        # It is the only one that takes long: for it the others do not count.
        fairness.check("large", op, sharing=1)
        over.set()

    async def be_small(process: SimProcess, branch: str, chance: Chance) -> None:
        client, rounds = _Patient(lake, process, chance), 0
        while not over.is_set() and rounds < _ROUNDS_MAX:
            rounds += 1
            await _commit(client, branch, [f"small/{branch}"])
            fairness.check("small", await _merge(client, branch, "main"))
            world.met["small merge among others"] += 1
            await world.sleep(chance.between(0.0, 0.3))

    players = [
        stage.processes[number % _PROCESSES].spawn(
            be_small(stage.processes[number % _PROCESSES], branch, chance.fork(branch))
        )
        for number, branch in enumerate(small)
    ]
    players.append(stage.processes[0].spawn(be_large(stage.processes[0])))
    await asyncio.gather(*players)
    world.toil.clear()
    await stage.settle(partial(look_at, world, lake))


def _toil(_base: pa.Table, source: pa.Table, _dest: pa.Table, **_options: object) -> float:
    """Return how long it takes to merge a range: what the small ones change, no time."""
    last = source.column("key")[-1].as_py() if source.num_rows else ""
    return _TOIL_SECONDS if last.startswith("big/") else 0.0


class _Patient(Client):
    """Somebody who never hangs up."""

    def _patience(self) -> None:
        return None


async def _commit(client: Client, branch: str, paths: list[str]) -> None:
    await client.upload(branch, paths)
    await client.commit_to(branch)


async def _branch_off(client: Client, branch: str) -> None:
    head = client.head("main")
    assert head is not None
    await client.process.engine.parts.branches.create(client.lake.repo, BranchName(branch), head)


async def _merge(client: Client, source: str, dest: str) -> Op:
    head = client.head(source)
    assert head is not None
    return await client.merge_from(head, dest, _REQUEST)
