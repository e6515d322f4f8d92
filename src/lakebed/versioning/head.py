"""Moving the HEAD of a branch. Order matters.

    1. begin    swap: seal the staging token, add an entry to `pending`, unless somebody who has lost is to go
                first (`turns`); then read the commits it names again: none may be condemned
    2. build    the new tree and its commit record, under names that carry the operation's nonce; the entry is
                renewed meanwhile. Whoever finds it gone, or the repository deleted, stops building
    3. finish   swap: if the entry still stands, the commit and `compacted` are unchanged and the layers
                seen in 1 are still the oldest suffix of `sealed`: HEAD moves, those layers retire

Whatever ends an operation before 3 has moved HEAD (an error, a bug, a caller who has gone) removes its entry at
once. If nobody knows whether 1 has put it there, the record is swapped once more in any case: a copy of 1 that
is still on its way then comes too late.

Crash after 1: an entry that times out, a sealed layer that the next operation takes along.
Crash after 2: the same, and files and a commit record that no one references; garbage collection knows
them by their nonce.
Crash after 3: done; the retired layers drain.

There is no lock. Whoever loses 3, or finds in 2 that its layers have left the branch, starts
over on the new base, and someone has won; `turns` sees to it that it is not always the same.
Layers that arrive on top between 1 and 3 do not matter. Commit, merge, revert, cherry-pick,
import and hard reset differ only in 2.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from lakebed.env.clock import SECOND, Instant
from lakebed.errors import (
    ConflictError,
    ErrorKind,
    InvalidInputError,
    LakebedError,
    NotFoundError,
    UnavailableError,
    is_unknown,
)
from lakebed.limits import BACKOFF_SECONDS, COMMIT_ATTEMPTS_MAX, PENDING_TIMEOUT_SECONDS
from lakebed.model.branch import Branch, Pending
from lakebed.model.commits import Commit
from lakebed.model.ids import BranchName, CommitId, Nonce
from lakebed.model.repository import Repository
from lakebed.model.stash import Stash
from lakebed.refs.repositories import Repositories
from lakebed.refs.versioned import Versioned
from lakebed.staging.reader import LayersMovedError
from lakebed.staging.record import abandon, begin, finish, next_in_line, renew
from lakebed.telemetry.log import get_logger
from lakebed.versioning.parts import Parts
from lakebed.versioning.turns import Turn, Turns
from lakebed.versioning.uncommitted import is_clean

log = get_logger(__name__)

_DOUBLINGS_MAX = 2
# How often an operation that ends tries to remove its entry: somebody waits for the answer.
_GIVE_UP_ATTEMPTS = 2


@dataclass(slots=True)
class Attempt:
    """One try at a new HEAD: the record it started from, and the name that all tries of one operation work under.

    The name stays, so that what one try has written can serve the next, protected without a gap. Where there was
    one, because the operation was taken for dead, it goes on under another name, and begins from nothing.
    """

    repo: Repository
    started: Branch
    nonce: Nonce
    clean: bool = False
    stash: Stash | None = None
    """The stash that `build` has written and the last swap is to name."""


Build = Callable[[Attempt], Awaitable[Commit]]
"""Makes the new HEAD's commit (already stored) for an attempt."""


@dataclass(slots=True)
class _Operation:
    """All tries of one call."""

    repo: Repository
    name: BranchName
    reads: tuple[CommitId, ...]
    turn: Turn
    nonce: Nonce
    since: Instant | None = None
    """When it came, by the database's clock."""
    sent: bool = False
    """Whether its entry may be in the record, or on its way there."""
    attempt: Attempt | None = None
    """The try that has begun."""
    forgotten: bool = False
    """Whether its entry was removed by another: its files are no longer safe."""


class _ForgottenError(Exception):
    """The operation's entry has gone between two tries."""


class _OtherFirstError(Exception):
    """Somebody who came earlier and has lost is to begin first."""

    def __init__(self, entry: Pending) -> None:
        super().__init__("another operation is next in line")
        self.entry = entry


class HeadChanges:
    """The one way to move a branch's HEAD."""

    def __init__(self, parts: Parts, repositories: Repositories) -> None:
        self._parts = parts
        self._repositories = repositories
        self._turns = Turns(parts.clock, parts.ids)

    async def run(
        self,
        repo: Repository,
        name: BranchName,
        build: Build,
        *,
        reads: tuple[CommitId, ...] = (),
    ) -> Commit:
        """Move HEAD to what `build` makes; `reads` are commits it uses beside the branch's own.

        Raises:
            ConflictError: `TOO_MANY_RETRIES`: lost too many races in a row.
            NotFoundError: a commit that it reads has expired; the branch or the repository was deleted meanwhile.
            UnavailableError: `OUTCOME_UNKNOWN`: nobody can tell whether HEAD moved.
        """
        async with self._turns.join(repo, name) as turn:
            operation = _Operation(repo, name, reads, turn, self._new_nonce())
            try:
                return await self._race(operation, build)
            except (Exception, asyncio.CancelledError):
                # Shielded, because it is a caller who goes away that leaves most behind.
                await asyncio.shield(self._give_up(operation))
                raise

    async def require_clean(self, attempt: Attempt) -> None:
        """Raise `InvalidInputError` (`DIRTY_BRANCH`) if the branch has uncommitted changes."""
        if not await is_clean(self._parts, attempt.repo, attempt.started):
            raise InvalidInputError(
                ErrorKind.DIRTY_BRANCH,
                f"branch {attempt.started.name} has uncommitted changes: commit or reset them first",
            )
        attempt.clean = True

    async def _race(self, operation: _Operation, build: Build) -> Commit:
        for number in range(COMMIT_ATTEMPTS_MAX):
            attempt = await self._begin(operation)
            commit = await self._build(operation, attempt, build)
            if commit is not None and await self._finish(operation, attempt, commit):
                return commit
            if operation.forgotten:
                self._rename(operation)
            operation.turn.lost()
            await self._back_off(number)
        raise ConflictError(
            ErrorKind.TOO_MANY_RETRIES,
            f"branch {operation.name} moved {COMMIT_ATTEMPTS_MAX} times while a new HEAD was built: try again",
        )

    async def _begin(self, operation: _Operation) -> Attempt:
        repo, reads = operation.repo, operation.reads
        operation.attempt = None
        try:
            begun = await self._add_entry(operation)
        except _ForgottenError:
            self._rename(operation)
            begun = await self._add_entry(operation)
        started = replace(begun.value, staging_token=None)
        attempt = operation.attempt = Attempt(repo=repo, started=started, nonce=operation.nonce)
        for commit_id in (started.commit_id, *reads):
            await self._parts.commits.require_standing(repo, commit_id)
        return attempt

    async def _add_entry(self, operation: _Operation) -> Versioned[Branch]:
        nonce, reads, turn = operation.nonce, operation.reads, operation.turn
        stood = operation.sent
        # The entry of an earlier try may stand; only one made from now on says that this one has sealed.
        due = await self._parts.kv.now() if stood else Instant(0)

        def change(branch: Branch, now: Instant) -> Branch:
            if stood and nonce not in branch.pending:
                raise _ForgottenError
            since = operation.since = operation.since or now
            first = next_in_line(branch, nonce, since, now)
            if first is not None and turn.lets(*first):
                raise _OtherFirstError(first[1])
            commits = (branch.commit_id, *reads)
            begun = begin(branch, nonce, commits, now, since=since, lost_seconds=turn.lost_seconds)
            operation.sent = True
            return begun

        def has_begun(branch: Branch) -> bool:
            entry = branch.pending.get(nonce)
            commits = (branch.commit_id, *reads)
            return entry is not None and entry.commits == commits and entry.renewed_at >= due

        while True:
            turn.begin()
            try:
                return await self._parts.branches.update(
                    operation.repo, operation.name, change, landed=has_begun
                )
            except _OtherFirstError as error:
                await turn.wait(error.entry)
            except LakebedError as error:
                operation.sent = stood or is_unknown(error)
                raise

    async def _build(self, operation: _Operation, attempt: Attempt, build: Build) -> Commit | None:
        """Return what `build` makes; None if that is worth nothing any more: its layers or its entry have gone."""
        stop = asyncio.timeout(None)
        try:
            async with stop, self._renewing(attempt, stop):
                return await build(attempt)
        except LayersMovedError:
            return None
        except TimeoutError:
            if not stop.expired():
                raise
            await self._require_live(attempt.repo)
            operation.forgotten = True
            return None

    async def _finish(self, operation: _Operation, attempt: Attempt, commit: Commit) -> bool:
        """Return whether HEAD is (or was) `commit`; False means that nothing happened and another try may."""

        def change(branch: Branch, now: Instant) -> Branch:
            operation.forgotten = attempt.nonce not in branch.pending
            return finish(
                branch,
                attempt.nonce,
                started=attempt.started,
                commit_id=commit.id,
                now=now,
                stash=attempt.stash,
            )

        try:
            await self._parts.branches.update(
                attempt.repo,
                attempt.started.name,
                change,
                landed=lambda branch: (
                    attempt.nonce not in branch.pending
                    and branch.commit_id == commit.id
                    and (attempt.stash is None or attempt.stash.id in branch.stashes)
                ),
            )
        except ConflictError as error:
            if error.kind is not ErrorKind.VERSION_CHANGED:
                raise
            return False
        except UnavailableError as error:
            # Only a commit of one's own says by standing in the history that it was put there by this call.
            own = commit.nonce == attempt.nonce
            if not is_unknown(error) or not own or not await self._became_head(attempt, commit):
                raise
        return True

    async def _became_head(self, attempt: Attempt, commit: Commit) -> bool:
        """Return whether `commit` is known to have become HEAD, with others built on it since."""
        try:
            return await self._is_in_history(attempt, commit)
        except LakebedError:
            return False

    async def _is_in_history(self, attempt: Attempt, commit: Commit) -> bool:
        branch = (await self._parts.branches.get(attempt.repo, attempt.started.name)).value
        current = await self._parts.commits.get(attempt.repo, branch.commit_id)
        while current.id != commit.id and current.generation > commit.generation and current.parents:
            current = await self._parts.commits.get(attempt.repo, current.parents[0])
        return current.id == commit.id

    async def _give_up(self, operation: _Operation) -> None:
        """Remove the operation's entry. Where that fails, it times out: nothing depends on this."""
        for number in range(_GIVE_UP_ATTEMPTS if operation.sent else 0):
            try:
                await self._remove_entry(operation)
            except UnavailableError as error:
                log.info("head_change_left_pending", branch=operation.name, error=str(error))
                await self._back_off(number)
            except LakebedError:
                return  # The branch has gone, and the entry with it.
            else:
                return

    async def _remove_entry(self, operation: _Operation) -> None:
        attempt, nonce = operation.attempt, operation.nonce
        clean = attempt.started if attempt is not None and attempt.clean else None
        fenced = attempt is not None

        def change(branch: Branch, now: Instant) -> Branch:
            left = abandon(branch, nonce, clean=clean, now=now)
            # Another version is all that it takes.
            return replace(left) if not fenced else left

        await self._parts.branches.update(
            operation.repo,
            operation.name,
            change,
            landed=lambda branch: fenced and nonce not in branch.pending,
        )

    @asynccontextmanager
    async def _renewing(self, attempt: Attempt, stop: asyncio.Timeout) -> AsyncIterator[None]:
        task = asyncio.create_task(self._renew(attempt, stop))
        try:
            yield
        finally:
            task.cancel()

    async def _renew(self, attempt: Attempt, stop: asyncio.Timeout) -> None:
        """Renew the entry of an attempt for as long as it is there; then let it stop."""
        seconds = PENDING_TIMEOUT_SECONDS / 2
        while True:
            await self._parts.clock.sleep(seconds)
            seconds = PENDING_TIMEOUT_SECONDS / 2
            try:
                await self._require_live(attempt.repo)
                stands = await self._renew_once(attempt)
            except NotFoundError:
                stands = False
            except LakebedError:
                # There is time for more than one try before the entry is taken for a dead owner's.
                seconds = PENDING_TIMEOUT_SECONDS / 20
                continue
            if not stands:
                stop.reschedule(asyncio.get_running_loop().time())
                return

    async def _renew_once(self, attempt: Attempt) -> bool:
        due = await self._parts.kv.now()

        def is_renewed(branch: Branch) -> bool:
            entry = branch.pending.get(attempt.nonce)
            return entry is None or entry.renewed_at >= due

        renewed = await self._parts.branches.update(
            attempt.repo,
            attempt.started.name,
            lambda branch, now: renew(branch, attempt.nonce, now),
            landed=is_renewed,
        )
        return attempt.nonce in renewed.value.pending

    async def _require_live(self, repo: Repository) -> None:
        """Raise `NotFoundError` if the repository was deleted, whoever has its name now."""
        if (await self._repositories.get(repo.name)).uid != repo.uid:
            raise NotFoundError(ErrorKind.REPO_NOT_FOUND, f"repository {repo.name} was deleted")

    async def _back_off(self, attempt: int) -> None:
        # Not for long: others let the one go first that has lost, as soon as it says so.
        seconds = BACKOFF_SECONDS * 2 ** min(attempt, _DOUBLINGS_MAX)
        await self._parts.clock.sleep(seconds * self._parts.ids.jitter())

    def _rename(self, operation: _Operation) -> None:
        """Let an operation go on under another name: whatever it wrote under the old one may be gone."""
        operation.nonce, operation.sent, operation.forgotten = self._new_nonce(), False, False

    def _new_nonce(self) -> Nonce:
        return Nonce(self._parts.ids.token())


def commit_date(parts: Parts, date: int | None) -> int:
    """Return the client's date of a commit (Unix seconds), or the present."""
    return date if date is not None else parts.clock.now() // SECOND
