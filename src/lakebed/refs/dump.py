"""Dump of a repository's refs into its namespace, and restore into a bare repository.

Order of a dump:

    1. refs      branches and tags
    2. commits   all records: every commit that step 1 names is stored before its ref, so step 2 reads it
    3. state     the run record of garbage collection

Step 3 comes last: a condemnation that is final there was final, or became so, after its commit was read. Only
final condemnations are dumped. A collector condemns commits before it lists refs, and releases those that a
ref names: a dump between the two would otherwise hold refs on condemned commits, which no restore accepts. A
ref of step 1 that was deleted before step 2 may name a commit that is gone by now; then all is read again.

Nothing uncommitted is dumped. `restore` has the way back.
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from lakebed.env.ids import IdSource
from lakebed.env.work import Workers
from lakebed.errors import ConflictError, ErrorKind, InvalidInputError, NotFoundError
from lakebed.format.dump import (
    DumpedBranch,
    DumpedTag,
    DumpKind,
    DumpWriter,
    read_branches,
    read_commits,
    read_tags,
)
from lakebed.kv.port import KVStore
from lakebed.limits import LIST_PAGE_MAX, REFS_DUMP_ATTEMPTS_MAX
from lakebed.model.commits import Commit
from lakebed.model.gc import GcState
from lakebed.model.ids import CommitId
from lakebed.model.repository import Repository
from lakebed.refs.branches import Branches
from lakebed.refs.commits import Commits
from lakebed.refs.condemned import is_final, read_gc_state
from lakebed.refs.owners import OpenStore
from lakebed.refs.restore import RefsRestored, RefsRestorer
from lakebed.refs.tags import Tags

REFS_FOLDER = "_lakebed/refs/"

Progress: TypeAlias = Callable[[int], None]
"""Hears how many commits were written so far."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RefsDump:
    """The names of a dump's files, without folder and ending."""

    commits: str
    branches: str
    tags: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Heads:
    """Every visible ref of a repository, hidden branches too, by name."""

    branches: tuple[DumpedBranch, ...] = ()
    tags: tuple[DumpedTag, ...] = ()

    @property
    def commits(self) -> frozenset[CommitId]:
        """The commits that the refs name."""
        branches = (branch.commit_id for branch in self.branches)
        return frozenset((*branches, *(tag.commit_id for tag in self.tags)))


class RefsDumper:
    """Dumps and restores refs."""

    def __init__(
        self,
        kv: KVStore,
        *,
        branches: Branches,
        tags: Tags,
        commits: Commits,
        open_store: OpenStore,
        workers: Workers,
        ids: IdSource,
    ) -> None:
        self._kv = kv
        self._branches = branches
        self._tags = tags
        self._commits = commits
        self._open_store = open_store
        self._workers = workers
        self._ids = ids
        self.restorer = RefsRestorer(branches=branches, tags=tags, commits=commits)

    async def dump(self, repo: Repository, *, report: Progress = lambda _commits: None) -> RefsDump:
        """Write the branches (hidden ones too), tags and commits of a repository into its namespace."""
        store = await self._open_store(repo.namespace)
        run = self._ids.token()
        dump = RefsDump(
            commits=_name(run, "commits"), branches=_name(run, "branches"), tags=_name(run, "tags")
        )
        heads, commits = await self.read_all(repo, lambda _heads: DumpWriter(DumpKind.COMMITS), report=report)
        branches, tags = DumpWriter(DumpKind.BRANCHES), DumpWriter(DumpKind.TAGS)
        branches.add_branches(heads.branches)
        tags.add_tags(heads.tags)
        files = ((dump.commits, commits), (dump.branches, branches), (dump.tags, tags))
        for name, writer in files:
            await store.put(_key(name), await self._workers.run(writer.finish))
        return dump

    async def restore(
        self, repo: Repository, dump: RefsDump, *, report: Progress = lambda _commits: None
    ) -> RefsRestored:
        """Bring the refs of a dump in the repository's namespace back; say which of them cannot come back.

        Raises:
            InvalidInputError: `NOT_BARE`: the repository is not bare.
            NotFoundError: `KEY_NOT_FOUND`: there is no such dump.
            CorruptError: a file is damaged, or was written by a newer lakebed.
            AlreadyExistsError: `COMMIT_EXISTS`: the repository has another commit with the same id.
        """
        if not repo.bare:
            raise InvalidInputError(
                ErrorKind.NOT_BARE,
                f"refs are restored into a bare repository: create {repo.name} as bare in the namespace of the dump",
            )
        store = await self._open_store(repo.namespace)
        try:
            dumped = await store.get(_key(dump.branches))
        except NotFoundError as error:
            raise NotFoundError(
                ErrorKind.KEY_NOT_FOUND,
                f"{repo.namespace} has no refs dump {dump.branches!r}: create the bare repository in the namespace "
                "of the repository that was dumped",
            ) from error
        branches = await self._workers.run(read_branches, dumped)
        tags = await self._workers.run(read_tags, await store.get(_key(dump.tags)))
        groups = read_commits(await store.get(_key(dump.commits)))
        count = 0
        while (commits := await self._workers.run(next, groups, None)) is not None:
            await self.restorer.add_commits(repo, commits)
            count += len(commits)
            report(count)
        unrestored = await self.restorer.add_refs(repo, branches, tags)
        return RefsRestored(commits=count, branches=len(branches), tags=len(tags), unrestored=unrestored)

    async def heads(self, repo: Repository) -> Heads:
        """Read the branches and tags of a repository."""
        branches: list[DumpedBranch] = []
        more = True
        while more:
            after = branches[-1].name if branches else ""
            page = await self._branches.list(repo, after=after, amount=LIST_PAGE_MAX, show_hidden=True)
            branches += [
                DumpedBranch(name=b.name, commit_id=b.commit_id, hidden=b.hidden) for b in page.results
            ]
            more = page.has_more
        tags: list[DumpedTag] = []
        more = True
        while more:
            found = await self._tags.list(repo, after=tags[-1].name if tags else "", amount=LIST_PAGE_MAX)
            tags += [DumpedTag(name=tag.name, commit_id=tag.commit_id) for tag in found.results]
            more = found.has_more
        return Heads(branches=tuple(branches), tags=tuple(tags))

    async def read_all(
        self,
        repo: Repository,
        make: Callable[[Heads], DumpWriter],
        *,
        report: Progress = lambda _commits: None,
    ) -> tuple[Heads, DumpWriter]:
        """Return the refs of a repository, and the writer that `make` returns for them, with every commit added.

        Raises:
            ConflictError: `TOO_MANY_RETRIES`: refs were deleted and their commits collected during every attempt.
        """
        for _ in range(REFS_DUMP_ATTEMPTS_MAX):
            heads = await self.heads(repo)
            writer = await self._workers.run(make, heads)
            gone = await self._write_commits(repo, writer, report)
            if not gone & heads.commits:
                return heads, writer
        raise ConflictError(
            ErrorKind.TOO_MANY_RETRIES,
            f"refs of {repo.name} were deleted and their commits collected while it was dumped: try again",
        )

    async def _write_commits(
        self, repo: Repository, writer: DumpWriter, report: Progress
    ) -> frozenset[CommitId]:
        """Write every commit; return those that are condemned for ever.

        Commits that stand are written as they are read. Condemned ones wait for the run record, read at the end.
        """
        condemned: list[Commit] = []
        count = 0
        async for page in self._commits.scan(repo):
            condemned += [commit for commit in page if commit.condemned_by]
            standing = [commit for commit in page if not commit.condemned_by]
            await self._workers.run(writer.add_commits, standing)
            count += len(standing)
            report(count)
        state = await read_gc_state(self._kv, repo)
        settled = settle(condemned, state)
        await self._workers.run(writer.add_commits, settled)
        report(count + len(settled))
        return frozenset(commit.id for commit in settled if commit.condemned_by)


def settle(commits: Sequence[Commit], state: GcState) -> list[Commit]:
    """Return commits as a dump tells of them: condemned only if that is final."""
    return [
        replace(commit, condemned_by="")
        if commit.condemned_by and not is_final(state, commit.condemned_by)
        else commit
        for commit in commits
    ]


def _name(run: str, what: str) -> str:
    """Return the id of a file of a dump: 64 hex digits, as clients know them."""
    return hashlib.sha256(f"{run}-{what}".encode()).hexdigest()


def _key(name: str) -> str:
    return f"{REFS_FOLDER}{name}.parquet"
