"""Branch records: read, swapped, created, deleted, listed.

A branch record is the single truth about its branch and changes only by a swap
of exactly the version that was read. `update` is the one loop that does so, and
`lifecycle` says how a branch comes to be and goes. Deleting moves its layers to
`retired` in the very swap to the tombstone; a branch created under the name
again while the tombstone is there carries the retired layers and all counters on, so
that nothing of the old one is lost, dropped too early, or numbered twice. The same goes
for compacted trees. The cleaner removes a tombstone that has nothing left to free.
Whatever gives a record something for maintenance to do enters it into the `todo` index first.
"""

from collections.abc import Callable
from dataclasses import replace

from lakebed.env.clock import Clock, Instant
from lakebed.env.ids import IdSource
from lakebed.errors import (
    ConflictError,
    DeniedError,
    ErrorKind,
    LakebedError,
    NotFoundError,
    UnavailableError,
    is_unknown,
)
from lakebed.format.records import decode_branch, encode_branch
from lakebed.kv.port import KVStore, NamesFence, Version
from lakebed.limits import LIST_PAGE_DEFAULT, SWAP_ATTEMPTS_MAX
from lakebed.model.branch import Branch, BranchRecord, DeletedBranch
from lakebed.model.changed import changed
from lakebed.model.ids import BranchName, CommitId, Nonce
from lakebed.model.layers import Layer, RetiredLayer, TokenLayer
from lakebed.model.repository import Repository
from lakebed.model.segments import era_at
from lakebed.refs.backoff import back_off
from lakebed.refs.keys import BRANCHES_PREFIX, branch_key
from lakebed.refs.lifecycle import RefKind, RefLifecycle
from lakebed.refs.listing import Listing
from lakebed.refs.names import require_no_commit, require_no_tag
from lakebed.refs.scans import scan_records
from lakebed.refs.todo import TodoIndex
from lakebed.refs.versioned import Versioned


class Branches:
    """The branches of every repository in one KV store."""

    def __init__(self, kv: KVStore, *, clock: Clock, ids: IdSource) -> None:
        self._kv = kv
        self._clock = clock
        self._ids = ids
        self._todo = TodoIndex(kv, clock=clock, ids=ids)
        self._lifecycle = RefLifecycle(_KIND, kv, clock=clock, ids=ids, enter=self._todo.enter)

    async def get(self, repo: Repository, name: BranchName) -> Versioned[Branch]:
        """Return a branch that everyone can see. One KV read.

        Raises:
            NotFoundError: `BRANCH_NOT_FOUND`.
        """
        found = await self._lifecycle.visible(repo, name)
        if found is None:
            raise NotFoundError(ErrorKind.BRANCH_NOT_FOUND, f"branch {name!r} not found in {repo.name}")
        return found

    async def find(self, repo: Repository, name: BranchName) -> Versioned[BranchRecord] | None:
        """Return the record as it is: of a deleted or tentative branch, too."""
        item = await self._kv.get(repo.partition, branch_key(name))
        return Versioned(decode_branch(item.value), item.version) if item is not None else None

    async def swap(self, repo: Repository, old: Versioned[Branch], new: Branch) -> Versioned[Branch]:
        """Replace `old` by `new`, once. All three outcomes of the KV's `swap` are the caller's to handle."""
        return await self._swap(repo, old, new, await self._kv.now())

    async def update(
        self,
        repo: Repository,
        name: BranchName,
        change: Callable[[Branch, Instant], Branch],
        *,
        landed: Callable[[Branch], bool],
    ) -> Versioned[Branch]:
        """Swap `change(current, now)` in until it sticks, and return what stuck.

        `landed` says whether a record carries the result of this very call, so that
        a lost reply is recognised and nothing is done twice. `change` returns its
        argument itself for "nothing to do", and may raise to stop.

        Raises:
            NotFoundError: `BRANCH_NOT_FOUND`.
            ConflictError: `TOO_MANY_RETRIES`.
            UnavailableError: `OUTCOME_UNKNOWN`: the change may have been made, and the record has moved on since.
        """
        unsure: Version | None = None
        for attempt in range(SWAP_ATTEMPTS_MAX):
            try:
                current = await self.get(repo, name)
                if landed(current.value):
                    return current
                if unsure not in (None, current.version):
                    raise _unknown(name)
                now = await self._kv.now()
                new = change(current.value, now)
            except LakebedError as error:
                if unsure is None or is_unknown(error):
                    raise
                raise _unknown(name) from error
            if new is current.value:
                return current
            try:
                return await self._swap(repo, current, new, now)
            except ConflictError:
                pass  # If `unsure`, what won may be an own earlier swap: the next read tells.
            except UnavailableError as error:
                if unsure is None and not is_unknown(error):
                    raise
                unsure = current.version
            await back_off(attempt, clock=self._clock, ids=self._ids)
        if unsure is not None:
            raise _unknown(name)
        raise ConflictError(
            ErrorKind.TOO_MANY_RETRIES, f"branch {name!r} is changed by too many at once: try again later"
        )

    def fence(self, repo: Repository, branch: Branch, *, commit: bool = False) -> NamesFence:
        """Return a fence on the branch's staging token, and on its commit if asked."""
        assert branch.staging_token is not None, "rows are written to a staging token or not at all"
        names = branch_names(branch)
        return NamesFence(
            partition=repo.partition, key=branch_key(branch.name), names=names if commit else names[:1]
        )

    async def create(
        self,
        repo: Repository,
        name: BranchName,
        commit_id: CommitId,
        *,
        hidden: bool = False,
        beside_tag: bool = False,
    ) -> Versioned[Branch]:
        """Create a branch on a commit; `beside_tag` allows a tag of the same name.

        Raises:
            AlreadyExistsError: the name is a branch, a tag or the id of a commit.
            NotFoundError: `COMMIT_NOT_FOUND`: no such commit, or one that is being collected.
            UnavailableError: `OUTCOME_UNKNOWN`: it may have been created, and the name has changed hands since.
        """
        if not beside_tag:
            await require_no_tag(self._kv, repo, name)
        await require_no_commit(self._kv, repo, name)

        def make(nonce: Nonce, previous: DeletedBranch | None, now: Instant) -> Branch:
            return new_branch(
                name, commit_id, nonce, now=now, previous=previous, hidden=hidden, tentative=True
            )

        return await self._lifecycle.create(repo, name, make)

    async def delete(self, repo: Repository, name: BranchName) -> Branch:
        """Delete a branch, and return it as it was. Its layers stay readable for a grace period.

        Raises:
            NotFoundError: `BRANCH_NOT_FOUND`.
            DeniedError: `DEFAULT_BRANCH`.
        """
        require_not_default(repo, name)
        return await self._lifecycle.delete(repo, name)

    async def list(
        self,
        repo: Repository,
        *,
        prefix: str = "",
        after: str = "",
        amount: int = LIST_PAGE_DEFAULT,
        show_hidden: bool = False,
    ) -> Listing[Branch]:
        """Return the branches whose name begins with `prefix` and is greater than `after`, by name."""
        results: list[Branch] = []
        async for items in scan_records(
            self._kv, repo.partition, BRANCHES_PREFIX, prefix=prefix, after=after, page_items_max=amount + 1
        ):
            for item in items:
                branch = await self._listed(repo, item.value)
                if branch is None or (branch.hidden and not show_hidden):
                    continue
                if len(results) == amount:
                    return Listing(results=tuple(results), has_more=True)
                results.append(branch)
        return Listing(results=tuple(results), has_more=False)

    async def list_by_commit(self, repo: Repository) -> tuple[Branch, ...]:
        """Return every branch, hidden ones too, in order of commit id, then of name."""
        found = [
            branch
            async for items in scan_records(self._kv, repo.partition, BRANCHES_PREFIX)
            for item in items
            if (branch := await self._listed(repo, item.value)) is not None
        ]
        return tuple(sorted(found, key=lambda branch: (branch.commit_id, branch.name)))

    async def _listed(self, repo: Repository, value: bytes) -> Branch | None:
        record = decode_branch(value)
        if isinstance(record, DeletedBranch):
            return None
        if not record.tentative:
            return record
        found = await self._lifecycle.visible(repo, record.name)
        return found.value if found is not None else None

    async def _swap(
        self, repo: Repository, old: Versioned[Branch], new: Branch, now: Instant
    ) -> Versioned[Branch]:
        assert (new.name, new.incarnation) == (old.value.name, old.value.incarnation)
        entered = await self._todo.enter(repo.partition, old.value, new)
        stamped = changed(entered, updated_at=later(old.value.updated_at, now))
        version = await self._kv.swap(
            repo.partition,
            branch_key(new.name),
            encode_branch(stamped),
            expected=old.version,
            names=branch_names(stamped),
        )
        return Versioned(stamped, version)


def new_branch(
    name: BranchName,
    commit_id: CommitId,
    nonce: Nonce,
    *,
    now: Instant,
    previous: DeletedBranch | None = None,
    hidden: bool = False,
    tentative: bool = False,
) -> Branch:
    """Return a branch on `commit_id` with nothing staged, which carries on what a namesake left behind."""
    fresh = Branch(
        name=name,
        incarnation=nonce,
        commit_id=commit_id,
        # Segments for this branch are stored from now on: of older eras it takes none.
        min_era=era_at(now) - 1,
        hidden=hidden,
        tentative=tentative,
        created_by=nonce,
        updated_at=now,
    )
    if previous is None:
        return fresh
    return replace(
        fresh,
        next_seq=previous.next_seq,
        last_token=previous.last_token,
        min_era=max(fresh.min_era, previous.min_era),
        retired=previous.retired,
        retired_trees=previous.retired_trees,
        updated_at=later(previous.updated_at, now),
        indexed=previous.indexed,
    )


def bury(branch: Branch, now: Instant) -> DeletedBranch:
    """Return the tombstone of `branch`: every layer and tree it has retired, every counter kept."""
    layers: tuple[Layer, ...] = branch.sealed
    next_seq = branch.next_seq
    if branch.staging_token is not None:
        layers = (TokenLayer(token=branch.staging_token, seq=next_seq), *layers)
        next_seq += 1
    at = later(branch.updated_at, now)
    return DeletedBranch(
        name=branch.name,
        next_seq=next_seq,
        last_token=branch.last_token,
        min_era=branch.min_era,
        retired=(*branch.retired, *(RetiredLayer(layer=layer, at=at) for layer in layers)),
        updated_at=at,
        retired_trees=branch.with_tree_retired(at),
        indexed=branch.indexed,
    )


async def swapped_once(kv: KVStore, partition: str, new: BranchRecord, old: Versioned[BranchRecord]) -> bool:
    """Swap a record, live or deleted, once; False means look again, whether it was lost or nobody knows.

    For swaps that give a record nothing new to do: they put no entry into the `todo` index.
    """
    try:
        await kv.swap(
            partition,
            branch_key(new.name),
            encode_branch(new),
            expected=old.version,
            names=branch_names(new) if isinstance(new, Branch) else (),
        )
    except ConflictError:
        return False
    except UnavailableError as error:
        if not is_unknown(error):
            raise
        return False
    return True


def branch_names(branch: Branch) -> tuple[bytes, ...]:
    """Return what a fence on the branch can be compared with: its staging token and its commit."""
    return ((branch.staging_token or "").encode(), branch.commit_id.encode())


def later(previous: Instant, now: Instant) -> Instant:
    """Return `now`, or just after `previous` where the clock has gone back."""
    return max(Instant(previous + 1), now)


def _decode(data: bytes) -> tuple[Branch | None, DeletedBranch | None]:
    record = decode_branch(data)
    return (None, record) if isinstance(record, DeletedBranch) else (record, None)


def _publish(branch: Branch, now: Instant) -> Branch:
    return changed(branch, tentative=False, updated_at=later(branch.updated_at, now))


def _unknown(name: BranchName) -> LakebedError:
    return UnavailableError(
        ErrorKind.OUTCOME_UNKNOWN,
        f"branch {name!r} may have been changed, and somebody else changed it since: look before you try again",
    )


_KIND: RefKind[Branch, DeletedBranch] = RefKind(
    noun="branch",
    exists=ErrorKind.BRANCH_EXISTS,
    missing=ErrorKind.BRANCH_NOT_FOUND,
    key=lambda name: branch_key(BranchName(name)),
    decode=_decode,
    encode=encode_branch,
    encode_tombstone=encode_branch,
    names=branch_names,
    published=_publish,
    buried=bury,
)


def require_not_default(repo: Repository, name: BranchName) -> None:
    """Raise `DeniedError` (`DEFAULT_BRANCH`) for the branch that a repository cannot be without."""
    if name == repo.default_branch:
        raise DeniedError(
            ErrorKind.DEFAULT_BRANCH,
            f"{name!r} is the default branch of {repo.name} and cannot be deleted",
        )
