"""The run record in the KV: read, and swapped until a change sticks."""

from collections.abc import Callable

from lakebed.env.clock import Clock, Instant
from lakebed.env.ids import IdSource
from lakebed.errors import ConflictError, ErrorKind, UnavailableError, is_unknown
from lakebed.format.gc_state import decode_gc_state, encode_gc_state
from lakebed.kv.port import Expect, KVStore, NamesFence, Version
from lakebed.limits import SWAP_ATTEMPTS_MAX
from lakebed.model.gc import GcState
from lakebed.model.repository import Repository
from lakebed.refs.backoff import back_off
from lakebed.refs.keys import GC_STATE_KEY

Change = Callable[[GcState, Instant], GcState]
"""Returns what the record shall be, its argument itself for "nothing to do", or raises to stop."""


class RunRecords:
    """The run records of all repositories."""

    def __init__(self, kv: KVStore, *, clock: Clock, ids: IdSource) -> None:
        self._kv = kv
        self._clock = clock
        self._ids = ids

    async def get(self, repo: Repository) -> GcState:
        """Return the record; of a repository that nobody has collected in, an empty one."""
        return (await self._read(repo))[0]

    async def update(self, repo: Repository, change: Change) -> GcState:
        """Swap `change(current, now)` in until it sticks, and return what stuck.

        After a lost reply the change is made again, of what is there then: each must be one that may be made twice.

        Raises:
            ConflictError: `TOO_MANY_RETRIES`.
        """
        for attempt in range(SWAP_ATTEMPTS_MAX):
            current, version = await self._read(repo)
            new = change(current, await self._kv.now())
            if new is current:
                return current
            try:
                await self._kv.swap(
                    repo.partition, GC_STATE_KEY, encode_gc_state(new), expected=version, names=_names(new)
                )
            except ConflictError:
                pass
            except UnavailableError as error:
                if not is_unknown(error):
                    raise
            else:
                return new
            await back_off(attempt, clock=self._clock, ids=self._ids)
        raise ConflictError(
            ErrorKind.TOO_MANY_RETRIES, f"the run record of {repo.name} is changed by too many at once"
        )

    def fence(self, repo: Repository, state: GcState) -> NamesFence | None:
        """Return a fence that holds while the same attempt has the lease; None where the store has no fences."""
        if not self._kv.capabilities.fences:
            return None
        return NamesFence(partition=repo.partition, key=GC_STATE_KEY, names=_names(state))

    async def _read(self, repo: Repository) -> tuple[GcState, Version | Expect]:
        item = await self._kv.get(repo.partition, GC_STATE_KEY)
        return (decode_gc_state(item.value), item.version) if item is not None else (GcState(), Expect.ABSENT)


def _names(state: GcState) -> tuple[bytes, ...]:
    """Return what a fence compares. An attempt that is done, or whose mark is published, has no fence that holds."""
    lease = state.lease
    if lease is None or lease.prepared:
        return (b"",)
    return (f"{lease.run}/{lease.token}/{lease.attempt}".encode(),)
