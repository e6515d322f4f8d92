"""Symlink manifests: for each folder, a file that lists where its objects really lie.

Engines that read such manifests (Athena, Hive's `SymlinkTextInputFormat`) query a branch
without knowing about branches. A manifest is written anew each time.
"""

import polars as pl

from lakebed.auth.actions import Action
from lakebed.auth.arns import object_arn, repository_arn
from lakebed.auth.caller import Caller
from lakebed.catalog.engine import Engine, require_writable
from lakebed.limits import LIST_PAGE_MAX
from lakebed.model.ids import parse_branch_name
from lakebed.model.repository import Repository
from lakebed.objects.port import PutMode

_FOLDER = "_lakebed/symlinks"


class Symlinks:
    """Use cases on symlink manifests."""

    def __init__(self, engine: Engine, caller: Caller) -> None:
        self._engine = engine
        self._caller = caller

    async def create(self, repo_name: str, branch: str, prefix: str) -> str:
        """Write the manifests of everything below `prefix` and return the folder they are in."""
        self._caller.require(Action.LIST_OBJECTS, repository_arn(repo_name))
        self._caller.require_all(Action.WRITE_OBJECT, object_arn(repo_name, prefix))
        repo = await self._engine.repo(repo_name)
        require_writable(repo, force=False)
        name = parse_branch_name(branch)
        store = await self._engine.store_of(repo)
        root = f"{_FOLDER}/{name}"
        for folder, addresses in await self._folders(repo, name, prefix):
            key = f"{root}/{folder}symlink.txt"
            await store.put(key, "\n".join(addresses).encode(), when=PutMode.OVERWRITE)
        return f"{repo.namespace}/{root}/{prefix}"

    async def _folders(self, repo: Repository, branch: str, prefix: str) -> list[tuple[str, list[str]]]:
        """Return each folder (empty, or with a slash at its end) with the addresses of its objects."""
        blocks: list[pl.DataFrame] = []
        after = ""
        # All pages are of one record of the branch, which takes as long as there are objects.
        async with self._engine.parts.pins.held(repo, f"the export of {branch}") as held:
            source = await self._engine.source(repo, branch)
            while True:
                page = await self._engine.view.list(
                    repo, source, prefix=prefix, after=after, delimiter="", amount=LIST_PAGE_MAX
                )
                held.require()
                blocks.append(pl.DataFrame(pl.from_arrow(page.rows.select(["key", "address"]))))
                if not page.has_more:
                    break
                after = page.last
        full = (
            pl.when(pl.col("address").str.contains("://", literal=True))
            .then(pl.col("address"))
            .otherwise(pl.concat_str(pl.lit(f"{repo.namespace}/"), pl.col("address")))
        )
        grouped = (
            pl.concat(blocks)
            .with_columns(folder=pl.col("key").str.extract(r"(?s)^(.*/)").fill_null(""), full=full)
            .group_by("folder", maintain_order=True)
            .agg("full")
        )
        return list(zip(grouped["folder"].to_list(), grouped["full"].to_list(), strict=True))
