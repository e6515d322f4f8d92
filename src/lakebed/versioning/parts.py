"""`Parts`: what the operations of this layer are made of, wired once by the composition root."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from lakebed.committed.trees import Trees
from lakebed.env.clock import Clock
from lakebed.env.ids import IdSource
from lakebed.env.work import Workers
from lakebed.kv.port import KVStore
from lakebed.model.branch import Branch
from lakebed.model.entries import Entry
from lakebed.model.ids import MetarangeId, Path
from lakebed.model.lifetimes import Lifetimes
from lakebed.model.repository import Repository
from lakebed.refs.branches import Branches
from lakebed.refs.commits import Commits
from lakebed.refs.pins import Pins
from lakebed.staging.port import Segments
from lakebed.staging.staging import Staging


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The stores below, and where time, chance and threads come from."""

    kv: KVStore
    branches: Branches
    commits: Commits
    staging: Staging
    segments: Segments
    pins: Pins
    trees_of: Callable[[Repository], Awaitable[Trees]]
    clock: Clock
    ids: IdSource
    workers: Workers
    processes: Workers
    lifetimes: Lifetimes = field(default_factory=Lifetimes)

    async def base_tree(self, repo: Repository, branch: Branch) -> MetarangeId:
        """Return the tree of the branch's commit."""
        return (await self.commits.get(repo, branch.commit_id)).tree


class CommittedBase:
    """The tree below a branch's layers, as staging asks for it."""

    def __init__(self, commits: Commits, trees_of: Callable[[Repository], Awaitable[Trees]]) -> None:
        self._commits = commits
        self._trees_of = trees_of

    async def lookup(self, repo: Repository, branch: Branch, path: Path) -> Entry | None:
        tree = branch.compacted
        if tree is None:
            tree = (await self._commits.get(repo, branch.commit_id)).tree
        return await (await self._trees_of(repo)).lookup(tree, path)
