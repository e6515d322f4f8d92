"""`Lab`: what a scenario works with: its scale, its folders, an installation as users have it.

Installations are the embedded default unless a scenario says otherwise: LMDB and
a local folder, every sync on.
"""

import shutil
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from hashlib import md5
from pathlib import Path

from lakebed.env.clock import Instant
from lakebed.model.entries import Entry
from lakebed.model.ids import BranchName, parse_path
from lakebed.model.repository import Repository
from lakebed.server.config import Config
from lakebed.server.installation import open_installation
from lakebed.server.wiring import Wired
from lakebed.staging.appending import SegmentUse
from lakebed.versioning.commit import CommitRequest

REPO = "bench"
COMMIT = CommitRequest(committer="bench", message="measured")
MAIN = BranchName("main")

_BATCH = 1_000
_NOW = Instant(1_700_000_000_000_000)


@dataclass(frozen=True, slots=True)
class Lab:
    """The surroundings of one scenario."""

    work: Path
    scale: float
    seconds: float
    """How long a rate is measured."""

    def count(self, full: int) -> int:
        """Return a number of entries at this scale."""
        return max(1, round(full * self.scale))

    @property
    def tree_folder(self) -> Path:
        """The installation whose `main` holds the large tree; see `bench.tree`."""
        return self.work / "tree"

    @property
    def tree_count(self) -> int:
        return self.count(1_000_000)

    @asynccontextmanager
    async def fresh(
        self, *, kv_url: str | None = None, staging_segments: SegmentUse = SegmentUse.AUTO
    ) -> AsyncIterator[Wired]:
        """Yield a new installation with an empty repository, and remove it afterwards."""
        folder = self.work / "scratch"
        shutil.rmtree(folder, ignore_errors=True)
        try:
            config = Config(data=folder, kv_url=kv_url, staging_segments=staging_segments)
            async with open_installation(config) as site:
                await site.catalog.repositories.create(REPO, f"local://{REPO}")
                yield site
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    @asynccontextmanager
    async def tree(self) -> AsyncIterator[Wired]:
        """Yield the installation with the large tree."""
        async with open_installation(Config(data=self.tree_folder)) as site:
            yield site


@contextmanager
def emptied(folder: Path) -> Iterator[Path]:
    """Yield the folder, empty, and remove it afterwards."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def tree_path(number: int) -> str:
    """Return the path of an object of the large tree: 100 folders."""
    return f"imp/d{number % 100:03d}/f{number:08d}"


def staged_path(number: int) -> str:
    """Return a path as writers without order have it: neighbours in time are none in the tree."""
    return f"p/{number % 997:03d}/{number:08d}"


def entry(path: str, number: int) -> Entry:
    """Return an entry of 100 bytes that lies inside the namespace."""
    return Entry(
        path=parse_path(path),
        address=f"data/{'0' * 20}/{number:020d}",
        checksum=md5(path.encode(), usedforsecurity=False).hexdigest(),
        size_bytes=100,
        mtime=_NOW,
        content_type="application/octet-stream",
    )


async def warm_up(site: Wired, repo: Repository) -> None:
    """Commit a little: what a process does only once (imports, threads) is not what is measured."""
    await site.catalog.branches.create(REPO, "warm", "main")
    await stage(site, repo, "warm", [staged_path(number) for number in range(_BATCH)])
    await site.catalog.commits.commit(REPO, "warm", COMMIT)


async def stage(site: Wired, repo: Repository, branch: str, paths: Sequence[str], *, first: int = 0) -> None:
    """Stage an entry at each path, a thousand a call."""
    for start in range(0, len(paths), _BATCH):
        batch = paths[start : start + _BATCH]
        entries = [entry(path, first + start + n) for n, path in enumerate(batch)]
        await site.engine.parts.staging.write(repo, BranchName(branch), entries)
