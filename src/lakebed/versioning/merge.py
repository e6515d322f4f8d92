"""Merge, revert and cherry-pick: three trees become one.

All three ask the same question of the same function and differ in who plays
base, source and destination:

    merge        base = best common ancestor   source = the other ref       destination = HEAD
    cherry-pick  base = the commit's parent    source = the commit          destination = HEAD
    revert       base = the commit             source = the commit's parent destination = HEAD

A try that was lost because HEAD moved serves the next one, which then takes about as long as what moved HEAD.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from lakebed.committed.trees import MergedInto
from lakebed.errors import ConflictError, ErrorKind, InvalidInputError
from lakebed.model.commits import Commit
from lakebed.model.diffs import ChangeCounts, MergeStrategy
from lakebed.model.ids import EMPTY_TREE, BranchName, CommitId, MetarangeId, Nonce
from lakebed.model.repository import Repository
from lakebed.refs.merge_base import find_merge_base
from lakebed.versioning.commit import CommitRequest, store_commit
from lakebed.versioning.head import Attempt, HeadChanges
from lakebed.versioning.parts import Parts

_STRATEGY_KEY = ".lakefs.merge.strategy"


class MergeConflictError(ConflictError):
    """Both sides changed the same paths differently. `paths` are the first of them, `total` how many there are."""

    def __init__(self, message: str, paths: tuple[str, ...], total: int) -> None:
        super().__init__(ErrorKind.MERGE_CONFLICT, message)
        self.paths = paths
        self.total = total


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
    """A merge's commit and how many paths it changed on the destination."""

    commit: Commit
    counts: ChangeCounts


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeRequest:
    """What a client says about a merge."""

    commit: CommitRequest
    strategy: MergeStrategy = MergeStrategy.NONE
    squash: bool = False


class Merger:
    """Merges, reverts and cherry-picks into a branch."""

    def __init__(self, parts: Parts, heads: HeadChanges) -> None:
        self._parts = parts
        self._heads = heads

    async def merge(
        self, repo: Repository, source: CommitId, dest: BranchName, request: MergeRequest
    ) -> Merged:
        """Bring what `source` changed since the common ancestor into `dest`, as one commit.

        Raises:
            MergeConflictError: both sides changed a path, and no strategy says who wins.
            InvalidInputError: `DIRTY_BRANCH`; `NO_CHANGES`: `dest` has it all already, and empty is not allowed.
        """
        counts = ChangeCounts()
        tries = _Tries()

        async def build(attempt: Attempt) -> Commit:
            nonlocal counts
            await self._heads.require_clean(attempt)
            head = attempt.started.commit_id
            base = await find_merge_base(self._parts.commits, repo, head, source)
            allow_empty = request.commit.allow_empty
            if base.id == source and not allow_empty:
                raise InvalidInputError(ErrorKind.NO_CHANGES, f"branch {dest} already contains {source[:16]}")
            tree, counts = await self._merge(
                attempt,
                tries,
                base=base.tree,
                source=await self._tree(repo, source),
                strategy=request.strategy,
            )
            parents = (head,) if request.squash else (head, source)
            metadata = {**request.commit.metadata, _STRATEGY_KEY: request.strategy.value or "default"}
            return await store_commit(
                self._parts, attempt, replace(request.commit, metadata=metadata), tree=tree, parents=parents
            )

        commit = await self._heads.run(repo, dest, build, reads=(source,))
        return Merged(commit=commit, counts=counts)

    async def revert(
        self,
        repo: Repository,
        name: BranchName,
        commit_id: CommitId,
        *,
        parent_number: int,
        request: CommitRequest,
    ) -> Commit:
        """Undo what `commit_id` did against its parent, as a new commit on the branch.

        `parent_number` counts from 1; 0 will do for a commit with one parent.
        """
        picked = await self._parts.commits.get(repo, commit_id)
        parent = await self._parent_tree(repo, picked, parent_number, verb="revert")
        return await self._pick(repo, name, request, base=picked.tree, source=parent, reads=_reads(picked))

    async def cherry_pick(
        self,
        repo: Repository,
        name: BranchName,
        commit_id: CommitId,
        *,
        parent_number: int,
        request: CommitRequest,
    ) -> Commit:
        """Do what `commit_id` did against its parent once more, as a new commit on the branch."""
        picked = await self._parts.commits.get(repo, commit_id)
        parent = await self._parent_tree(repo, picked, parent_number, verb="cherry-pick")
        metadata: Mapping[str, str] = {
            **request.metadata,
            "cherry-pick-origin": picked.id,
            "cherry-pick-committer": picked.committer,
        }
        request = replace(request, metadata=metadata)
        # Nothing is taken from the parent, so it may have expired: it is only what the commit is compared with.
        return await self._pick(repo, name, request, base=parent, source=picked.tree, reads=(picked.id,))

    async def _pick(
        self,
        repo: Repository,
        name: BranchName,
        request: CommitRequest,
        *,
        base: MetarangeId,
        source: MetarangeId,
        reads: tuple[CommitId, ...],
    ) -> Commit:
        tries = _Tries()

        async def build(attempt: Attempt) -> Commit:
            await self._heads.require_clean(attempt)
            tree, counts = await self._merge(
                attempt, tries, base=base, source=source, strategy=MergeStrategy.NONE
            )
            if counts.total == 0 and not request.allow_empty:
                raise InvalidInputError(ErrorKind.NO_CHANGES, f"that changes nothing on branch {name}")
            return await store_commit(
                self._parts, attempt, request, tree=tree, parents=(attempt.started.commit_id,)
            )

        return await self._heads.run(repo, name, build, reads=reads)

    async def _merge(
        self,
        attempt: Attempt,
        tries: "_Tries",
        *,
        base: MetarangeId,
        source: MetarangeId,
        strategy: MergeStrategy,
    ) -> tuple[MetarangeId, ChangeCounts]:
        dest = await self._tree(attempt.repo, attempt.started.commit_id)
        trees = await self._parts.trees_of(attempt.repo)
        merged = await trees.merge(
            base,
            source,
            dest,
            strategy=strategy,
            earlier=tries.last(attempt, base),
            nonce=attempt.nonce,
        )
        if merged.conflicts:
            raise MergeConflictError(
                f"{merged.conflicts_total} paths were changed on both sides, {merged.conflicts[0]!r} for one: "
                "resolve them, or choose a strategy (source-wins, dest-wins)",
                merged.conflicts,
                merged.conflicts_total,
            )
        tries.take_down(attempt, base, MergedInto(dest=dest, merged=merged))
        return merged.id, merged.counts

    async def _tree(self, repo: Repository, commit_id: CommitId) -> MetarangeId:
        return (await self._parts.commits.get(repo, commit_id)).tree

    async def _parent_tree(self, repo: Repository, commit: Commit, number: int, *, verb: str) -> MetarangeId:
        parents = commit.parents
        if number == 0 and len(parents) > 1:
            raise ConflictError(
                ErrorKind.PARENT_NEEDED,
                f"{commit.id[:16]} is a merge of {len(parents)} parents: say which one to {verb} against (1 to {len(parents)})",
            )
        index = max(number, 1) - 1
        if number < 0 or (parents and index >= len(parents)) or (not parents and number > 0):
            raise InvalidInputError(
                ErrorKind.PARENT_OUT_OF_RANGE,
                f"{commit.id[:16]} has {len(parents)} parents, there is no number {number}",
            )
        return await self._tree(repo, parents[index]) if parents else EMPTY_TREE


@dataclass(slots=True)
class _Tries:
    """What the last try of an operation came to, for the next one to start from."""

    nonce: Nonce | None = None
    base: MetarangeId | None = None
    came_to: MergedInto | None = None

    def last(self, attempt: Attempt, base: MetarangeId) -> MergedInto | None:
        """Return it, if its files are still protected and it had the same base."""
        return self.came_to if (self.nonce, self.base) == (attempt.nonce, base) else None

    def take_down(self, attempt: Attempt, base: MetarangeId, came_to: MergedInto) -> None:
        self.nonce, self.base, self.came_to = attempt.nonce, base, came_to


def _reads(commit: Commit) -> tuple[CommitId, ...]:
    return (commit.id, *commit.parents)
