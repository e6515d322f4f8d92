"""Requests that stage segments, remembered for a day, so that each is staged once however late it is repeated.

A branch record recognises a segment while it names the layer, and for a grace after the layer has left. A repeat may come
later. So a request with an id leaves a record:

    <repo>-<uid>:  segment_calls/<owner>              the record
                   segment_call_times/<time>/<owner>  finds it when it is over. Both are written in one atomic step

    1. note     the request and the engine time
    2. append   the segment to the branch, only while engine time is within half a grace of 1
    3. mark     the record with the segment that was staged
    4. forget   the record, a day after 1 (`sweep`)

    crash            a repeat finds                     and
    before 1         no record                          stages the segment
    between 1 and 2  a record, unmarked, no layer       stages the segment within half a grace of 1; later it is refused
    between 2 and 3  a record, unmarked, and the layer  marks the record, and gives the same answer
                     the same, the layer forgotten      is refused: what became of the request is not known
    after 3          a marked record                    gives the same answer

No request is staged twice: 2 swaps a version of the branch record that was read within a grace of 1. A layer that another
try appended after 1 cannot be forgotten by then, so the record that is swapped would name it.
"""

from dataclasses import replace

from lakebed.catalog.engine import Engine
from lakebed.env.clock import after
from lakebed.errors import ConflictError
from lakebed.format.segment_calls import decode_segment_call, encode_segment_call
from lakebed.kv.port import Expect, Row
from lakebed.limits import MAINTENANCE_PAGE_ITEMS, SEGMENT_CALL_SECONDS
from lakebed.model.ids import Nonce
from lakebed.model.layers import SegmentLayer
from lakebed.model.repository import Repository
from lakebed.model.segment_calls import SegmentCall
from lakebed.refs.keys import (
    SEGMENT_CALL_TIMES_PREFIX,
    segment_call_key,
    segment_call_of,
    segment_call_time_key,
    segment_call_times_before,
)
from lakebed.staging.appending import Once


class SegmentCalls:
    """The records of all repositories."""

    def __init__(self, engine: Engine) -> None:
        self._kv = engine.parts.kv
        self._seconds = engine.parts.lifetimes.grace_seconds / 2

    async def find(self, repo: Repository, owner: Nonce) -> SegmentCall | None:
        """Return the record of a request, if an earlier try has left one."""
        item = await self._kv.get(repo.partition, segment_call_key(owner))
        return decode_segment_call(item.value) if item is not None else None

    async def note(self, repo: Repository, owner: Nonce) -> SegmentCall:
        """Return the record of a request: a new one, unless another try has left one meanwhile."""
        call = SegmentCall(owner=owner, noted_at=await self._kv.now())
        try:
            await self._put(repo, call, expected=Expect.ABSENT)
        except ConflictError:
            return await self.find(repo, owner) or call
        return call

    async def mark(self, repo: Repository, call: SegmentCall, layer: SegmentLayer) -> None:
        """Note what a request has staged. Every try that knows writes the same."""
        staged = replace(call, segment=layer.id, entries=layer.entries, tombstones=layer.tombstones)
        await self._put(repo, staged, expected=Expect.ANY)

    def once(self, call: SegmentCall) -> Once:
        """Return when a try of the request may append its segment."""
        return Once(owner=call.owner, until=after(call.noted_at, self._seconds))

    async def sweep(self, repo: Repository) -> int:
        """Forget the requests of more than a day ago. Return how many.

        Keys begin with the time: records that are too young to go are not read, however many there are.
        """
        kv = self._kv
        oldest = after(await kv.now(), -SEGMENT_CALL_SECONDS)
        swept = 0
        async for page in kv.scan(
            repo.partition,
            start=SEGMENT_CALL_TIMES_PREFIX,
            end=segment_call_times_before(oldest),
            page_items_max=MAINTENANCE_PAGE_ITEMS,
        ):
            keys = [segment_call_key(segment_call_of(key)) for key in page.keys]
            for item in await kv.get_many([(repo.partition, key) for key in keys]):
                # A request that was forgotten may have come again since.
                if item is not None and decode_segment_call(item.value).noted_at < oldest:
                    await kv.remove(repo.partition, item.key, expected=item.version)
                    swept += 1
            # The times go last: without them nothing leads to a record.
            await kv.delete_rows(repo.partition, page.keys)
        return swept

    async def _put(self, repo: Repository, call: SegmentCall, *, expected: Expect) -> None:
        rows = [
            Row(segment_call_key(call.owner), encode_segment_call(call), expected),
            Row(segment_call_time_key(call.noted_at, call.owner), b""),
        ]
        await self._kv.set_rows(repo.partition, rows)
