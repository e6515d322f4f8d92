"""Consistent reads and atomic changes of everything in the `auth` partition.

A change is one `set_rows`: the rows it writes, and the *generation* record, expected at
the version that the change began with. Three things follow.

- Changes are serial, whatever processes they come from: what a change has read still
  holds when it is written, and of two that race one begins again.
- A change happened entirely or not at all. There is no order of steps for a crash to
  come between: a deleted user's keys, memberships and attachments go in one step.
- A cache needs to look at one record, because no change leaves the generation as it is.

After an unknown outcome the generation tells: it carries the nonces of the last changes.
If ours is there, the change is done; if the version has moved on without it, the copy
that may still be under way can no longer land, and the change begins again.

Nothing is ever removed, because no removal is conditional: what is deleted is replaced by
a few bytes (`Gone`) that hold no secret.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

from lakebed.auth.keys import AUTH_PARTITION, GENERATION_KEY
from lakebed.env.clock import Clock
from lakebed.env.ids import IdSource
from lakebed.errors import ConflictError, ErrorKind, UnavailableError, is_unknown
from lakebed.format.auth_records import decode_generation, encode_generation
from lakebed.kv.port import Expect, Item, KVStore, Row, Version
from lakebed.limits import AUTH_CHANGES_REMEMBERED, SWAP_ATTEMPTS_MAX
from lakebed.model.auth import Generation
from lakebed.refs.backoff import back_off

T = TypeVar("T")

NEVER: Final = Version(-1)
"""The version of the generation before the first change; smaller than any other."""


class View:
    """Reads that all belong to one generation."""

    def __init__(self, kv: KVStore) -> None:
        self._kv = kv
        self._generation: Item | None = None
        self._begun = False

    @property
    def version(self) -> Version:
        """The version of the generation that was read."""
        assert self._begun, "nothing was read yet"
        return self._generation.version if self._generation is not None else NEVER

    @property
    def generation(self) -> Generation:
        """The generation that was read."""
        return decode_generation(self._generation.value) if self._generation is not None else Generation()

    async def get(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the records at `keys`; the work begins again if something has changed since the last call."""
        found = await self._kv.get_many([(AUTH_PARTITION, key) for key in (GENERATION_KEY, *keys)])
        generation, *items = found
        if self._begun and (generation.version if generation is not None else NEVER) != self.version:
            raise _MovedError
        self._generation, self._begun = generation, True
        return [item.value if item is not None else None for item in items]


class Change(View):
    """Reads, and what is to be written if they still hold."""

    def __init__(self, kv: KVStore) -> None:
        super().__init__(kv)
        self.rows: list[Row] = []

    def put(self, key: bytes, value: bytes) -> None:
        """Write a record when the work has ended."""
        assert self._begun, "a change rests on what it has read"
        self.rows.append(Row(key, value))


class AuthRecords:
    """The `auth` partition of one KV store."""

    def __init__(self, kv: KVStore, *, clock: Clock, ids: IdSource) -> None:
        self.kv = kv
        self.own_changes = 0
        """Grows with each change that this process has made or may have made."""
        self._clock = clock
        self._ids = ids
        # The changes of one process queue up here, so that only those of several compete.
        self._turn = asyncio.Lock()

    async def read(self, work: Callable[[View], Awaitable[T]]) -> tuple[T, Version]:
        """Return what `work` makes of records of one generation, and the version of that."""
        for attempt in range(SWAP_ATTEMPTS_MAX):
            view = View(self.kv)
            try:
                return await work(view), view.version
            except _MovedError:
                await back_off(attempt, clock=self._clock, ids=self._ids)
        raise _busy()

    async def change(self, work: Callable[[Change], Awaitable[T]]) -> T:
        """Do what `work` puts, in one step and as if alone, and return its result.

        `work` runs again if somebody else's change came in between.

        Raises:
            UnavailableError: `OUTCOME_UNKNOWN`: it may have been done, and so much has changed since that nobody knows.
        """
        async with self._turn:
            for attempt in range(SWAP_ATTEMPTS_MAX):
                change = Change(self.kv)
                try:
                    result = await work(change)
                except _MovedError:
                    await back_off(attempt, clock=self._clock, ids=self._ids)
                    continue
                if not change.rows or await self._commit(change):
                    return result
                await back_off(attempt, clock=self._clock, ids=self._ids)
        raise _busy()

    async def _commit(self, change: Change) -> bool:
        """Write a change, and return whether it was: if not, somebody else's came first."""
        before = change.generation
        nonce = self._ids.token()
        after = Generation(
            count=before.count + 1, recent=(nonce, *before.recent[: AUTH_CHANGES_REMEMBERED - 1])
        )
        expected = change.version if change.version != NEVER else Expect.ABSENT
        rows = [*change.rows, Row(GENERATION_KEY, encode_generation(after), expected)]
        try:
            return await self._settle(rows, before=before, version=change.version, nonce=nonce)
        finally:
            self.own_changes += 1

    async def _settle(self, rows: Sequence[Row], *, before: Generation, version: Version, nonce: str) -> bool:
        unsure = False
        for attempt in range(SWAP_ATTEMPTS_MAX):
            try:
                await self.kv.set_rows(AUTH_PARTITION, rows)
            except ConflictError:
                if not unsure:
                    return False
            except UnavailableError as error:
                if not unsure and not is_unknown(error):
                    raise
                unsure = True
            else:
                return True
            now = await self._look()
            if nonce in now.generation.recent:
                return True
            if now.version != version:
                if now.generation.count - before.count > AUTH_CHANGES_REMEMBERED:
                    break
                return False
            await back_off(attempt, clock=self._clock, ids=self._ids)
        raise _unknown()

    async def _look(self) -> View:
        view = View(self.kv)
        try:
            await view.get([])
        except UnavailableError as error:
            raise _unknown() from error
        return view


class _MovedError(Exception):
    """Something changed between two reads of one view."""


def _busy() -> ConflictError:
    return ConflictError(
        ErrorKind.TOO_MANY_RETRIES, "users and permissions are being changed by too many at once: try again"
    )


def _unknown() -> UnavailableError:
    return UnavailableError(
        ErrorKind.OUTCOME_UNKNOWN, "the change may have been made: look before you try again"
    )
