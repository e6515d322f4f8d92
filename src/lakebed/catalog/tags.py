"""Tags: created, deleted, listed."""

from lakebed.auth.actions import Action
from lakebed.auth.arns import repository_arn, tag_arn
from lakebed.auth.caller import Caller
from lakebed.catalog.engine import Engine, require_writable
from lakebed.limits import LIST_PAGE_DEFAULT
from lakebed.model.commits import Tag
from lakebed.model.ids import parse_tag_name
from lakebed.refs.listing import Listing


class Tags:
    """Use cases on tags."""

    def __init__(self, engine: Engine, caller: Caller) -> None:
        self._engine = engine
        self._caller = caller

    async def create(self, repo_name: str, tag: str, ref: str, *, force: bool = False) -> Tag:
        """Name the commit of `ref`."""
        self._caller.require(Action.CREATE_TAG, tag_arn(repo_name, tag))
        repo = await self._engine.repo(repo_name)
        require_writable(repo, force=force)
        name = parse_tag_name(tag)
        return await self._engine.tags.create(
            repo, name, await self._engine.resolver.resolve_commit(repo, ref)
        )

    async def get(self, repo_name: str, tag: str) -> Tag:
        """Return a tag."""
        self._caller.require(Action.READ_TAG, tag_arn(repo_name, tag))
        repo = await self._engine.repo(repo_name)
        return await self._engine.tags.get(repo, parse_tag_name(tag))

    async def delete(self, repo_name: str, tag: str, *, force: bool = False) -> None:
        """Delete a tag; the commit stays."""
        self._caller.require(Action.DELETE_TAG, tag_arn(repo_name, tag))
        repo = await self._engine.repo(repo_name)
        require_writable(repo, force=force)
        await self._engine.tags.delete(repo, parse_tag_name(tag))

    async def list(
        self, repo_name: str, *, prefix: str = "", after: str = "", amount: int = LIST_PAGE_DEFAULT
    ) -> Listing[Tag]:
        """Return one page of tags by name."""
        self._caller.require(Action.LIST_TAGS, repository_arn(repo_name))
        repo = await self._engine.repo(repo_name)
        return await self._engine.tags.list(repo, prefix=prefix, after=after, amount=amount)
