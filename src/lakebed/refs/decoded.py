"""Records decoded once for each version.

Every request reads its repository's and its branch's record, and mostly finds the
version that the last one found. A version never repeats, so what was decoded from
it still holds. The KV is asked each time; only the decoding is spared.
"""

from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

from lakebed.kv.port import Item, Version
from lakebed.limits import DECODED_RECORDS_MAX

R = TypeVar("R")


class Decoded(Generic[R]):
    """Remembers the last version of each record."""

    def __init__(self, decode: Callable[[bytes], R]) -> None:
        self._decode = decode
        self._known: OrderedDict[tuple[str, bytes], tuple[Version, R]] = OrderedDict()

    def __call__(self, partition: str, item: Item) -> R:
        """Return the record of an item that was just read."""
        key = (partition, item.key)
        known = self._known.get(key)
        if known is not None and known[0] == item.version:
            return known[1]
        record = self._decode(item.value)
        self._known[key] = (item.version, record)
        self._known.move_to_end(key)
        if len(self._known) > DECODED_RECORDS_MAX:
            self._known.popitem(last=False)
        return record
