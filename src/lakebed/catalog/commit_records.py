"""Commit records written as they are given: how a history moves between installations.

A record stands for a tree, which must be that of a standing commit of this repository (or the empty one), and it
comes after its parents. It is nobody's HEAD until a ref is put on it.

It is written in one step with a look at the commit whose tree it has. A collector condemns commits before it lists
them: so it has met the record, or the step has met the condemned commit, and nothing was written.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from lakebed.auth.actions import Action
from lakebed.auth.arns import repository_arn
from lakebed.auth.caller import Caller
from lakebed.catalog.engine import Engine, require_writable
from lakebed.errors import ConflictError, ErrorKind, InvalidInputError, NotFoundError, quoted
from lakebed.model.commits import Commit
from lakebed.model.ids import EMPTY_TREE, CommitId, MetarangeId, Nonce, is_commit_id
from lakebed.model.metadata import require_short, require_small
from lakebed.model.repository import Repository


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitRecord:
    """A commit as its author's installation had it."""

    id: str
    committer: str
    message: str
    metarange: str
    date: int
    parents: Sequence[str]
    generation: int
    metadata: Mapping[str, str] = field(default_factory=dict)


class CommitRecords:
    """Use cases on bare commit records."""

    def __init__(self, engine: Engine, caller: Caller) -> None:
        self._engine = engine
        self._caller = caller

    async def create(self, repo_name: str, record: CommitRecord, *, force: bool = False) -> None:
        """Write a commit's record.

        Raises:
            InvalidInputError: an id that is none, or a generation that does not follow the parents'.
            NotFoundError: a parent is not there; no commit has the metarange, or those that have it have expired.
            AlreadyExistsError: `COMMIT_EXISTS`: there is another commit with that id.
        """
        self._caller.require(Action.CREATE_COMMIT, repository_arn(repo_name))
        repo = await self._engine.repo(repo_name)
        require_writable(repo, force=force)
        for commit_id in (record.id, *record.parents):
            if not is_commit_id(commit_id):
                raise InvalidInputError(
                    ErrorKind.INVALID_ARGUMENT, f"commit id {quoted(commit_id)} is not 64 hex digits"
                )
        require_small(record.metadata)
        require_short(record.message)
        require_short(record.committer)
        commits = self._engine.parts.commits
        parents = await commits.get_many(repo, [CommitId(each) for each in record.parents])
        expected = max((each.generation for each in parents), default=0) + 1
        if record.generation != expected:
            raise InvalidInputError(
                ErrorKind.INVALID_ARGUMENT, f"generation must be {expected}: one more than the parents'"
            )
        tree = MetarangeId(record.metarange)
        commit = Commit(
            id=CommitId(record.id),
            committer=record.committer,
            message=record.message,
            tree=tree,
            date=record.date,
            created_at=await self._engine.parts.kv.now(),
            parents=tuple(each.id for each in parents),
            generation=record.generation,
            nonce=Nonce(self._engine.parts.ids.token()),
            metadata=dict(record.metadata),
        )
        if tree == EMPTY_TREE:
            await commits.add(repo, commit)
        else:
            await self._add_beside(repo, await commits.find_by_tree(repo, tree), commit)

    async def _add_beside(self, repo: Repository, source: CommitId, commit: Commit) -> None:
        """Write the record of a commit with the tree of `source`, while that stands."""
        commits = self._engine.parts.commits
        fence = await commits.require_standing(repo, source)
        try:
            await commits.add(repo, commit, fence=fence)
        except ConflictError as error:
            if error.kind is not ErrorKind.FENCE_LOST:
                raise
            raise NotFoundError(
                ErrorKind.COMMIT_NOT_FOUND,
                f"commit {source}, which has the metarange {commit.tree}, has just expired: choose that of a newer one",
            ) from error
