"""Repositories: created, deleted, listed, and their settings."""

from collections.abc import Mapping, Sequence

from lakebed.auth.actions import Action
from lakebed.auth.arns import namespace_arn, repository_arn
from lakebed.auth.caller import Caller
from lakebed.catalog.engine import Engine, require_writable
from lakebed.limits import LIST_PAGE_DEFAULT, STORAGE_COUNT_SECONDS
from lakebed.model.ids import parse_branch_name, parse_repo_name
from lakebed.model.repository import BranchProtection, Repository
from lakebed.refs.leftovers import StorageUse, measure
from lakebed.refs.listing import Listing


class Repositories:
    """Use cases on repositories."""

    def __init__(self, engine: Engine, caller: Caller) -> None:
        self._engine = engine
        self._caller = caller

    async def create(
        self,
        name: str,
        namespace: str,
        *,
        default_branch: str = "main",
        bare: bool = False,
        read_only: bool = False,
    ) -> Repository:
        """Create a repository in an empty namespace."""
        self._caller.require(Action.CREATE_REPOSITORY, repository_arn(name))
        # Policies name the one spelling that is stored.
        namespace = self._engine.repositories.places.namespace(namespace)
        self._caller.require(Action.ATTACH_STORAGE_NAMESPACE, namespace_arn(namespace))
        return await self._engine.repositories.create(
            parse_repo_name(name),
            namespace,
            default_branch=parse_branch_name(default_branch),
            bare=bare,
            read_only=read_only,
        )

    async def get(self, name: str) -> Repository:
        """Return a repository."""
        self._caller.require(Action.READ_REPOSITORY, repository_arn(name))
        return await self._engine.repo(name)

    async def list(
        self, *, prefix: str = "", after: str = "", search: str = "", amount: int = LIST_PAGE_DEFAULT
    ) -> Listing[Repository]:
        """Return one page of the repositories that the caller may see, by name; `search` may be anywhere in it."""
        found: list[Repository] = []
        while True:
            page = await self._engine.repositories.list(
                prefix=prefix, after=after, search=search, amount=amount
            )
            for repo in page.results:
                if not self._caller.may(Action.LIST_REPOSITORIES, repository_arn(repo.name)):
                    continue
                if len(found) == amount:
                    return Listing(results=tuple(found), has_more=True)
                found.append(repo)
            if not page.has_more:
                return Listing(results=tuple(found), has_more=False)
            after = page.results[-1].name

    async def delete(self, name: str, *, delete_data: bool = False, force: bool = False) -> None:
        """Delete a repository; its objects stay in the namespace unless `delete_data`.

        Bytes cannot be brought back, so deleting them also asks for what garbage collection asks for.
        """
        self._caller.require(Action.DELETE_REPOSITORY, repository_arn(name))
        if delete_data:
            self._caller.require(Action.RUN_GC, repository_arn(name))
        repo = await self._engine.repo(name)
        if delete_data or not (force and repo.taken_over_by):  # What is left of it here may always go.
            require_writable(repo, force=force)
        await self._engine.repositories.delete(repo, delete_data=delete_data)
        self._engine.forget(repo)

    async def storage_use(self, name: str) -> StorageUse:
        """Count what deleting a repository with its data would free; a large one is counted for a while only."""
        self._caller.require(Action.RUN_GC, repository_arn(name))
        store = await self._engine.store_of(await self._engine.repo(name))
        return await measure(store, clock=self._engine.parts.clock, seconds=STORAGE_COUNT_SECONDS)

    async def purge(self, namespace: str, *, dry_run: bool = False) -> StorageUse:
        """Delete what a repository that was deleted without its data has left in a namespace."""
        self._caller.require(Action.RUN_GC, repository_arn("*"))
        # Policies name the one spelling that is stored.
        namespace = self._engine.repositories.places.namespace(namespace)
        self._caller.require(Action.ATTACH_STORAGE_NAMESPACE, namespace_arn(namespace))
        return await self._engine.repositories.purge(namespace, dry_run=dry_run)

    async def metadata(self, name: str) -> Mapping[str, str]:
        """Return the repository's metadata."""
        self._caller.require(Action.READ_REPOSITORY, repository_arn(name))
        return await self._engine.metadata.get(await self._engine.repo(name))

    async def set_metadata(self, name: str, values: Mapping[str, str], *, force: bool = False) -> None:
        """Add or replace metadata."""
        self._caller.require(Action.UPDATE_REPOSITORY, repository_arn(name))
        repo = await self._engine.repo(name)
        require_writable(repo, force=force)
        await self._engine.metadata.set(repo, values)

    async def delete_metadata(self, name: str, keys: Sequence[str], *, force: bool = False) -> None:
        """Remove metadata."""
        self._caller.require(Action.UPDATE_REPOSITORY, repository_arn(name))
        repo = await self._engine.repo(name)
        require_writable(repo, force=force)
        await self._engine.metadata.delete(repo, keys)

    async def branch_protection(self, name: str) -> tuple[BranchProtection, str]:
        """Return the branch protection rules and their ETag ("" when there are none)."""
        self._caller.require(Action.GET_BRANCH_PROTECTION_RULES, repository_arn(name))
        return await self._engine.protection.get(await self._engine.repo(name))

    async def set_branch_protection(
        self, name: str, rules: BranchProtection, *, if_match: str | None = None, force: bool = False
    ) -> None:
        """Replace the branch protection rules, if their ETag still is `if_match` where that is given."""
        self._caller.require(Action.SET_BRANCH_PROTECTION_RULES, repository_arn(name))
        repo = await self._engine.repo(name)
        require_writable(repo, force=force)
        await self._engine.protection.set(repo, rules, if_match=if_match)
