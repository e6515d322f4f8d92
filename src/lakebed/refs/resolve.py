"""What a ref expression means right now.

The base is, in this order: a full commit id, a branch, a tag, the beginning of
exactly one commit's id. A plain branch, by far the most frequent ref, costs one KV
read, and the record that was read comes along, so that the reader who asked need
not read it again.
"""

from enum import Enum

import msgspec

from lakebed.errors import ErrorKind, InvalidInputError, NotFoundError, quoted
from lakebed.model.branch import Branch
from lakebed.model.ids import BranchName, CommitId, TagName, is_commit_id, parse_branch_name, parse_tag_name
from lakebed.model.repository import Repository
from lakebed.refs.branches import Branches
from lakebed.refs.commits import Commits
from lakebed.refs.expressions import RefExpression, Step, StepKind, View, parse_expression
from lakebed.refs.tags import Tags
from lakebed.refs.versioned import Versioned

_HEX = frozenset("0123456789abcdef")


class RefType(Enum):
    """What a resolved ref is."""

    BRANCH = "branch"
    TAG = "tag"
    COMMIT = "commit"


class ResolvedRef(msgspec.Struct, frozen=True, kw_only=True):
    """The commit a ref stands for, and for a branch the record it was taken from."""

    type: RefType
    commit_id: CommitId
    record: Versioned[Branch] | None = None
    view: View = View.PLAIN

    @property
    def branch(self) -> BranchName | None:
        """The branch the ref names, with or without `@` or `$`."""
        return self.record.value.name if self.record is not None else None

    @property
    def staged(self) -> bool:
        """Whether a reader of this ref sees uncommitted changes."""
        return self.record is not None and self.view is not View.COMMITTED

    def require_commit(self) -> CommitId:
        """Return the commit, where a staging view will not do.

        Raises:
            InvalidInputError: `NOT_A_COMMIT`.
        """
        if self.view is View.STAGED:
            raise InvalidInputError(
                ErrorKind.NOT_A_COMMIT,
                f"{self.branch}$ is what is staged on a branch: a commit is needed here",
            )
        return self.commit_id


class Resolver:
    """Resolves ref expressions."""

    def __init__(self, *, branches: Branches, tags: Tags, commits: Commits) -> None:
        self._branches = branches
        self._tags = tags
        self._commits = commits

    async def resolve(self, repo: Repository, text: str) -> ResolvedRef:
        """Return what the expression means.

        Raises:
            InvalidInputError: `INVALID_REF`: no expression, or `@` or `$` on something that is no branch;
                `PARENT_OUT_OF_RANGE`: a commit has fewer parents.
            NotFoundError: `REF_NOT_FOUND`: nothing or more than one thing of that name, or no such ancestor.
        """
        expression = parse_expression(text)
        base = await self._resolve_base(repo, expression, text)
        if expression.view is not View.PLAIN and base.type is not RefType.BRANCH:
            raise InvalidInputError(
                ErrorKind.INVALID_REF,
                f"{quoted(text)}: only a branch has a state {expression.view.value}",
                about=text,
            )
        if not expression.steps:
            return base
        commit_id = base.commit_id
        for step in expression.steps:
            commit_id = await self._take(repo, commit_id, step, text)
        return ResolvedRef(type=RefType.COMMIT, commit_id=commit_id)

    async def resolve_commit(self, repo: Repository, text: str) -> CommitId:
        """Return the commit of the expression; errors as for `resolve` and `require_commit`."""
        return (await self.resolve(repo, text)).require_commit()

    async def _resolve_base(self, repo: Repository, expression: RefExpression, text: str) -> ResolvedRef:
        base = expression.base
        if is_commit_id(base) and await self._commits.find(repo, base, limit=1):
            return ResolvedRef(type=RefType.COMMIT, commit_id=CommitId(base))
        record = await self._find_branch(repo, base)
        if record is not None:
            commit_id = record.value.commit_id
            return ResolvedRef(type=RefType.BRANCH, commit_id=commit_id, record=record, view=expression.view)
        tagged = await self._find_tag(repo, base)
        if tagged is not None:
            return ResolvedRef(type=RefType.TAG, commit_id=tagged)
        if not _HEX.issuperset(base):
            raise _not_found(f"ref {quoted(base)} not found in {repo.name}", text)
        return ResolvedRef(type=RefType.COMMIT, commit_id=await self._find_prefix(repo, base, text))

    async def _find_branch(self, repo: Repository, base: str) -> Versioned[Branch] | None:
        try:
            name = parse_branch_name(base)
        except InvalidInputError:
            return None
        try:
            return await self._branches.get(repo, name)
        except NotFoundError:
            return None

    async def _find_tag(self, repo: Repository, base: str) -> CommitId | None:
        try:
            name: TagName = parse_tag_name(base)
        except InvalidInputError:
            return None
        try:
            return (await self._tags.get(repo, name)).commit_id
        except NotFoundError:
            return None

    async def _find_prefix(self, repo: Repository, prefix: str, text: str) -> CommitId:
        found = await self._commits.find(repo, prefix, limit=2)
        if len(found) == 1:
            return found[0]
        why = (
            f"is the beginning of more than one commit id in {repo.name}: add characters"
            if found
            else f"not found in {repo.name}"
        )
        raise _not_found(f"ref {quoted(prefix)} {why}", text)

    async def _take(self, repo: Repository, commit_id: CommitId, step: Step, text: str) -> CommitId:
        match step.kind:
            case StepKind.ANCESTOR:
                for _ in range(step.number):
                    parents = (await self._commits.get(repo, commit_id)).parents
                    if not parents:
                        raise _not_found(f"{quoted(text)} goes back further than the first commit", text)
                    commit_id = parents[0]
                return commit_id
            case StepKind.PARENT:
                parents = (await self._commits.get(repo, commit_id)).parents
                if step.number > len(parents):
                    raise InvalidInputError(
                        ErrorKind.PARENT_OUT_OF_RANGE,
                        f"{quoted(text)}: commit {commit_id[:16]} has {len(parents)} parents",
                        about=text,
                    )
                return parents[step.number - 1] if step.number else commit_id


def _not_found(message: str, text: str) -> NotFoundError:
    return NotFoundError(ErrorKind.REF_NOT_FOUND, message, about=text)
