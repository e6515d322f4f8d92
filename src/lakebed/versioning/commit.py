"""Commit: the layers of a branch become its next tree.

What `HeadChanges` calls *build* is here: merge the sealed layers over
`compacted` or the base tree, write the ranges that changed, then the commit
record. If everything was folded before, there is nothing to merge.

A staged row that is alike to the one in the base tree (`format.compare`) is no change: the committed row stays,
with its address and time, and its range keeps its hash. What was uploaded for it is garbage as soon as the layer has
drained. A commit of nothing else has nothing to commit. `take_staged` skips the comparison, for an object that was lost
and uploaded again.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from lakebed.errors import ErrorKind, InvalidInputError, UnavailableError
from lakebed.model.commits import Commit
from lakebed.model.ids import BranchName, CommitId, MetarangeId
from lakebed.model.metadata import require_short, require_small
from lakebed.model.repository import Repository
from lakebed.versioning.head import Attempt, HeadChanges, commit_date
from lakebed.versioning.parts import Parts
from lakebed.versioning.uncommitted import alike_kept


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitRequest:
    """What a client says about a commit. `date` is in Unix seconds; None means now. Too much of it is `TOO_LARGE`."""

    committer: str
    message: str
    metadata: Mapping[str, str] = field(default_factory=dict)
    date: int | None = None
    allow_empty: bool = False
    take_staged: bool = False
    """Commit also what is alike to what is committed: its address takes the other's place."""

    def __post_init__(self) -> None:
        require_small(self.metadata)
        require_short(self.message)


class Committer:
    """Commits what is staged."""

    def __init__(self, parts: Parts, heads: HeadChanges) -> None:
        self._parts = parts
        self._heads = heads

    async def commit(self, repo: Repository, name: BranchName, request: CommitRequest) -> Commit:
        """Commit everything staged on the branch at some moment of this call.

        Raises:
            InvalidInputError: `NO_CHANGES`: nothing staged makes a difference, and `allow_empty` is off.
        """

        async def build(attempt: Attempt) -> Commit:
            base = await self._parts.base_tree(repo, attempt.started)
            tree, changed = await self._new_tree(attempt, base, take_staged=request.take_staged)
            if not changed and not request.allow_empty:
                attempt.clean = True
                raise InvalidInputError(ErrorKind.NO_CHANGES, f"no changes to commit on branch {name}")
            return await store_commit(
                self._parts, attempt, request, tree=tree, parents=(attempt.started.commit_id,)
            )

        return await self._heads.run(repo, name, build)

    async def commit_tree(
        self, repo: Repository, name: BranchName, request: CommitRequest, tree: MetarangeId
    ) -> Commit:
        """Commit the tree of another commit. The branch must be clean.

        No other tree will do: a collector knows what a commit names and what an operation reads, and may have let go
        whatever else lies in the store.

        Raises:
            NotFoundError: no commit has that tree, or those that have it have expired.
        """
        source = await self._parts.commits.find_by_tree(repo, tree)

        async def build(attempt: Attempt) -> Commit:
            await self._heads.require_clean(attempt)
            if tree == await self._parts.base_tree(repo, attempt.started) and not request.allow_empty:
                raise InvalidInputError(ErrorKind.NO_CHANGES, f"branch {name} has that tree already")
            return await store_commit(
                self._parts, attempt, request, tree=tree, parents=(attempt.started.commit_id,)
            )

        return await self._heads.run(repo, name, build, reads=(source,))

    async def _new_tree(
        self, attempt: Attempt, base: MetarangeId, *, take_staged: bool
    ) -> tuple[MetarangeId, bool]:
        """Return the tree to commit, and whether it differs from `base`: for a user, or at all if all is taken."""
        started, compacted = attempt.started, attempt.started.compacted
        if compacted is not None and not started.sealed and started.compacted_counts is not None:
            changed = take_staged or started.compacted_counts.total > 0
            return compacted if changed else base, changed
        trees = await self._parts.trees_of(attempt.repo)
        changes = self._parts.staging.reader.scan(attempt.repo, started)
        if compacted is None:
            applied = await trees.apply(base, changes, nonce=attempt.nonce, exact=take_staged)
            return applied.id, applied.id != base if take_staged else applied.counts.total > 0
        if not take_staged:
            changes = alike_kept(self._parts, trees, base, changes)
        applied = await trees.apply(compacted, changes, nonce=attempt.nonce, exact=True)
        if take_staged:
            return applied.id, applied.id != base
        async for _ in trees.diff(base, applied.id):
            return applied.id, True
        return base, False


async def store_commit(
    parts: Parts,
    attempt: Attempt,
    request: CommitRequest,
    *,
    tree: MetarangeId,
    parents: tuple[CommitId, ...],
) -> Commit:
    """Write the commit record of an attempt and return it. It is nobody's HEAD yet.

    Raises:
        UnavailableError: `STORE_UNAVAILABLE`: an earlier try wrote the same commit, was taken for dead, and the
            collector has let the commit go. Asked again, the operation makes another one.
    """
    commit = await parts.commits.create(
        attempt.repo,
        committer=request.committer,
        message=request.message,
        tree=tree,
        date=commit_date(parts, request.date),
        metadata=dict(request.metadata),
        parents=parents,
        nonce=attempt.nonce,
    )
    if commit.condemned_by:
        raise UnavailableError(
            ErrorKind.STORE_UNAVAILABLE,
            f"committing to {attempt.started.name} was held up for so long that it was given up: try again",
        )
    return commit
