"""Dump of a repository's refs into its namespace, and restore into a bare repository.

Order matters in a dump: branches and tags are read before the commits, so that
every commit they point to is among those read after them. Nothing uncommitted is
dumped. A restore writes commits first, for the same reason; it never overwrites a
commit's record, and run again it goes on where it stopped.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from lakebed.env.ids import IdSource
from lakebed.env.work import Workers
from lakebed.errors import AlreadyExistsError, ErrorKind, InvalidInputError
from lakebed.format.dump import (
    DumpedBranch,
    DumpedTag,
    DumpKind,
    DumpWriter,
    read_branches,
    read_commits,
    read_tags,
)
from lakebed.limits import LIST_PAGE_MAX
from lakebed.model.repository import Repository
from lakebed.objects.port import ObjectStore
from lakebed.refs.branches import Branches
from lakebed.refs.commits import Commits
from lakebed.refs.owners import OpenStore
from lakebed.refs.tags import Tags

_FOLDER = "_lakebed/refs/"


@dataclass(frozen=True, slots=True, kw_only=True)
class RefsDump:
    """The names of a dump's files, without folder and ending."""

    commits: str
    branches: str
    tags: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RefsRestored:
    """How much a restore has read."""

    commits: int
    branches: int
    tags: int


class RefsDumper:
    """Dumps and restores refs."""

    def __init__(
        self,
        *,
        branches: Branches,
        tags: Tags,
        commits: Commits,
        open_store: OpenStore,
        workers: Workers,
        ids: IdSource,
    ) -> None:
        self._branches = branches
        self._tags = tags
        self._commits = commits
        self._open_store = open_store
        self._workers = workers
        self._ids = ids

    async def dump(self, repo: Repository) -> RefsDump:
        """Write the branches (hidden ones too), tags and commits of a repository into its namespace."""
        store = await self._open_store(repo.namespace)
        run = self._ids.token()
        dump = RefsDump(commits=f"{run}-commits", branches=f"{run}-branches", tags=f"{run}-tags")
        branches = DumpWriter(DumpKind.BRANCHES)
        branches.add_branches(await self._dumped_branches(repo))
        tags = DumpWriter(DumpKind.TAGS)
        tags.add_tags(await self._dumped_tags(repo))
        commits = DumpWriter(DumpKind.COMMITS)
        async for page in self._commits.scan(repo):
            await self._workers.run(commits.add_commits, page)
        files = ((dump.commits, commits), (dump.branches, branches), (dump.tags, tags))
        for name, writer in files:
            await store.put(_key(name), await self._workers.run(writer.finish))
        return dump

    async def restore(self, repo: Repository, dump: RefsDump) -> RefsRestored:
        """Bring the refs of a dump in the repository's namespace back.

        Raises:
            InvalidInputError: `INVALID_ARGUMENT`: the repository is not bare.
            NotFoundError: `KEY_NOT_FOUND`: there is no such dump.
            CorruptError: a file is damaged, or was written by a newer lakebed.
            AlreadyExistsError: the repository has another ref or commit of the same name.
        """
        if not repo.bare:
            raise InvalidInputError(
                ErrorKind.INVALID_ARGUMENT,
                f"refs are restored into a bare repository: create {repo.name} as bare in the namespace of the dump",
            )
        store = await self._open_store(repo.namespace)
        branches = await self._workers.run(read_branches, await store.get(_key(dump.branches)))
        tags = await self._workers.run(read_tags, await store.get(_key(dump.tags)))
        count = await self._restore_commits(repo, store, dump.commits)
        await self._restore_branches(repo, branches)
        await self._restore_tags(repo, tags)
        return RefsRestored(commits=count, branches=len(branches), tags=len(tags))

    async def _dumped_branches(self, repo: Repository) -> list[DumpedBranch]:
        found: list[DumpedBranch] = []
        more, after = True, ""
        while more:
            page = await self._branches.list(repo, after=after, amount=LIST_PAGE_MAX, show_hidden=True)
            found += [DumpedBranch(name=b.name, commit_id=b.commit_id, hidden=b.hidden) for b in page.results]
            more, after = page.has_more, found[-1].name if found else ""
        return found

    async def _dumped_tags(self, repo: Repository) -> list[DumpedTag]:
        found: list[DumpedTag] = []
        more, after = True, ""
        while more:
            page = await self._tags.list(repo, after=after, amount=LIST_PAGE_MAX)
            found += [DumpedTag(name=tag.name, commit_id=tag.commit_id) for tag in page.results]
            more, after = page.has_more, found[-1].name if found else ""
        return found

    async def _restore_commits(self, repo: Repository, store: ObjectStore, name: str) -> int:
        groups = read_commits(await store.get(_key(name)))
        count = 0
        while (commits := await self._workers.run(next, groups, None)) is not None:
            await self._commits.add_many(repo, commits)
            count += len(commits)
        return count

    async def _restore_branches(self, repo: Repository, branches: Sequence[DumpedBranch]) -> None:
        for each in branches:
            try:
                await self._branches.create(repo, each.name, each.commit_id, hidden=each.hidden)
            except AlreadyExistsError as error:
                if error.kind is not ErrorKind.BRANCH_EXISTS:
                    raise
                found = (await self._branches.get(repo, each.name)).value
                if (found.commit_id, found.hidden) != (each.commit_id, each.hidden):
                    raise

    async def _restore_tags(self, repo: Repository, tags: Sequence[DumpedTag]) -> None:
        for each in tags:
            try:
                await self._tags.create(repo, each.name, each.commit_id)
            except AlreadyExistsError as error:
                if error.kind is not ErrorKind.TAG_EXISTS:
                    raise
                if (await self._tags.get(repo, each.name)).commit_id != each.commit_id:
                    raise


def _key(name: str) -> str:
    return f"{_FOLDER}{name}.parquet"
