"""Every safeguard of dumps and adoption is needed: taken out, the simulation finds what goes wrong within a few seeds.

what must be noticed                              planted here as
----------------------------------------------    ---------------------------------------------
a claim that fails if the key exists              claims that replace
a sweep checks the owners after its intent        check before the intent
a sweep dumps and announces what it deletes       neither dump nor intent
the intents make an older dump safe               intents not read
only final condemnations are dumped               every condemnation dumped
the dump is read after the claim                  (a dump before it is caught by the same laws: dump read early)
the old owner's deletions check the owner         owners never checked
"""

from collections.abc import Callable
from typing import Any

import pytest

from lakebed.catalog import adoption
from lakebed.format.gc import SWEEP_STARTED, SweepStarted, sweep_started_key
from lakebed.format.owners import OWNER, Owner, owner_key
from lakebed.gc import service
from lakebed.gc.service import GarbageCollection
from lakebed.model.repository import Repository
from lakebed.objects.port import ObjectStore, PutMode
from lakebed.refs import owners, repositories
from lakebed.refs.dump import RefsDumper
from lakebed.testing.simulation.run import play

# Each is found in at least every fifth seed: see `python -m tests.simulation.shares`.
SEEDS = 30

Plant = Callable[[pytest.MonkeyPatch], None]


async def _unchecked(_store: ObjectStore, _repo: Repository) -> None:
    """Whoever owns the namespace."""


def claims_that_replace(patch: pytest.MonkeyPatch) -> None:
    async def claim(store: ObjectStore, owner: Owner) -> None:
        await store.put(owner_key(owner.generation), OWNER.seal(owner), when=PutMode.OVERWRITE)

    patch.setattr(repositories, "claim", claim)


def check_before_the_intent(patch: pytest.MonkeyPatch) -> None:
    async def start_sweep(self: Any, repo: Repository, of: Any, mark: str) -> None:
        store = await self._store_of(repo)
        await owners.require_owned(store, repo)
        await self._dumps.dump(repo, full=True)
        intent = SweepStarted(uid=repo.uid, mark=mark, run=of.run, at=await self._parts.kv.now())
        await store.put(sweep_started_key(mark), SWEEP_STARTED.seal(intent), when=PutMode.OVERWRITE)

    patch.setattr(GarbageCollection, "start_sweep", start_sweep)
    patch.setattr(service, "require_owned", _unchecked)


def neither_dump_nor_intent(patch: pytest.MonkeyPatch) -> None:
    async def start_sweep(self: Any, repo: Repository, _of: Any, _mark: str) -> None:
        await owners.require_owned(await self._store_of(repo), repo)

    patch.setattr(GarbageCollection, "start_sweep", start_sweep)
    # As long as one batch takes: the check before the next one would stop it.
    patch.setattr(service, "require_owned", _unchecked)


def intents_not_read(patch: pytest.MonkeyPatch) -> None:
    async def intents(_store: ObjectStore, _engine: Any) -> frozenset[str]:
        return frozenset()

    patch.setattr(adoption, "_intents", intents)


def every_condemnation_dumped(patch: pytest.MonkeyPatch) -> None:
    async def read_all(self: Any, repo: Repository, make: Any, **_report: Any) -> Any:
        heads = await self.heads(repo)
        writer = make(heads)
        async for page in self._commits.scan(repo):
            writer.add_commits(page)
        return heads, writer

    patch.setattr(RefsDumper, "read_all", read_all)


@pytest.mark.parametrize(
    "plant",
    [
        pytest.param(claims_that_replace, id="create-only claim"),
        pytest.param(check_before_the_intent, id="check after the intent"),
        pytest.param(neither_dump_nor_intent, id="dump and intent before a sweep"),
        pytest.param(intents_not_read, id="intents"),
        pytest.param(every_condemnation_dumped, id="only final condemnations"),
    ],
)
def test_what_goes_wrong_without_a_safeguard_is_found(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)

    with pytest.raises(AssertionError):  # noqa: PT012  any of the seeds will do
        for seed in range(SEEDS):
            play("adoption", seed)
