"""Commit records written as they are given: how a history moves between installations.

A record stands for a tree, so its metarange must be there, and it comes after its
parents. It is nobody's HEAD until a ref is put on it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from lakebed.auth.actions import Action
from lakebed.auth.arns import repository_arn
from lakebed.auth.caller import Caller
from lakebed.catalog.engine import Engine, require_writable
from lakebed.catalog.metadata_files import find_file
from lakebed.errors import ErrorKind, InvalidInputError
from lakebed.model.commits import Commit
from lakebed.model.ids import EMPTY_TREE, CommitId, MetarangeId, Nonce, is_commit_id


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
            NotFoundError: a parent or the metarange is not there.
            AlreadyExistsError: `COMMIT_EXISTS`: there is another commit with that id.
        """
        self._caller.require(Action.CREATE_COMMIT, repository_arn(repo_name))
        repo = await self._engine.repo(repo_name)
        require_writable(repo, force=force)
        for commit_id in (record.id, *record.parents):
            if not is_commit_id(commit_id):
                raise InvalidInputError(
                    ErrorKind.INVALID_ARGUMENT, f"commit id {commit_id!r} is not 64 hex digits"
                )
        commits = self._engine.parts.commits
        parents = await commits.get_many(repo, [CommitId(each) for each in record.parents])
        expected = max((each.generation for each in parents), default=0) + 1
        if record.generation != expected:
            raise InvalidInputError(
                ErrorKind.INVALID_ARGUMENT, f"generation must be {expected}: one more than the parents'"
            )
        if record.metarange != EMPTY_TREE:
            await find_file(self._engine, repo, "meta_range", record.metarange)
        # As for a tree that is committed by its id: see `Commits.commit`.
        await self._engine.gc.discard(repo)
        await commits.add(
            repo,
            Commit(
                id=CommitId(record.id),
                committer=record.committer,
                message=record.message,
                tree=MetarangeId(record.metarange),
                date=record.date,
                created_at=await self._engine.parts.kv.now(),
                parents=tuple(each.id for each in parents),
                generation=record.generation,
                nonce=Nonce(self._engine.parts.ids.token()),
                metadata=dict(record.metadata),
            ),
        )
        await self._engine.gc.discard(repo)
