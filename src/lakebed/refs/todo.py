"""The `todo` index: which branches need attention, so that a round of maintenance reads no others. Order matters.

One entry a branch, in a partition for all repositories, and `indexed` in the branch's record:

    writer       its swap makes the record need attention (`attention.py`), and `indexed` is off:
                 1. put     the entry, under a new version    crash: an entry too many
                 2. swap    the record, with `indexed` on
    maintenance  1. read    the entry, then the record
                 2. do      what is due; something is left: swap the entry's due time in, at the version of 1
                 3. swap    `indexed` off, even if nothing else changes, or remove a tombstone; both at the version of 1
                 4. remove  the entry, at the version of 1    crash before: the entry alone leads to 1

No entry is missing while a record needs attention and says `indexed`:
- a writer that read the record after 3 puts a newer entry, so that 4 is lost;
- a writer that read it before 3 loses its swap, whether or not its entry was what 1 read, and starts over with another put.
Without the swap of 3 the second writer would win, and 4 take its entry away.

An entry too many costs one look. A record of an older lakebed, or from before a restore, may lack its entry: a pass over all
branch records, once a day, puts it (`Cleaner.visit`).
"""

from dataclasses import replace
from typing import TypeVar

from lakebed.env.clock import Clock, Instant
from lakebed.env.ids import IdSource
from lakebed.errors import ConflictError
from lakebed.format.records import encode_todo
from lakebed.kv.port import Expect, Item, KVStore, Row
from lakebed.model.branch import Branch, BranchRecord, DeletedBranch
from lakebed.model.ids import BranchName, Nonce
from lakebed.model.maintenance import TodoEntry
from lakebed.refs.attention import became_urgent, needs_attention
from lakebed.refs.keys import TODO_PARTITION, todo_key
from lakebed.refs.settle import settled_swap

R = TypeVar("R", Branch, DeletedBranch)

_AT_ONCE = Instant(0)


class TodoIndex:
    """The entries of all repositories in one KV store."""

    def __init__(self, kv: KVStore, *, clock: Clock, ids: IdSource) -> None:
        self._kv = kv
        self._clock = clock
        self._ids = ids

    async def enter(self, partition: str, old: BranchRecord | None, new: R) -> R:
        """Return `new` as it may be swapped in for `old`: if it needs attention, its entry is there now.

        Costs nothing on a branch that is indexed already, but for one put in `RETIRED_URGENT` commits.
        """
        if not needs_attention(new) or (new.indexed and not became_urgent(old, new)):
            return new
        await settled_swap(
            self._kv,
            TODO_PARTITION,
            todo_key(partition, new.name),
            self._fresh(),
            expected=Expect.ANY,
            clock=self._clock,
            ids=self._ids,
        )
        return replace(new, indexed=True)

    async def enter_missing(self, partition: str, names: list[BranchName]) -> int:
        """Put entries for those branches that have none; return for how many."""
        keys = [todo_key(partition, name) for name in names]
        found = await self._kv.get_many([(TODO_PARTITION, key) for key in keys])
        missing = [key for key, item in zip(keys, found, strict=True) if item is None]
        if missing:
            await self._kv.set_rows(TODO_PARTITION, [Row(key, self._fresh()) for key in missing])
        return len(missing)

    async def put_off(self, entry: Item, due: Instant) -> None:
        """Look again at `due`, unless a writer has put the entry anew."""
        value = encode_todo(TodoEntry(due=due, nonce=Nonce(self._ids.token())))
        try:
            await self._kv.swap(TODO_PARTITION, entry.key, value, expected=entry.version)
        except ConflictError:
            return

    async def strike(self, entry: Item) -> None:
        """Remove the entry, unless a writer has put it anew."""
        try:
            await self._kv.remove(TODO_PARTITION, entry.key, expected=entry.version)
        except ConflictError:
            return

    def _fresh(self) -> bytes:
        return encode_todo(TodoEntry(due=_AT_ONCE, nonce=Nonce(self._ids.token())))
