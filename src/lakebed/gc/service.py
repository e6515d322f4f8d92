"""`GarbageCollection`: everything that a collector asks of the engine, by repository.

The collector itself is a job elsewhere (`lakebed.spark.gc`): it lists the store, subtracts, and deletes. Here is decided
who may do so, what is live, and which commits are let go; `state`, `condemning` and `uncommitted` have the protocols.
"""

from collections.abc import Awaitable, Callable, Mapping

from lakebed.errors import ErrorKind, InvalidInputError
from lakebed.gc import state as decisions
from lakebed.gc.commit_lists import CommitLists, PreparedCommits, RunToken
from lakebed.gc.cursor import Cursor, decode_cursor
from lakebed.gc.names import run_name
from lakebed.gc.run_record import RunRecords
from lakebed.gc.uncommitted import PreparedPage, UncommittedLists
from lakebed.model.gc import GcState, Lease, Mark, MarkKind, RunKind
from lakebed.model.repository import Repository
from lakebed.objects.port import ObjectStore
from lakebed.versioning.parts import Parts


class GarbageCollection:
    """The runs of all repositories."""

    def __init__(self, parts: Parts, store_of: Callable[[Repository], Awaitable[ObjectStore]]) -> None:
        self._parts = parts
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
        """
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
        """Let the lease last longer.

        Raises:
            FencedError: `LEASE_LOST`.
        """
        state = await self._records.update(
            repo, lambda state, now: decisions.renew(state, of.run, of.token, now)
        )
        return decisions.require(state, of.run, of.token)

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

    async def end(self, repo: Repository, of: RunToken, *, outcome: str) -> None:
        """Give the lease back; commits condemned for a mark that was not published stand again. Errors as for `renew`."""
        state = await self._records.get(repo)
        lease = state.lease
        has_condemned = lease is not None and (lease.run, lease.token) == (of.run, of.token) and lease.attempt
        if has_condemned and all(mark.run != of.run for mark in state.marks):
            await self._commits.withdraw(repo, of)
        await self._records.update(
            repo, lambda state, now: decisions.end(state, of.run, of.token, outcome=outcome, now=now)
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
