"""`Reachable`: the commits, trees and staged layers that a repository's refs lead to.

The order matters beside a running server. Refs are read first and commits second: a
commit is stored before a ref names it, so every commit that a ref names is in the scan.

Everything is kept that grows with commits, nothing that grows with objects.
"""

from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass, field
from typing import Final, TypeVar

from lakebed.errors import CorruptError
from lakebed.format.records import decode_branch, decode_commit, decode_stash, decode_tag
from lakebed.kv.port import KVStore
from lakebed.model.branch import Branch
from lakebed.model.commits import Tag
from lakebed.model.ids import EMPTY_TREE, BranchName, CommitId, MetarangeId
from lakebed.model.layers import Layer
from lakebed.model.repository import Repository
from lakebed.model.stash import StashState
from lakebed.refs.keys import BRANCHES_PREFIX, COMMITS_PREFIX, STASHES_PREFIX, TAGS_PREFIX
from lakebed.refs.scans import scan_records
from lakebed.staging.record import layers_of
from lakebed.versioning.findings import FindingKind, Report, finding

T = TypeVar("T")

_KEPT_STASHES: Final = frozenset({StashState.TENTATIVE, StashState.STANDING, StashState.POPPING})


@dataclass(frozen=True, slots=True)
class StagedLayer:
    """A layer, and the branch that lists it; a stash's belongs to no branch."""

    layer: Layer
    branch: BranchName | None
    where: str


@dataclass(frozen=True, slots=True)
class ReachedTree:
    """A tree, where it was met first, and whether its objects must be there.

    Those of a condemned commit may have been collected: its files have not.
    """

    id: MetarangeId
    where: str
    with_objects: bool


@dataclass(slots=True)
class Reachable:
    """What the refs of one repository lead to."""

    branches: int = 0
    tags: int = 0
    commits: int = 0
    layers: list[StagedLayer] = field(default_factory=list)
    trees: dict[MetarangeId, ReachedTree] = field(default_factory=dict)

    def add_tree(self, tree: MetarangeId, where: str, *, with_objects: bool) -> None:
        known = self.trees.get(tree)
        if tree != EMPTY_TREE and (known is None or (with_objects and not known.with_objects)):
            self.trees[tree] = ReachedTree(tree, where, with_objects)


@dataclass(frozen=True, slots=True)
class _Step:
    """What a walk needs of a commit."""

    tree: MetarangeId
    parents: tuple[CommitId, ...]
    condemned: bool


async def find_reachable(kv: KVStore, repo: Repository, report: Report) -> Reachable:
    """Follow every branch, tag and stash; report records that cannot be read, and commits that are not there."""
    found = Reachable()
    roots: dict[CommitId, str] = {}
    async for _, branch in _records(kv, repo, BRANCHES_PREFIX, decode_branch, noun="branch", report=report):
        if isinstance(branch, Branch):
            where = f"branch {branch.name}"
            found.branches += 1
            roots.setdefault(branch.commit_id, where)
            found.layers += [
                StagedLayer(layer, branch.name, f"{where}, uncommitted") for layer in layers_of(branch)
            ]
            if branch.compacted is not None:
                found.add_tree(branch.compacted, f"{where}, uncommitted", with_objects=True)
    async for _, tag in _records(kv, repo, TAGS_PREFIX, decode_tag, noun="tag", report=report):
        if isinstance(tag, Tag):
            found.tags += 1
            roots.setdefault(tag.commit_id, f"tag {tag.name}")
    async for _, stash in _records(kv, repo, STASHES_PREFIX, decode_stash, noun="stash", report=report):
        if stash.state in _KEPT_STASHES:
            where = f"stash {stash.id}"
            roots.setdefault(stash.base, where)
            found.layers += [StagedLayer(layer, None, where) for layer in stash.layers]
    steps = {
        CommitId(name): _Step(commit.tree, commit.parents, bool(commit.condemned_by))
        async for name, commit in _records(
            kv, repo, COMMITS_PREFIX, decode_commit, noun="commit", report=report
        )
    }
    _walk(steps, roots, found, report)
    return found


def _walk(steps: dict[CommitId, _Step], roots: dict[CommitId, str], found: Reachable, report: Report) -> None:
    seen: set[CommitId] = set()
    for root, where in roots.items():
        waiting: list[tuple[CommitId, str]] = [(root, where)]
        while waiting:
            commit_id, named_by = waiting.pop()
            if commit_id in seen:
                continue
            seen.add(commit_id)
            step = steps.get(commit_id)
            if step is None:
                report(
                    finding(
                        FindingKind.COMMIT_MISSING, named_by, f"commit {commit_id} is not in the database"
                    )
                )
                continue
            found.commits += 1
            here = f"{where}, commit {commit_id[:12]}"
            found.add_tree(step.tree, here, with_objects=not step.condemned)
            waiting += _with(here, step.parents)


def _with(where: str, commits: Iterable[CommitId]) -> list[tuple[CommitId, str]]:
    return [(commit_id, where) for commit_id in commits]


async def _records(
    kv: KVStore, repo: Repository, folder: bytes, decode: Callable[[bytes], T], *, noun: str, report: Report
) -> AsyncIterator[tuple[str, T]]:
    """Yield the names and records of one folder, those that can be read."""
    async for items in scan_records(kv, repo.partition, folder):
        for item in items:
            name = item.key[len(folder) :].decode(errors="replace")
            try:
                record = decode(item.value)
            except CorruptError as error:
                report(finding(FindingKind.RECORD_DAMAGED, f"{noun} {name}", str(error)))
            else:
                yield name, record
