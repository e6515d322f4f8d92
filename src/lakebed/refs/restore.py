"""Refs and commits written back from a dump.

Commits come before the refs that name them. A restore never overwrites a record, and run again it goes on
where it stopped. One ref that cannot come back does not keep the others from it: it is reported.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from lakebed.errors import AlreadyExistsError, ConflictError, ErrorKind, NotFoundError
from lakebed.format.dump import DumpedBranch, DumpedTag
from lakebed.model.commits import Commit
from lakebed.model.ids import CommitId
from lakebed.model.repository import Repository
from lakebed.refs.branches import Branches
from lakebed.refs.commits import Commits
from lakebed.refs.tags import Tags

# Refs that an error message lists; the report of a restore has all of them.
_LISTED_MAX = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class UnrestoredRef:
    """A ref of a dump that could not be brought back, and why."""

    kind: str
    """`branch` or `tag`."""
    name: str
    commit_id: CommitId
    reason: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name}: {self.reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RefsRestored:
    """How much a restore has read, and what of it is not back."""

    commits: int
    branches: int
    tags: int
    unrestored: tuple[UnrestoredRef, ...] = ()


class RefsRestorer:
    """Writes what a dump holds into a repository."""

    def __init__(self, *, branches: Branches, tags: Tags, commits: Commits) -> None:
        self._branches = branches
        self._tags = tags
        self._commits = commits

    async def add_commits(self, repo: Repository, commits: Sequence[Commit]) -> None:
        """Write commits.

        Raises:
            AlreadyExistsError: `COMMIT_EXISTS`: the repository has another commit with the same id.
        """
        await self._commits.add_many(repo, commits)

    async def add_refs(
        self, repo: Repository, branches: Sequence[DumpedBranch], tags: Sequence[DumpedTag]
    ) -> tuple[UnrestoredRef, ...]:
        """Create branches and tags whose commits are there; return those that could not be.

        A name that is a branch and a tag in the dump becomes both again.
        """
        both = {branch.name for branch in branches} & {tag.name for tag in tags}
        unrestored: list[UnrestoredRef] = []
        refs: list[DumpedBranch | DumpedTag] = [*branches, *tags]
        for ref in refs:
            kind = "branch" if isinstance(ref, DumpedBranch) else "tag"
            try:
                await self._add(repo, ref, beside=ref.name in both)
            except (AlreadyExistsError, NotFoundError) as error:
                unrestored.append(
                    UnrestoredRef(kind=kind, name=ref.name, commit_id=ref.commit_id, reason=str(error))
                )
        return tuple(unrestored)

    async def _add(self, repo: Repository, ref: DumpedBranch | DumpedTag, *, beside: bool) -> None:
        """Create a ref, unless it is there already and the same."""
        try:
            match ref:
                case DumpedBranch():
                    await self._branches.create(
                        repo, ref.name, ref.commit_id, hidden=ref.hidden, beside_tag=beside
                    )
                case DumpedTag():
                    await self._tags.create(repo, ref.name, ref.commit_id, beside_branch=beside)
        except AlreadyExistsError:
            if await self._find(repo, ref) != ref:
                raise

    async def _find(self, repo: Repository, ref: DumpedBranch | DumpedTag) -> DumpedBranch | DumpedTag | None:
        try:
            match ref:
                case DumpedBranch():
                    branch = (await self._branches.get(repo, ref.name)).value
                    return DumpedBranch(name=branch.name, commit_id=branch.commit_id, hidden=branch.hidden)
                case DumpedTag():
                    tag = await self._tags.get(repo, ref.name)
                    return DumpedTag(name=tag.name, commit_id=tag.commit_id)
        except NotFoundError:
            return None


def require_restored(repo: Repository, restored: RefsRestored) -> None:
    """Raise `ConflictError` (`RESTORE_INCOMPLETE`) if refs could not be restored: the others are back."""
    if restored.unrestored:
        raise ConflictError(ErrorKind.RESTORE_INCOMPLETE, summary(repo.name, restored))


def summary(repo_name: str, restored: RefsRestored) -> str:
    """Return which refs are not back, for people."""
    lost = restored.unrestored
    listed = "; ".join(map(str, lost[:_LISTED_MAX]))
    more = f"; and {len(lost) - _LISTED_MAX} more" if len(lost) > _LISTED_MAX else ""
    refs = restored.branches + restored.tags
    return f"{len(lost)} of {refs} refs could not be restored into {repo_name}, all others are back. {listed}{more}"
