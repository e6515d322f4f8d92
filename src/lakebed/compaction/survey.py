"""`Survey`: which branches a poll should look at, when there are more than it can hold at a time.

Every branch record is read again and again, but decoded only when its version has changed, and of
each nothing stays in memory but a few numbers. A poll gets a bounded number of branches: those with the
most layers, and those that were longest not looked at. So the worst are helped first, and one
whose layers nobody may touch stands in nobody's way. Reading takes no more than a small part of the time:
in between, a poll chooses from what the last reading saw. What is old is wrong at worst for a while: each record
that was chosen is read once more, and whatever is decided on it is checked by the swap that does it.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from heapq import nlargest, nsmallest

from lakebed.env.clock import Clock
from lakebed.format.records import decode_branch
from lakebed.kv.port import Item, KVStore, Version
from lakebed.limits import COMPACTION_POLL_SHARE
from lakebed.model.branch import Branch
from lakebed.model.ids import BranchName
from lakebed.refs.keys import BRANCHES_PREFIX
from lakebed.refs.scans import scan_records


@dataclass(slots=True)
class _Seen:
    """A branch in a few numbers. `looked` is the last choice that it was in."""

    name: BranchName
    version: Version
    layers: int
    is_touched: bool
    looked: int = 0


class Survey:
    """The branches of one repository, as far as compaction cares."""

    def __init__(self, kv: KVStore, partition: str, *, clock: Clock) -> None:
        self._kv = kv
        self._partition = partition
        self._clock = clock
        self._seen: dict[bytes, _Seen] = {}
        self._choices = 0
        self._again_at = 0.0
        self.layers = 0
        """Sealed layers of all branches."""
        self.layers_max = 0
        """The most sealed layers that one branch has."""

    async def refresh(self) -> None:
        """Read all records, unless that was done a moment ago."""
        begun = self._clock.monotonic()
        if begun < self._again_at:
            return
        seen: dict[bytes, _Seen] = {}
        async for items in scan_records(self._kv, self._partition, BRANCHES_PREFIX):
            seen |= {item.key: self._look(item) for item in items}
        self._seen = seen
        layers = [each.layers for each in seen.values()]
        self.layers, self.layers_max = sum(layers), max(layers, default=0)
        ended = self._clock.monotonic()
        self._again_at = ended + COMPACTION_POLL_SHARE * (ended - begun)

    def choose(self, count: int) -> Iterable[BranchName]:
        """Return the names of up to so many branches that have something uncommitted."""
        self._choices += 1
        touched = [each for each in self._seen.values() if each.is_touched]
        if len(touched) > count:
            worst = nlargest(count // 2, touched, key=lambda each: each.layers)
            chosen = {each.name: each for each in worst}
            others = (each for each in touched if each.name not in chosen)
            longest_ago = nsmallest(count - len(worst), others, key=lambda each: each.looked)
            touched = [*worst, *longest_ago]
        for each in touched:
            each.looked = self._choices
        return [each.name for each in touched]

    def _look(self, item: Item) -> _Seen:
        known = self._seen.get(item.key)
        if known is not None and known.version == item.version:
            return known
        record = decode_branch(item.value)
        looked = known.looked if known is not None else 0
        if not isinstance(record, Branch):
            return _Seen(record.name, item.version, layers=0, is_touched=False, looked=looked)
        return _Seen(record.name, item.version, len(record.sealed), _is_touched(record), looked)


def _is_touched(branch: Branch) -> bool:
    return bool(branch.sealed or branch.staging_token or branch.l2_slot or branch.fold_slot)
