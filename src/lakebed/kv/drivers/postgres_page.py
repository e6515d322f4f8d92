"""`JoinedPage`: rows that came in one buffer a column."""

import numpy as np
import numpy.typing as npt

from lakebed.format.spans import Spans
from lakebed.kv.port import Page, Version


class JoinedPage(Page):
    """Keys and values where they lie, and versions."""

    __slots__ = ("_key_spans", "_numbers", "_value_spans")

    def __init__(self, keys: Spans, values: Spans, versions: npt.NDArray[np.int64]) -> None:
        super().__init__([], [], [])
        self._key_spans = keys
        self._value_spans = values
        self._numbers = versions

    def __len__(self) -> int:
        return len(self._key_spans)

    @property
    def keys(self) -> list[bytes]:
        if not self._keys:
            self._keys = self._key_spans.texts()
        return self._keys

    @property
    def values(self) -> list[bytes]:
        if not self._values:
            self._values = self._value_spans.texts()
        return self._values

    @property
    def versions(self) -> list[Version]:
        return [Version(number) for number in self._numbers.tolist()]

    @property
    def last_key(self) -> bytes:
        return self._key_spans[len(self) - 1]

    def spans(self) -> tuple[Spans, Spans]:
        return self._key_spans, self._value_spans
