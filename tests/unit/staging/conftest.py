"""A branch on a memory KV, with a dict for the tree below it."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest

from lakebed.committed.cache import RangeCache
from lakebed.committed.segments import SegmentFiles
from lakebed.env.clock import Instant, SystemClock
from lakebed.env.ids import SeededIds
from lakebed.env.work import InlineWorkers
from lakebed.kv.drivers.memory import MemoryKV
from lakebed.model.branch import Branch
from lakebed.model.entries import Change, Entry, Tombstone
from lakebed.model.ids import EMPTY_TREE, BranchName, Nonce, Path, RepoName, RepoUid
from lakebed.model.repository import Repository
from lakebed.objects.drivers.memory import MemoryBucket, MemoryObjects
from lakebed.objects.port import ObjectStore
from lakebed.refs.branches import Branches
from lakebed.refs.commits import Commits
from lakebed.staging.appending import SegmentUse
from lakebed.staging.staging import Staging

REPO = Repository(
    name=RepoName("lake"),
    uid=RepoUid("uid"),
    namespace="mem://lake",
    default_branch=BranchName("main"),
    created_at=Instant(0),
)
MAIN = BranchName("main")


def entry(path: str, content: str = "x") -> Entry:
    return Entry(path=Path(path), address=f"data/{content}", checksum=content, size_bytes=1, mtime=Instant(1))


def tombstone(path: str) -> Tombstone:
    return Tombstone(path=Path(path))


@dataclass
class DictBase:
    """The tree below the layers."""

    entries: dict[str, Entry] = field(default_factory=dict)

    async def lookup(self, repo: Repository, branch: Branch, path: Path) -> Entry | None:
        return self.entries.get(path)


@dataclass
class Lake:
    """Staging over a memory KV, and shortcuts to look at it."""

    kv: MemoryKV
    branches: Branches
    base: DictBase
    staging: Staging
    segments: SegmentFiles
    bucket: MemoryBucket

    async def branch(self) -> Branch:
        return (await self.branches.get(REPO, MAIN)).value

    async def find(self, path: str) -> Change | None:
        _, staged = await self.staging.reader.lookup(REPO, await self.branch(), Path(path))
        return staged.change if staged else None

    async def write(self, *changes: Change, **options) -> None:
        await self.staging.write(REPO, MAIN, changes, **options)


async def make_lake(kv=None, *, use=SegmentUse.AUTO) -> Lake:
    memory = kv or MemoryKV()
    ids = SeededIds(1)
    branches = Branches(memory, clock=SystemClock(), ids=ids)
    commits = Commits(memory)
    first = await commits.create(
        REPO, committer="", message="", tree=EMPTY_TREE, date=0, metadata={}, parents=(), nonce=Nonce("n")
    )
    await branches.create(REPO, MAIN, first.id)
    base = DictBase()
    workers, bucket = InlineWorkers(), MemoryBucket()
    store = MemoryObjects(bucket=bucket)

    async def store_of(repo: Repository) -> ObjectStore:
        return store

    segments = SegmentFiles(store_of, RangeCache(None, workers=workers), workers)
    staging = Staging(
        memory,
        branches=branches,
        base=base,
        segments=segments,
        workers=workers,
        clock=SystemClock(),
        ids=ids,
        use_segments=use,
    )
    return Lake(memory, branches, base, staging, segments, bucket)


@pytest.fixture(params=SegmentUse)
async def lake(request: pytest.FixtureRequest) -> AsyncIterator[Lake]:
    lake = await make_lake(use=request.param)
    yield lake
    await lake.staging.drain()
