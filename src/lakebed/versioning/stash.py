"""Stash and pop: uncommitted changes put aside and laid over a branch again.

Stash:
    1. begin    as for a new HEAD: seal, and keep what is sealed in place
    2. record   `stashes/<id>`, tentative: names the token of 3 for the collector and the sweep, invisible to others
    3. copy     the differences against the commit, tombstones included, into rows of that token
    4. reset    swap: drop the layers, keep HEAD, and name the stash; only now it counts
    5. confirm  swap the record to standing, then take its name out of the branch

Crash before 4: a tentative record that no branch names; `sweep` removes it and its rows after a grace,
once the branch no longer holds the operation as pending, so that 4 can no longer happen.
Crash after 4: the branch names the stash, and whoever lists stashes does 5.

Pop:
    1. claim    swap the record to popped, with the branch it goes to; no one else can take it then
    2. append   swap: the stash's token becomes the newest sealed layer, recognised by its name

Crash after 1: popping it again into the same branch goes on with 2. The popped record stays for one
grace, as a root for the collector.
"""

from collections.abc import AsyncIterator
from dataclasses import replace

from lakebed.env.clock import Instant, after
from lakebed.errors import ConflictError, ErrorKind, InvalidInputError, NotFoundError
from lakebed.format.blocks import block_changes
from lakebed.format.records import decode_stash, encode_stash
from lakebed.format.rows import OPEN_KEY, OPEN_VALUE, encode_row, row_key
from lakebed.kv.port import Expect, Item, Row, Version, prefix_end
from lakebed.limits import GRACE_SECONDS
from lakebed.model.branch import Branch
from lakebed.model.commits import Commit
from lakebed.model.ids import BranchName, Nonce
from lakebed.model.layers import TokenLayer
from lakebed.model.repository import Repository
from lakebed.model.stash import Stash, StashState
from lakebed.refs.keys import STASHES_PREFIX, stash_key
from lakebed.staging.record import knows_token, push_layer, seal
from lakebed.staging.writer import new_token
from lakebed.versioning.head import Attempt, HeadChanges
from lakebed.versioning.parts import Parts
from lakebed.versioning.uncommitted import diff_as_changes, diff_uncommitted


class Stashes:
    """Puts uncommitted changes aside and brings them back."""

    def __init__(self, parts: Parts, heads: HeadChanges) -> None:
        self._parts = parts
        self._heads = heads

    async def stash(self, repo: Repository, name: BranchName, *, message: str = "") -> Stash:
        """Put everything uncommitted on the branch aside.

        Raises:
            InvalidInputError: `NO_CHANGES`.
        """
        made: Stash | None = None

        async def build(attempt: Attempt) -> Commit:
            nonlocal made
            made = await self._write(attempt, message)
            return await self._parts.commits.get(repo, attempt.started.commit_id)

        await self._heads.run(repo, name, build, stashes=True)
        assert made is not None, "build ran, or run raised"
        await self._confirm(repo, made.id)
        return replace(made, state=StashState.STANDING)

    async def list(self, repo: Repository) -> list[Stash]:
        """Return the stashes of a repository, oldest first."""
        found = []
        async for item in self._items(repo):
            stash = decode_stash(item.value)
            if stash.state is StashState.TENTATIVE and await self._is_named(repo, stash):
                await self._confirm(repo, stash.id)
                stash = replace(stash, state=StashState.STANDING)
            if stash.state is StashState.STANDING:
                found.append(stash)
        return sorted(found, key=lambda stash: stash.at)

    async def pop(self, repo: Repository, stash_id: Nonce, *, into: BranchName | None = None) -> Stash:
        """Lay a stash over a branch (the one it came from, unless `into` says another), on top of what is staged.

        Raises:
            NotFoundError: `STASH_NOT_FOUND`: no such stash, or it was popped before.
        """
        stash = await self._claim(repo, stash_id, into)
        await self._parts.branches.update(
            repo,
            stash.branch,
            lambda branch, _now: push_layer(seal(branch), stash.layer.token),
            landed=lambda branch: knows_token(branch, stash.layer.token),
        )
        return stash

    async def sweep(self, repo: Repository) -> int:
        """Remove records that no longer matter: popped a grace ago, or never completed. Return how many."""
        removed = 0
        oldest = after(await self._parts.kv.now(), -GRACE_SECONDS)
        async for item in self._items(repo):
            stash = decode_stash(item.value)
            if (
                stash.at >= oldest
                or stash.state is StashState.STANDING
                or await self._may_complete(repo, stash)
            ):
                continue
            if stash.state is StashState.TENTATIVE:
                await self._parts.kv.drop(stash.layer.token, first=[OPEN_KEY])
            await self._parts.kv.delete_rows(repo.partition, [item.key])
            removed += 1
        return removed

    async def _write(self, attempt: Attempt, message: str) -> Stash:
        repo, started = attempt.repo, attempt.started
        stash = await self._record(attempt, message)
        empty = True
        async for block in diff_uncommitted(self._parts, repo, started):
            changes = block_changes(diff_as_changes(block))
            rows = [Row(row_key(c.path), encode_row(c, attempt.nonce)) for c in changes]
            await self._parts.kv.set_rows(stash.layer.token, [Row(OPEN_KEY, OPEN_VALUE), *rows])
            empty = False
        if empty:
            attempt.clean = True
            await self._parts.kv.delete_rows(repo.partition, [stash_key(stash.id)])
            raise InvalidInputError(ErrorKind.NO_CHANGES, f"branch {started.name} has nothing to stash")
        return stash

    async def _record(self, attempt: Attempt, message: str) -> Stash:
        """Write the tentative record. A later try of the same operation replaces it, with a token of its own."""
        repo, started = attempt.repo, attempt.started
        key = stash_key(attempt.nonce)
        before = await self._parts.kv.get(repo.partition, key)
        if before is not None:
            await self._parts.kv.drop(decode_stash(before.value).layer.token, first=[OPEN_KEY])
        stash = Stash(
            id=attempt.nonce,
            branch=started.name,
            base=started.commit_id,
            layer=TokenLayer(token=new_token(repo, started.name, self._parts.ids), seq=0),
            message=message,
            state=StashState.TENTATIVE,
            at=await self._parts.kv.now(),
        )
        expected = before.version if before is not None else Expect.ABSENT
        await self._parts.kv.swap(repo.partition, key, encode_stash(stash), expected=expected)
        return stash

    async def _confirm(self, repo: Repository, stash_id: Nonce) -> None:
        stash, version = await self._get(repo, stash_id)
        if stash.state is StashState.TENTATIVE:
            await self._swap(repo, replace(stash, state=StashState.STANDING), version)
        await self._parts.branches.update(
            repo,
            stash.branch,
            lambda branch, _now: replace(branch, stashes=tuple(s for s in branch.stashes if s != stash_id)),
            landed=lambda branch: stash_id not in branch.stashes,
        )

    async def _claim(self, repo: Repository, stash_id: Nonce, into: BranchName | None) -> Stash:
        stash, version = await self._get(repo, stash_id)
        if stash.state is StashState.TENTATIVE and await self._is_named(repo, stash):
            await self._confirm(repo, stash_id)
            stash, version = await self._get(repo, stash_id)
        target = into or stash.branch
        now = await self._parts.kv.now()
        if stash.state is StashState.POPPED and stash.branch == target and not _is_old(stash, now):
            return stash
        if stash.state is not StashState.STANDING:
            raise _not_found(repo, stash_id)
        await self._parts.branches.get(repo, target)
        popped = replace(stash, state=StashState.POPPED, branch=target, at=now)
        try:
            await self._swap(repo, popped, version)
        except ConflictError as error:
            raise _not_found(repo, stash_id) from error
        return popped

    async def _may_complete(self, repo: Repository, stash: Stash) -> bool:
        found = await self._parts.branches.find(repo, stash.branch)
        branch = found.value if found is not None else None
        return isinstance(branch, Branch) and (stash.id in branch.stashes or stash.id in branch.pending)

    async def _is_named(self, repo: Repository, stash: Stash) -> bool:
        found = await self._parts.branches.find(repo, stash.branch)
        return found is not None and isinstance(found.value, Branch) and stash.id in found.value.stashes

    async def _get(self, repo: Repository, stash_id: Nonce) -> tuple[Stash, Version]:
        item = await self._parts.kv.get(repo.partition, stash_key(stash_id))
        if item is None:
            raise _not_found(repo, stash_id)
        return decode_stash(item.value), item.version

    async def _swap(self, repo: Repository, stash: Stash, version: Version) -> None:
        await self._parts.kv.swap(repo.partition, stash_key(stash.id), encode_stash(stash), expected=version)

    async def _items(self, repo: Repository) -> AsyncIterator[Item]:
        async for page in self._parts.kv.scan(
            repo.partition, start=STASHES_PREFIX, end=prefix_end(STASHES_PREFIX)
        ):
            for item in page.items():
                yield item


def _is_old(stash: Stash, now: Instant) -> bool:
    return after(stash.at, GRACE_SECONDS) < now


def _not_found(repo: Repository, stash_id: Nonce) -> NotFoundError:
    return NotFoundError(
        ErrorKind.STASH_NOT_FOUND,
        f"there is no stash {stash_id!r} in {repo.name}: `lakebed stash list` shows them",
    )
