"""`LmdbPage`: rows as LMDB has them, taken apart only for who asks, and where that one has time.

Cutting the prefix off every key and the header off every record takes as long as
reading them, and a scan runs on the event loop.
"""

import numpy as np

from lakebed.format.spans import Spans
from lakebed.kv.drivers.lmdb_keys import PREFIX_BYTES
from lakebed.kv.drivers.lmdb_records import HEADER_BYTES, columns, names_of
from lakebed.kv.port import Page, Version


class LmdbPage(Page):
    """LMDB keys, of which the first `PREFIX_BYTES` do not count, and records."""

    __slots__ = ("_places", "_records")

    def __init__(self, places: list[bytes], records: list[bytes]) -> None:
        super().__init__([], [], [])
        self._places = places
        self._records = records

    def __len__(self) -> int:
        return len(self._places)

    @property
    def keys(self) -> list[bytes]:
        if not self._keys:
            self._keys = [place[PREFIX_BYTES:] for place in self._places]
        return self._keys

    @property
    def values(self) -> list[bytes]:
        self._take_apart()
        return self._values

    @property
    def versions(self) -> list[Version]:
        self._take_apart()
        return self._versions

    @property
    def names(self) -> list[tuple[bytes, ...]]:
        """What was swapped in with each row, for whoever copies it."""
        return [names_of(record) for record in self._records]

    @property
    def last_key(self) -> bytes:
        return self._places[-1][PREFIX_BYTES:]

    def spans(self) -> tuple[Spans, Spans]:
        keys = Spans.of(self._places, skip=PREFIX_BYTES)
        records = Spans.of(self._records)
        named = np.frombuffer(records.data, np.uint8)[records.starts + (HEADER_BYTES - 1)] & 1
        if named.any():
            return keys, Spans.of(self.values)
        return keys, records.part(HEADER_BYTES, records.lengths - HEADER_BYTES)

    def _take_apart(self) -> None:
        if not self._values:
            self._values, self._versions = columns(self._records)
