"""Copies of objects across refs and repositories, as the S3 endpoint makes them.

Inside a repository no bytes move: both paths name the same address (see `shared_addresses`).
Between repositories the bytes are carried over, because an object never lies in another
repository's namespace.
"""

from collections.abc import Callable
from dataclasses import dataclass

from msgspec.structs import replace

from lakebed.auth.actions import Action
from lakebed.auth.arns import object_arn
from lakebed.auth.caller import Caller
from lakebed.catalog.engine import Engine
from lakebed.catalog.late_uploads import remove_if_gone
from lakebed.catalog.shared_addresses import may_share
from lakebed.errors import NotFoundError
from lakebed.model.entries import Entry
from lakebed.model.ids import parse_path
from lakebed.model.repository import Repository
from lakebed.staging.conditions import Condition


@dataclass(frozen=True, slots=True, kw_only=True)
class CopySource:
    """What to copy."""

    repo_name: str
    ref: str
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyTarget:
    """Where a copy goes, and under which condition."""

    repo_name: str
    branch: str
    path: str
    condition: Condition | None = None


class Copies:
    """Use cases on copies."""

    def __init__(self, engine: Engine, caller: Caller) -> None:
        self._engine = engine
        self._caller = caller

    async def copy(
        self, source: CopySource, target: CopyTarget, *, change: Callable[[Entry], Entry]
    ) -> Entry:
        """Copy an object. `change` gets the source, and returns it as it shall be, or raises to refuse it."""
        self._caller.require(Action.READ_OBJECT, object_arn(source.repo_name, source.path))
        self._caller.require(Action.WRITE_OBJECT, object_arn(target.repo_name, target.path))
        engine = self._engine
        repo = await engine.repo(target.repo_name)
        branch = await engine.writable(repo, target.branch, action="staging_write")
        path = parse_path(target.path)
        await engine.parts.branches.get(repo, branch)
        source_repo = await engine.repo(source.repo_name)
        found = await engine.view.stat(
            source_repo, await engine.source(source_repo, source.ref), parse_path(source.path)
        )
        changed = change(found)
        now = await engine.parts.kv.now()
        address = found.address
        is_own = source_repo.uid == repo.uid
        if not (is_own and await may_share(engine, repo, source.ref, found)):
            address = engine.slices.next_address(now)
            await self._carry(source_repo, found, repo, address)
        copied = replace(changed, path=path, address=address, mtime=now)
        try:
            await engine.parts.staging.write(repo, branch, [copied], condition=target.condition)
        except NotFoundError:
            if address != found.address:
                await remove_if_gone(engine, repo, address)
            raise
        return copied

    async def _carry(self, source: Repository, entry: Entry, repo: Repository, address: str) -> None:
        engine = self._engine
        store = await engine.store_of(repo)
        if entry.is_external:
            outside = await engine.external.resolve(entry.address)
            chunks = outside.store.stream(outside.key)
        else:
            chunks = (await engine.store_of(source)).stream(entry.address)
        await store.put_stream(address, chunks)
