"""Stash, pop and drop: uncommitted changes put aside and laid over a branch again.

Stash:
    1. begin    as for a new HEAD: seal, and keep what is sealed in place
    2. store    the differences against the commit, tombstones included, as a segment that nobody refers to yet
                (`stash_layers`); each try writes its own
    3. record   `stashes/<id>`, tentative, invisible to others: names the segment and the operation of 1
    4. reset    swap: drop the layers, keep HEAD, and name the stash; only now it counts. Refused if the segment is of an
                era below the branch's `min_era`: a sweeper may have deleted it before 3
    5. confirm  swap the record to standing, then take its name out of the branch

Pop:
    1. claim    swap the record to popping, with the branch it goes to; no one else can take it then
    2. append   swap: the stash's layers become the newest sealed ones of exactly that branch, recognised by name. Whatever
                their era: the record has referred to them all the time. Only if the record, read after the branch, is
                popping still
    3. confirm  swap the record to popped

Drop:
    1. swap     a standing record to dropped: from here it can neither be listed nor popped
    2. free     `sweep`, after a grace: drop the rows of token layers, then remove the record. Until then it is a root for the
                collector and keeps its segments, for a scan that began before 1
A drop and a pop of one stash both begin with a swap of the version that they read, so only one of them happens.

| crash or loss after | what is left | who takes care of it |
|---|---|---|
| 2 | a segment of nobody | the sweeper of segments, when its era is over |
| 3 | a tentative record that no branch names | `sweep`, after a grace, once the branch no longer holds the operation as pending, so that 4 can no longer happen: dropped, then removed; the segment as above |
| 4 | a branch that names the stash | whoever lists or sweeps stashes does 5 |
| claim, append | a record that is popping | whoever lists, sweeps or pops it again goes on; the branch remembers the layers, live or retired (the cleaner lets nobody forget those of a stash that is popping) |
| claim, and the branch is deleted | the same | if its tombstone or namesake does not know the layers, append has not happened and never will: the stash stands again |
| drop's swap | a dropped record | `sweep` frees it after a grace |
| confirm | a popped record | `sweep` removes it after a grace; until then it is a root for the collector |

A popper that slept for long cannot append twice: if the record is still popping after the branch was read, the branch has not
forgotten the layers yet; and who makes it popped in between has changed the branch, so that the swap is lost.

Records of an older lakebed name a token with rows instead of a segment. They are popped and dropped in the same way.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import replace

from lakebed.env.clock import Instant, after
from lakebed.errors import (
    ConflictError,
    ErrorKind,
    InvalidInputError,
    LakebedError,
    NotFoundError,
    UnavailableError,
    is_unknown,
    quoted,
)
from lakebed.format.records import decode_stash, encode_stash
from lakebed.format.rows import OPEN_KEY
from lakebed.kv.port import Expect, Item, Version, prefix_end
from lakebed.limits import SWAP_ATTEMPTS_MAX
from lakebed.model.branch import Branch, BranchRecord
from lakebed.model.commits import Commit
from lakebed.model.ids import BranchName, Nonce
from lakebed.model.layers import TokenLayer, layer_name
from lakebed.model.repository import Repository
from lakebed.model.stash import Stash, StashState
from lakebed.refs.backoff import back_off
from lakebed.refs.keys import STASHES_PREFIX, stash_key
from lakebed.refs.settle import settled_swap
from lakebed.staging.record import push_layer, seal
from lakebed.versioning.head import Attempt, HeadChanges
from lakebed.versioning.parts import Parts
from lakebed.versioning.stash_layers import write_stash_layers


class Stashes:
    """Puts uncommitted changes aside and brings them back."""

    def __init__(self, parts: Parts, heads: HeadChanges) -> None:
        self._parts = parts
        self._heads = heads

    async def stash(self, repo: Repository, name: BranchName, *, message: str = "") -> Stash:
        """Put everything uncommitted on the branch aside.

        Raises:
            InvalidInputError: `NO_CHANGES`.
            UnavailableError: `OUTCOME_UNKNOWN`: it may be there; a list of the stashes tells.
        """
        made: Stash | None = None

        async def build(attempt: Attempt) -> Commit:
            nonlocal made
            if made is not None:
                await self._forget(repo, made)
            made = attempt.stash = await self._record(attempt, message)
            return await self._parts.commits.get(repo, attempt.started.commit_id)

        await self._heads.run(repo, name, build)
        assert made is not None, "build ran, or run raised"
        try:
            await self._confirm(repo, made.id)
        except LakebedError as error:
            raise UnavailableError(
                ErrorKind.OUTCOME_UNKNOWN,
                f"stash {made.id} of {name} was made, and may go with the branch: list the stashes to be sure",
            ) from error
        return replace(made, state=StashState.STANDING)

    async def list(self, repo: Repository) -> list[Stash]:
        """Return the stashes of a repository, oldest first."""
        found = []
        async for item in self._items(repo):
            with suppress(NotFoundError):  # It went while we looked.
                stash = await self._settle(repo, decode_stash(item.value), item.version)
                if stash.state is StashState.STANDING:
                    found.append(stash)
        return sorted(found, key=lambda stash: stash.at)

    async def get(self, repo: Repository, stash_id: Nonce) -> Stash:
        """Return the record of a stash, whatever its state.

        Raises:
            NotFoundError: `STASH_NOT_FOUND`.
        """
        return (await self._get(repo, stash_id))[0]

    async def pop(self, repo: Repository, stash_id: Nonce, *, into: BranchName | None = None) -> Stash:
        """Lay a stash over a branch (the one it came from, unless `into` says another), on top of what is staged.

        Raises:
            NotFoundError: `STASH_NOT_FOUND`: no such stash, or it was popped before.
        """
        for _ in range(SWAP_ATTEMPTS_MAX):
            stash, version = await self._get(repo, stash_id)
            stash = await self._settle(repo, stash, version)
            target = into or stash.branch
            if stash.state is StashState.POPPED and stash.branch == target:
                return stash
            if stash.state is StashState.POPPING:
                continue
            if stash.state is not StashState.STANDING:
                raise _not_found(repo, stash_id)
            branch = (await self._parts.branches.get(repo, target)).value
            popping = replace(stash, state=StashState.POPPING, branch=target, incarnation=branch.incarnation)
            claimed = await self._swap(repo, popping, version)
            if claimed == popping:
                return await self._append(repo, popping)
        raise _wanted(stash_id)

    async def drop(self, repo: Repository, stash_id: Nonce, *, allow: Callable[[Stash], None]) -> Stash:
        """Give a stash up for good; `allow` sees the record before it changes, and may refuse by raising.

        Raises:
            NotFoundError: `STASH_NOT_FOUND`: no such stash, or it was popped or dropped before.
        """
        for _ in range(SWAP_ATTEMPTS_MAX):
            stash, version = await self._get(repo, stash_id)
            stash = await self._settle(repo, stash, version)
            if stash.state in {StashState.POPPED, StashState.DROPPED}:
                raise _not_found(repo, stash_id)
            if stash.state is StashState.STANDING:
                allow(stash)
                # Settling may have changed the record: then its version is no longer this one, and the next try has it.
                dropped = replace(stash, state=StashState.DROPPED, at=await self._parts.kv.now())
                if (await self._swap(repo, dropped, version)).state is StashState.DROPPED:
                    return dropped
            elif stash.state is StashState.TENTATIVE:
                raise _not_found(repo, stash_id)
        raise _wanted(stash_id)

    async def sweep(self, repo: Repository) -> int:
        """Finish what is half-way, and remove records that no longer matter. Return how many."""
        removed = 0
        oldest = after(await self._parts.kv.now(), -self._parts.lifetimes.grace_seconds)
        async for item in self._items(repo):
            with suppress(NotFoundError):  # It went while we looked.
                removed += await self._sweep(repo, item, oldest)
        return removed

    async def _sweep(self, repo: Repository, item: Item, oldest: Instant) -> bool:
        stored = decode_stash(item.value)
        stash = await self._settle(repo, stored, item.version)
        if stash.state is StashState.DROPPED:
            if stash.at >= oldest:
                return False
            await self._drop(repo, stash)
            return True
        if stash.state is StashState.TENTATIVE and stash.at < oldest:
            if await self._may_complete(repo, stash):
                return False
            await self._forget(repo, stash)
            return True
        if stored.state is StashState.POPPED and stored.at < oldest:
            await self._parts.kv.delete_rows(repo.partition, [item.key])
            return True
        return False

    async def _record(self, attempt: Attempt, message: str) -> Stash:
        repo, started = attempt.repo, attempt.started
        layers = await write_stash_layers(self._parts, repo, started)
        if not layers:
            attempt.clean = True
            raise InvalidInputError(ErrorKind.NO_CHANGES, f"branch {started.name} has nothing to stash")
        stash = Stash(
            id=Nonce(self._parts.ids.token()),
            branch=started.name,
            base=started.commit_id,
            layer=layers[0],
            more=layers[1:],
            message=message,
            state=StashState.TENTATIVE,
            at=await self._parts.kv.now(),
            operation=attempt.nonce,
        )
        await self._parts.kv.swap(
            repo.partition,
            stash_key(stash.id),
            encode_stash(stash),
            expected=Expect.ABSENT,
        )
        return stash

    async def _settle(self, repo: Repository, stash: Stash, version: Version) -> Stash:
        """Finish what somebody has left half-way; return the stash as it is then."""
        if stash.state is StashState.TENTATIVE and await self._is_named(repo, stash):
            return await self._confirm(repo, stash.id)
        if stash.state is not StashState.POPPING:
            return stash
        record = await self._target(repo, stash)
        if isinstance(record, Branch) and record.incarnation == stash.incarnation:
            with suppress(NotFoundError):  # Deleted this moment: who looks next will see it.
                return await self._append(repo, stash)
            return stash
        # The branch is gone. If it had got the stash, its tombstone, or its namesake, remembers.
        appended = record is not None and _remembers(record, stash)
        state = StashState.POPPED if appended else StashState.STANDING
        settled = replace(stash, state=state, at=await self._parts.kv.now())
        return await self._swap(repo, settled, version)

    async def _confirm(self, repo: Repository, stash_id: Nonce) -> Stash:
        """Let a stash that its branch names stand, and take the name out of the branch."""
        stash, version = await self._get(repo, stash_id)
        if stash.state is StashState.TENTATIVE:
            stash = await self._swap(repo, replace(stash, state=StashState.STANDING), version)
        with suppress(LakebedError):  # The cleaner will do it: the branch is in the `todo` index.
            await self._clear_name(repo, stash.branch, stash_id)
        return stash

    async def _clear_name(self, repo: Repository, name: BranchName, stash_id: Nonce) -> None:
        """Take the name of a stash that no longer needs it out of a branch."""
        item = await self._parts.kv.get(repo.partition, stash_key(stash_id))
        if item is not None and decode_stash(item.value).state is StashState.TENTATIVE:
            return
        await self._parts.branches.update(
            repo,
            name,
            lambda branch, _now: replace(branch, stashes=tuple(s for s in branch.stashes if s != stash_id)),
            landed=lambda branch: stash_id not in branch.stashes,
        )

    async def _append(self, repo: Repository, stash: Stash) -> Stash:
        """Lay a stash that is popping over its branch, if nobody has yet; return it, popped."""
        unsure = False
        for attempt in range(SWAP_ATTEMPTS_MAX):
            try:
                if await self._append_once(repo, stash):
                    return await self._popped(repo, stash)
            except LakebedError as error:
                if not is_unknown(error) and not unsure:
                    raise
                if not is_unknown(error):
                    raise _unknown_pop(stash) from error
                unsure = True
            await back_off(attempt, clock=self._parts.clock, ids=self._parts.ids)
        raise _unknown_pop(stash)

    async def _append_once(self, repo: Repository, stash: Stash) -> bool:
        """Return whether the branch has, or had, the layers; False means look again."""
        found = await self._parts.branches.get(repo, stash.branch)
        if _remembers(found.value, stash):
            return True
        if found.value.incarnation != stash.incarnation:
            raise NotFoundError(
                ErrorKind.BRANCH_NOT_FOUND,
                f"branch {stash.branch} was deleted before stash {stash.id} was laid over it: pop it again",
            )
        # Asked after the branch was read; see above.
        state = (await self._get(repo, stash.id))[0].state
        if state is not StashState.POPPING:
            # Standing or dropped: the branch that was read is gone by now, and the next look says so.
            return state is StashState.POPPED
        laid = seal(found.value)
        for layer in stash.layers:
            laid = push_layer(laid, layer)
        try:
            await self._parts.branches.swap(repo, found, laid)
        except ConflictError:
            return False
        return True

    async def _popped(self, repo: Repository, stash: Stash) -> Stash:
        """Say that a stash was laid over its branch, if nobody has yet."""
        popped = replace(stash, state=StashState.POPPED)
        with suppress(LakebedError):  # It is done; who meets the record next will say so.
            current, version = await self._get(repo, stash.id)
            if current.state is StashState.POPPING:
                popped = await self._swap(repo, replace(popped, at=await self._parts.kv.now()), version)
        return popped

    async def _may_complete(self, repo: Repository, stash: Stash) -> bool:
        """Return whether a tentative stash is, or may still be, named by its branch."""
        record = await self._target(repo, stash)
        return isinstance(record, Branch) and (
            stash.id in record.stashes or stash.operation in record.pending
        )

    async def _is_named(self, repo: Repository, stash: Stash) -> bool:
        record = await self._target(repo, stash)
        return isinstance(record, Branch) and stash.id in record.stashes

    async def _target(self, repo: Repository, stash: Stash) -> BranchRecord | None:
        found = await self._parts.branches.find(repo, stash.branch)
        return found.value if found is not None else None

    async def _forget(self, repo: Repository, stash: Stash) -> None:
        """Remove a tentative stash that will never count. What fails is left to `sweep`."""
        with suppress(LakebedError):
            current, version = await self._get(repo, stash.id)
            if current.state is StashState.TENTATIVE:
                dropped = await self._swap(repo, replace(current, state=StashState.DROPPED), version)
                await self._drop(repo, dropped)

    async def _drop(self, repo: Repository, stash: Stash) -> None:
        if stash.state is StashState.DROPPED:
            for layer in stash.layers:
                if isinstance(layer, TokenLayer):
                    await self._parts.kv.drop(layer.token, first=[OPEN_KEY])
            await self._parts.kv.delete_rows(repo.partition, [stash_key(stash.id)])

    async def _get(self, repo: Repository, stash_id: Nonce) -> tuple[Stash, Version]:
        item = await self._parts.kv.get(repo.partition, stash_key(stash_id))
        if item is None:
            raise _not_found(repo, stash_id)
        return decode_stash(item.value), item.version

    async def _swap(self, repo: Repository, stash: Stash, version: Version) -> Stash:
        """Swap a stash's next state in; return it, or what somebody else has made of it meanwhile."""
        try:
            await settled_swap(
                self._parts.kv,
                repo.partition,
                stash_key(stash.id),
                encode_stash(stash),
                expected=version,
                clock=self._parts.clock,
                ids=self._parts.ids,
            )
        except ConflictError:
            return (await self._get(repo, stash.id))[0]
        return stash

    async def _items(self, repo: Repository) -> AsyncIterator[Item]:
        async for page in self._parts.kv.scan(
            repo.partition, start=STASHES_PREFIX, end=prefix_end(STASHES_PREFIX)
        ):
            for item in page.items():
                yield item


def _remembers(record: BranchRecord, stash: Stash) -> bool:
    """Return whether a branch has or had the layers; they came together, and may leave one by one."""
    live = record.sealed if isinstance(record, Branch) else ()
    known = {layer_name(layer) for layer in (*live, *(retired.layer for retired in record.retired))}
    return any(layer_name(layer) in known for layer in stash.layers)


def _unknown_pop(stash: Stash) -> UnavailableError:
    return UnavailableError(
        ErrorKind.OUTCOME_UNKNOWN,
        f"stash {stash.id} may have been laid over {stash.branch}: list the stashes to be sure",
    )


def _wanted(stash_id: Nonce) -> UnavailableError:
    return UnavailableError(ErrorKind.STORE_UNAVAILABLE, f"stash {stash_id} is wanted by too many: try again")


def _not_found(repo: Repository, stash_id: Nonce) -> NotFoundError:
    return NotFoundError(
        ErrorKind.STASH_NOT_FOUND,
        f"there is no stash {quoted(stash_id)} in {repo.name}: `lakebed stash list` shows them",
    )
