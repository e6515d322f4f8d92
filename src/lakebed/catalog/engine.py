"""`Engine`: the parts the use cases are made of, built once by the composition root."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path as FilePath

from lakebed.catalog.spool import Spool
from lakebed.compaction.service import CompactionService
from lakebed.env.work import Workers
from lakebed.errors import DeniedError, ErrorKind
from lakebed.gc.service import GarbageCollection
from lakebed.model.entries import Entry
from lakebed.model.ids import BranchName, Path, parse_branch_name, parse_repo_name
from lakebed.model.repository import Repository
from lakebed.objects.external import ExternalAddresses
from lakebed.objects.port import ObjectStore
from lakebed.objects.slices import SliceNamer
from lakebed.refs.agreement import Agreement
from lakebed.refs.automatic_dumps import AutomaticDumps
from lakebed.refs.dump import RefsDumper
from lakebed.refs.log import CommitLog
from lakebed.refs.owners import OpenStore, taken_over
from lakebed.refs.protection import STAGING_WRITE, Protection, blocks
from lakebed.refs.repositories import Repositories
from lakebed.refs.repository_metadata import RepositoryMetadata
from lakebed.refs.resolve import Resolver
from lakebed.refs.tags import Tags
from lakebed.refs.targets import Targets
from lakebed.versioning.commit import Committer
from lakebed.versioning.importing import Importer
from lakebed.versioning.merge import Merger
from lakebed.versioning.parts import Parts
from lakebed.versioning.readings import Readings
from lakebed.versioning.reset import Resetter
from lakebed.versioning.stash import Stashes
from lakebed.versioning.view import Source, View


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """Everything below the catalog, wired."""

    parts: Parts
    repositories: Repositories
    tags: Tags
    resolver: Resolver
    log: CommitLog
    protection: Protection
    metadata: RepositoryMetadata
    view: View
    readings: Readings
    targets: Targets
    committer: Committer
    merger: Merger
    resetter: Resetter
    stashes: Stashes
    importer: Importer
    dumper: RefsDumper
    automatic_dumps: AutomaticDumps
    compaction: CompactionService
    gc: GarbageCollection
    agreement: Agreement
    external: ExternalAddresses
    slices: SliceNamer
    store_of: Callable[[Repository], Awaitable[ObjectStore]]
    open_store: OpenStore
    """The store at a namespace that no repository has yet."""
    forget: Callable[[Repository], None]
    """Closes what this process has open of a repository that was deleted."""
    spool: Spool
    temp: FilePath
    """A folder for work in progress."""
    transfers: Workers
    """Threads for bytes that a client waits for: those of `parts` let everything else go first."""

    async def repo(self, name: str) -> Repository:
        """Return the live repository of that name, or raise `NotFoundError`."""
        return await self.repositories.get(parse_repo_name(name))

    async def shown(self, repo: Repository, name: BranchName, path: Path) -> Entry | None:
        """Return what a branch shows at a path now, staged or committed."""
        record = (await self.parts.branches.get(repo, name)).value
        return await self.view.find(repo, await self.view.source(repo, record), path)

    async def source(self, repo: Repository, ref: str) -> Source:
        """Return what a reader of `ref` sees."""
        return await self.view.of(repo, await self.resolver.resolve(repo, ref))

    async def writable(
        self, repo: Repository, branch: str, *, action: str, force: bool = False
    ) -> BranchName:
        """Return the branch's name if `action` (`staging_write`, `commit`) may be done on it.

        Raises:
            DeniedError: `READ_ONLY_REPO` (unless `force`), `PROTECTED_BRANCH`.
        """
        name = parse_branch_name(branch)
        require_writable(repo, force=force)
        if await self.protection.is_protected(repo, name, action):
            raise _protected(name, action)
        return name

    async def target(
        self, repo_name: str, branch: str, *, force: bool = False
    ) -> tuple[Repository, BranchName]:
        """Return the live repository and the branch's name if entries may be staged there; errors as for both above."""
        target = await self.targets.find(repo_name)
        name = parse_branch_name(branch)
        require_writable(target.repo, force=force)
        if blocks(target.protection, name, STAGING_WRITE):
            raise _protected(name, STAGING_WRITE)
        return target.repo, name


def _protected(name: BranchName, action: str) -> DeniedError:
    return DeniedError(
        ErrorKind.PROTECTED_BRANCH,
        f"branch {name} is protected against {action.replace('_', ' ')}: write to another branch and merge it, "
        "or remove the protection rule",
    )


def require_writable(repo: Repository, *, force: bool) -> None:
    """Refuse to change a repository that is read-only, unless the caller insists, or that is another installation's.

    Raises:
        DeniedError: `READ_ONLY_REPO`.
        FencedError: `REPO_TAKEN_OVER`, also with `force`.
    """
    if repo.taken_over_by:
        raise taken_over(repo, repo.taken_over_by)
    if repo.read_only and not force:
        raise DeniedError(ErrorKind.READ_ONLY_REPO, f"repository {repo.name} is read-only")
