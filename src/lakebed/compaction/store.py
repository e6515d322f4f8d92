"""Job documents and heartbeats in the KV.

A document changes only by a swap of exactly the version that was read. Every change has a
name of its own in it (`Schedule.update`), so its author recognises it after a lost reply. Heartbeats
are rows that nobody compares: the newest counts, and one that is lost is sent again.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from lakebed.compaction.keys import LEASES_PREFIX, SCHEDULE_KEY, lease_key
from lakebed.env.clock import Clock, Instant
from lakebed.env.ids import IdSource
from lakebed.errors import ConflictError, ErrorKind
from lakebed.format.compaction_records import decode_lease, decode_schedule, encode_lease, encode_schedule
from lakebed.kv.port import Expect, KVStore, Row, Version, prefix_end
from lakebed.limits import SWAP_ATTEMPTS_MAX
from lakebed.model.compaction import Lease, Schedule
from lakebed.model.repository import Repository
from lakebed.refs.backoff import back_off
from lakebed.refs.keys import compaction_partition
from lakebed.refs.settle import settled_swap

Attempt = tuple[str, int]
"""A job and the token of one assignment of it."""


@dataclass(frozen=True, slots=True)
class ReadSchedule:
    """A job document as read, and what a swap of it expects."""

    value: Schedule
    version: Version | Expect


class JobStore:
    """The job documents of every repository in one KV store."""

    def __init__(self, kv: KVStore, *, clock: Clock, ids: IdSource) -> None:
        self._kv = kv
        self._clock = clock
        self._ids = ids

    async def now(self) -> Instant:
        """Return the engine's time."""
        return await self._kv.now()

    async def read(self, repo: Repository) -> ReadSchedule:
        """Return the document; an empty one if there is none yet.

        Raises:
            CorruptError: `NEWER_VERSION`: a newer lakebed plans here.
        """
        item = await self._kv.get(compaction_partition(repo.partition), SCHEDULE_KEY)
        if item is None:
            return ReadSchedule(Schedule(), Expect.ABSENT)
        return ReadSchedule(decode_schedule(item.value), item.version)

    async def swap(self, repo: Repository, old: ReadSchedule, new: Schedule) -> None:
        """Replace `old` by `new`, whose `update` nobody has used before.

        Raises:
            ConflictError: somebody else was faster; nothing was written.
            UnavailableError: `OUTCOME_UNKNOWN`: the document has moved on and does not tell.
        """
        await settled_swap(
            self._kv,
            compaction_partition(repo.partition),
            SCHEDULE_KEY,
            encode_schedule(new),
            expected=old.version,
            clock=self._clock,
            ids=self._ids,
        )

    async def change(self, repo: Repository, change: Callable[[Schedule, str], Schedule]) -> Schedule:
        """Swap `change(current, name of the change)` in until it sticks; its argument itself: nothing to do.

        Raises:
            ConflictError: `TOO_MANY_RETRIES`.
        """
        for attempt in range(SWAP_ATTEMPTS_MAX):
            found = await self.read(repo)
            new = change(found.value, self._ids.token())
            if new is found.value:
                return new
            try:
                await self.swap(repo, found, new)
            except ConflictError:
                await back_off(attempt, clock=self._clock, ids=self._ids)
            else:
                return new
        raise ConflictError(
            ErrorKind.TOO_MANY_RETRIES, f"compaction jobs of {repo.name} are changed by too many at once"
        )

    async def beat(self, repo: Repository, *, job: str, token: int, worker: str) -> None:
        """Say that an attempt is alive."""
        lease = Lease(job=job, token=token, worker=worker, renewed_at=await self._kv.now())
        await self._kv.set_rows(
            compaction_partition(repo.partition), [Row(lease_key(job, token), encode_lease(lease))]
        )

    async def heartbeats(self, repo: Repository) -> dict[Attempt, Instant]:
        """Return when each attempt was last known to be alive."""
        found: dict[Attempt, Instant] = {}
        pages = self._kv.scan(
            compaction_partition(repo.partition), start=LEASES_PREFIX, end=prefix_end(LEASES_PREFIX)
        )
        async for page in pages:
            for value in page.values:
                lease = decode_lease(value)
                found[lease.job, lease.token] = lease.renewed_at
        return found

    async def forget(self, repo: Repository, attempts: Iterable[Attempt]) -> None:
        """Remove the heartbeats of attempts that have ended."""
        keys = [lease_key(job, token) for job, token in attempts]
        if keys:
            await self._kv.delete_rows(compaction_partition(repo.partition), keys)
