"""`GarbageCollection`: everything that a collector asks of the engine, by repository.

The collector itself is a job elsewhere (`lakebed.spark.gc`): it lists the store, subtracts, and deletes. Here is decided
who may do so, what is live, and which commits are let go; `state`, `condemning` and `uncommitted` have the protocols.

Before a sweep deletes anything, in this order (`start_sweep`):

    1. dump     all refs into the namespace, with the commits that the mark has condemned for ever
    2. intent   `_lakebed/gc/<mark>/sweep-started`, beside the lists of what will be deleted
    3. check    the owners of the namespace: still this repository
    4. delete   by the job, which renews its lease before each batch; the server repeats 3 then

An installation that adopts the namespace creates its owner file, then reads intents, then the newest dump. If 3 came
first, it reads both, and restores no commit whose objects the sweep may delete. If 3 came later, 3 stops the sweep.
Crash after 1 or 2: the next sweep repeats them. 3 before 2 would let a sweep delete that the adopter knows nothing of.
"""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress

from lakebed.env.clock import SECOND, Instant
from lakebed.errors import (
    AlreadyExistsError,
    ErrorKind,
    InvalidInputError,
    NotFoundError,
    PreconditionError,
)
from lakebed.format.gc import SWEEP_STARTED, SweepStarted, sweep_started_key
from lakebed.gc import state as decisions
from lakebed.gc.commit_lists import CommitLists, PreparedCommits, RunToken
from lakebed.gc.cursor import Cursor, decode_cursor
from lakebed.gc.names import run_name
from lakebed.gc.run_record import RunRecords
from lakebed.gc.uncommitted import PreparedPage, UncommittedLists
from lakebed.model.gc import GcState, Lease, Mark, MarkKind, RunKind
from lakebed.model.repository import Repository
from lakebed.objects.port import ObjectStore
from lakebed.refs.automatic_dumps import AutomaticDumps
from lakebed.refs.owners import require_owned, taken_over
from lakebed.versioning.parts import Parts


class GarbageCollection:
    """The runs of all repositories."""

    def __init__(
        self,
        parts: Parts,
        store_of: Callable[[Repository], Awaitable[ObjectStore]],
        dumps: AutomaticDumps,
    ) -> None:
        self._parts = parts
        self._store_of = store_of
        self._dumps = dumps
        self._records = RunRecords(parts.kv, clock=parts.clock, ids=parts.ids)
        self._commits = CommitLists(parts, self._records, store_of)
        self._uncommitted = UncommittedLists(parts, store_of)

    async def state(self, repo: Repository) -> GcState:
        """Return the run record."""
        return await self._records.get(repo)

    async def begin(
        self, repo: Repository, kind: RunKind, *, holder: str, grace_seconds: float, takeover: bool = False
    ) -> GcState:
        """Give a new run the lease; return the run record with it.

        Raises:
            ConflictError: `GC_RUNNING`.
            PreconditionError: `GC_UNSAFE`: the repository was adopted a few days ago.
            FencedError: `REPO_TAKEN_OVER`.
        """
        if repo.taken_over_by:
            raise taken_over(repo, repo.taken_over_by)
        await require_owned(await self._store_of(repo), repo)
        _require_settled(repo, await self._parts.kv.now())
        token = self._parts.ids.token()
        return await self._records.update(
            repo,
            lambda state, now: decisions.begin(
                state,
                kind=kind,
                holder=holder,
                grace_seconds=grace_seconds,
                token=token,
                now=now,
                takeover=takeover,
            ),
        )

    async def renew(self, repo: Repository, of: RunToken) -> Lease:
        """Let the lease last longer, if the namespace is still this repository's.

        Raises:
            FencedError: `LEASE_LOST`, `REPO_TAKEN_OVER`.
        """
        await require_owned(await self._store_of(repo), repo)
        state = await self._records.update(
            repo, lambda state, now: decisions.renew(state, of.run, of.token, now)
        )
        return decisions.require(state, of.run, of.token)

    async def start_sweep(self, repo: Repository, of: RunToken, mark: str) -> None:
        """Make it safe to delete what a mark lists: see the module.

        Raises:
            FencedError: `LEASE_LOST`, `REPO_TAKEN_OVER`: nothing may be deleted.
            NotFoundError: `GC_RUN_NOT_FOUND`: no such mark counts.
        """
        state = await self._records.get(repo)
        decisions.require(state, of.run, of.token)
        if all(each.run != mark for each in state.marks):
            raise NotFoundError(
                ErrorKind.GC_RUN_NOT_FOUND, f"mark {mark} of {repo.name} does not count any more: mark again"
            )
        await self._dumps.dump(repo, full=True)
        store = await self._store_of(repo)
        intent = SweepStarted(uid=repo.uid, mark=mark, run=of.run, at=await self._parts.kv.now())
        with suppress(AlreadyExistsError):  # By an earlier sweep of the same mark.
            await store.put(sweep_started_key(mark), SWEEP_STARTED.seal(intent))
        await require_owned(store, repo)

    async def prepare_commits(self, repo: Repository, of: RunToken | None) -> PreparedCommits:
        """Write which commits are live; for a run, condemn first what is to expire (see `CommitLists.prepare`)."""
        return await self._commits.prepare(repo, of)

    async def prepare_uncommitted(
        self, repo: Repository, of: RunToken | None, *, continuation: str = ""
    ) -> PreparedPage:
        """Write the next page of uncommitted addresses (see `UncommittedLists.page`).

        Raises:
            FencedError: `LEASE_LOST`.
            InvalidInputError: `INVALID_ARGUMENT`: no such continuation, or one of another run.
        """
        if of is not None:
            decisions.require(await self._records.get(repo), of.run, of.token)
        if not continuation:
            now = await self._parts.kv.now()
            run = of.run if of is not None else run_name(now, self._parts.ids.token())
            return await self._uncommitted.page(repo, Cursor(run=run, started_at=now))
        cursor = decode_cursor(continuation)
        if of is not None and cursor.run != of.run:
            raise InvalidInputError(
                ErrorKind.INVALID_ARGUMENT, f"continuation_token: of run {cursor.run}, not of {of.run}"
            )
        return await self._uncommitted.page(repo, cursor)

    async def publish(
        self, repo: Repository, of: RunToken, *, kind: MarkKind, counts: Mapping[str, int]
    ) -> Mark:
        """Make a run's mark count; errors as for `state.publish`."""
        state = await self._records.update(
            repo,
            lambda state, now: decisions.publish(state, of.run, of.token, kind=kind, counts=counts, now=now),
        )
        return next(mark for mark in state.marks if mark.run == of.run)

    async def end(
        self, repo: Repository, of: RunToken, *, outcome: str, counts: Mapping[str, int] | None = None
    ) -> None:
        """Give the lease back; commits condemned for a mark that was not published stand again. Errors as for `renew`."""
        state = await self._records.get(repo)
        lease = state.lease
        has_condemned = lease is not None and (lease.run, lease.token) == (of.run, of.token) and lease.attempt
        if has_condemned and all(mark.run != of.run for mark in state.marks):
            await self._commits.withdraw(repo, of)
        await self._records.update(
            repo,
            lambda state, now: decisions.end(
                state, of.run, of.token, outcome=outcome, now=now, counts=counts
            ),
        )

    async def withdraw_marks(self, repo: Repository, of: RunToken) -> None:
        """Let none of the marks count that are published now; errors as for `renew`."""
        await self._records.update(
            repo, lambda state, _now: decisions.withdraw_marks(state, of.run, of.token)
        )

    async def discard_restored(self, repo: Repository) -> None:
        """Forget every mark and stop every run: a dump may make garbage referenced again.

        Whoever restores one calls it before, so that no sweep goes on, and after, so that no mark counts that
        has not seen it. What is condemned there stays condemned.
        """
        await self._records.update(repo, decisions.discard_restored)


def _require_settled(repo: Repository, now: Instant) -> None:
    if now < repo.gc_not_before:
        days = (repo.gc_not_before - now) / SECOND / 86400
        raise PreconditionError(
            ErrorKind.GC_UNSAFE,
            f"repository {repo.name} was adopted: what nothing refers to is kept for {days:.1f} more days, so that it can be "
            "looked through (`lakebed repo orphans`)",
        )
