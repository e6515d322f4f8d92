"""Moving the HEAD of a branch. Order matters.

    1. begin    swap: seal the staging token, add an entry to `pending`; then read the commits
                it names again: none may be condemned
    2. build    the new tree and its commit record, under names that carry the attempt's nonce
    3. finish   swap: if the entry still stands, the commit and `compacted` are unchanged and the layers
                seen in 1 are still the oldest suffix of `sealed`: HEAD moves, those layers retire

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
    UnavailableError,
    is_unknown,
)
from lakebed.limits import BACKOFF_MAX_SECONDS, BACKOFF_SECONDS, COMMIT_ATTEMPTS_MAX, PENDING_TIMEOUT_SECONDS
from lakebed.model.branch import Branch
from lakebed.model.commits import Commit
from lakebed.model.ids import BranchName, CommitId, Nonce
from lakebed.model.repository import Repository
from lakebed.model.stash import Stash
from lakebed.staging.reader import LayersMovedError
from lakebed.staging.record import abandon, begin, finish, renew
from lakebed.telemetry.log import get_logger
from lakebed.versioning.parts import Parts
from lakebed.versioning.turns import Turns
from lakebed.versioning.uncommitted import is_clean

log = get_logger(__name__)


@dataclass(slots=True)
class Attempt:
    """One try at a new HEAD: the record it started from, and the name that all tries of one operation work under.

    The name stays, so that what one try has written can serve the next, protected without a gap.
    """

    repo: Repository
    started: Branch
    nonce: Nonce
    clean: bool = False
    stash: Stash | None = None
    """The stash that `build` has written and the last swap is to name."""


Build = Callable[[Attempt], Awaitable[Commit]]
"""Makes the new HEAD's commit (already stored) for an attempt."""


class HeadChanges:
    """The one way to move a branch's HEAD."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._turns = Turns(parts.clock)

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
            UnavailableError: `OUTCOME_UNKNOWN`: nobody can tell whether HEAD moved.
        """
        nonce = Nonce(self._parts.ids.token())
        async with self._turns.join(repo, name) as turn:
            for number in range(COMMIT_ATTEMPTS_MAX):
                turn.begin()
                attempt = await self._begin(repo, name, nonce, reads, again=number > 0)
                commit = await self._build(attempt, build)
                if commit is not None and await self._finish(attempt, commit):
                    turn.won(contended=len(attempt.started.pending) > 1)
                    return commit
                await turn.lost()
                await self._back_off(number)
        raise ConflictError(
            ErrorKind.TOO_MANY_RETRIES,
            f"branch {name} moved {COMMIT_ATTEMPTS_MAX} times while a new HEAD was built: try again",
        )

    async def require_clean(self, attempt: Attempt) -> None:
        """Raise `InvalidInputError` (`DIRTY_BRANCH`) if the branch has uncommitted changes."""
        if not await is_clean(self._parts, attempt.repo, attempt.started):
            raise InvalidInputError(
                ErrorKind.DIRTY_BRANCH,
                f"branch {attempt.started.name} has uncommitted changes: commit or reset them first",
            )
        attempt.clean = True

    async def _begin(
        self, repo: Repository, name: BranchName, nonce: Nonce, reads: tuple[CommitId, ...], *, again: bool
    ) -> Attempt:
        # The entry of an earlier try may stand; only one made from now on says that this one has sealed.
        due = await self._parts.kv.now() if again else Instant(0)

        def has_begun(branch: Branch) -> bool:
            entry = branch.pending.get(nonce)
            commits = (branch.commit_id, *reads)
            return entry is not None and entry.commits == commits and entry.renewed_at >= due

        begun = await self._parts.branches.update(
            repo,
            name,
            lambda branch, now: begin(branch, nonce, (branch.commit_id, *reads), now),
            landed=has_begun,
        )
        started = replace(begun.value, staging_token=None)
        for commit_id in (started.commit_id, *reads):
            await self._parts.commits.require_standing(repo, commit_id)
        return Attempt(repo=repo, started=started, nonce=nonce)

    async def _build(self, attempt: Attempt, build: Build) -> Commit | None:
        """Return what `build` makes; None if the layers it was reading have left the branch meanwhile."""
        try:
            async with self._renewing(attempt):
                return await build(attempt)
        except LayersMovedError:
            return None
        except (LakebedError, asyncio.CancelledError):
            # What is left behind otherwise times out: nothing depends on this.
            await asyncio.shield(self._abandon(attempt))
            raise

    async def _finish(self, attempt: Attempt, commit: Commit) -> bool:
        """Return whether HEAD is (or was) `commit`; False means that nothing happened and another try may."""
        try:
            await self._parts.branches.update(
                attempt.repo,
                attempt.started.name,
                lambda branch, now: finish(
                    branch,
                    attempt.nonce,
                    started=attempt.started,
                    commit_id=commit.id,
                    now=now,
                    stash=attempt.stash,
                ),
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

    async def _abandon(self, attempt: Attempt) -> None:
        await self._parts.branches.update(
            attempt.repo,
            attempt.started.name,
            lambda branch, now: abandon(
                branch, attempt.nonce, started=attempt.started, clean=attempt.clean, now=now
            ),
            landed=lambda branch: attempt.nonce not in branch.pending,
        )

    @asynccontextmanager
    async def _renewing(self, attempt: Attempt) -> AsyncIterator[None]:
        task = asyncio.create_task(self._renew(attempt))
        try:
            yield
        finally:
            task.cancel()

    async def _renew(self, attempt: Attempt) -> None:
        seconds = PENDING_TIMEOUT_SECONDS / 2
        while True:
            await self._parts.clock.sleep(seconds)
            try:
                await self._renew_once(attempt)
            except LakebedError:
                # There is time for more than one try before the entry is taken for a dead owner's.
                seconds = PENDING_TIMEOUT_SECONDS / 20
            else:
                seconds = PENDING_TIMEOUT_SECONDS / 2

    async def _renew_once(self, attempt: Attempt) -> None:
        due = await self._parts.kv.now()

        def is_renewed(branch: Branch) -> bool:
            entry = branch.pending.get(attempt.nonce)
            return entry is None or entry.renewed_at >= due

        await self._parts.branches.update(
            attempt.repo,
            attempt.started.name,
            lambda branch, now: renew(branch, attempt.nonce, now),
            landed=is_renewed,
        )

    async def _back_off(self, attempt: int) -> None:
        seconds = min(BACKOFF_SECONDS * 2**attempt, BACKOFF_MAX_SECONDS)
        await self._parts.clock.sleep(seconds * self._parts.ids.jitter())


def commit_date(parts: Parts, date: int | None) -> int:
    """Return the client's date of a commit (Unix seconds), or the present."""
    return date if date is not None else parts.clock.now() // SECOND
