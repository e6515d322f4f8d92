"""What the refs of a repository name: read whole, or not at all.

Raw records, because what nobody can see yet counts too: tentative branches and tags, hidden branches, stashes in any
state, operations that are building a new HEAD, and what deleted branches have left to be read for a grace.
"""

from dataclasses import dataclass, replace

from lakebed.env.clock import Instant
from lakebed.env.work import Workers
from lakebed.errors import CorruptError, ErrorKind
from lakebed.format.records import decode_branch, decode_commit, decode_stash, decode_tag
from lakebed.gc.retention import CommitNode, Named
from lakebed.kv.port import Item, KVStore
from lakebed.model.branch import Branch, BranchRecord
from lakebed.model.commits import Commit, Tag
from lakebed.model.ids import BranchName, CommitId, Nonce
from lakebed.model.repository import Repository
from lakebed.model.stash import Stash
from lakebed.refs.keys import BRANCHES_PREFIX, COMMITS_PREFIX, STASHES_PREFIX, TAGS_PREFIX, commit_key
from lakebed.refs.scans import scan_records

_LOOKUPS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class References:
    """The records of a repository's refs."""

    branches: dict[BranchName, BranchRecord]
    """Deleted ones too."""
    tags: tuple[Tag, ...]
    stashes: tuple[Stash, ...]

    @property
    def live_branches(self) -> list[Branch]:
        """Those that were not deleted."""
        return [record for record in self.branches.values() if isinstance(record, Branch)]

    def with_branch(self, name: BranchName, record: BranchRecord | None) -> "References":
        """Return the same with another record of a branch."""
        others = {each: found for each, found in self.branches.items() if each != name}
        return replace(self, branches=others if record is None else {**others, name: record})

    def named(self, now: Instant) -> Named:
        """Return the commits that are named. Operations whose owner seems dead hold none: they can be fenced."""
        branches = self.live_branches
        reads = (
            commit
            for branch in branches
            for entry in branch.pending.values()
            if entry.is_live(now)
            for commit in entry.commits
        )
        return Named(
            heads={branch.name: branch.commit_id for branch in branches},
            kept={*(tag.commit_id for tag in self.tags), *(stash.base for stash in self.stashes), *reads},
            pending=self.pending,
        )

    @property
    def pending(self) -> frozenset[Nonce]:
        """The nonces of all operations that may still move a HEAD."""
        return frozenset(nonce for branch in self.live_branches for nonce in branch.pending)


async def read_references(kv: KVStore, repo: Repository) -> References:
    """Read the records of all refs.

    Raises:
        CorruptError: one cannot be read: nobody can tell what it names.
    """
    branches: dict[BranchName, BranchRecord] = {}
    async for items in scan_records(kv, repo.partition, BRANCHES_PREFIX):
        branches |= {record.name: record for record in (decode_branch(item.value) for item in items)}
    tags: list[Tag] = []
    async for items in scan_records(kv, repo.partition, TAGS_PREFIX):
        tags += [tag for tag in (decode_tag(item.value) for item in items) if isinstance(tag, Tag)]
    stashes: list[Stash] = []
    async for items in scan_records(kv, repo.partition, STASHES_PREFIX):
        stashes += [decode_stash(item.value) for item in items]
    return References(branches=branches, tags=tuple(tags), stashes=tuple(stashes))


async def read_commits(kv: KVStore, workers: Workers, repo: Repository) -> dict[CommitId, CommitNode]:
    """Read all commits, and with each one its parents: a scan is no snapshot, and may meet a child only.

    Raises:
        CorruptError: a record cannot be read, or a parent is missing.
    """
    commits: dict[CommitId, CommitNode] = {}
    async for items in scan_records(kv, repo.partition, COMMITS_PREFIX):
        commits |= await workers.run(_nodes, items)
    while missing := {parent for node in commits.values() for parent in node.parents} - commits.keys():
        wanted = sorted(missing)[:_LOOKUPS]
        found = await kv.get_many([(repo.partition, commit_key(each)) for each in wanted])
        for commit_id, item in zip(wanted, found, strict=True):
            if item is None:
                raise CorruptError(
                    ErrorKind.FILE_MISSING, f"commit {commit_id}, a parent, is not in the database"
                )
            commits[commit_id] = _node(decode_commit(item.value))
    return commits


def require_known(commits: dict[CommitId, CommitNode], named: Named) -> None:
    """Raise `CorruptError` if a commit that a ref names is not there."""
    missing = named.all - commits.keys()
    if missing:
        raise CorruptError(
            ErrorKind.FILE_MISSING, f"commit {min(missing)}, which a ref names, is not in the database"
        )


def _nodes(items: list[Item]) -> dict[CommitId, CommitNode]:
    return {node.id: node for node in (_node(decode_commit(item.value)) for item in items)}


def _node(commit: Commit) -> CommitNode:
    return CommitNode(
        commit.id, commit.tree, commit.parents, commit.created_at, commit.nonce, commit.condemned_by
    )
