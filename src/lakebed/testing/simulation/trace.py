"""`Trace`: what happened, as lines for a person and as one number for a test."""

import hashlib
from collections.abc import Callable


class Trace:
    """Takes down events. Two runs with one digest did the same things in the same order at the same times."""

    def __init__(self, time: Callable[[], float], *, keep: bool = False) -> None:
        self._time = time
        self._hash = hashlib.blake2b(digest_size=16)
        self._keep = keep
        self.lines: list[str] = []

    def note(self, text: str) -> None:
        line = f"{self._time():12.6f} {text}"
        self._hash.update(line.encode())
        if self._keep:
            self.lines.append(line)

    @property
    def digest(self) -> str:
        return self._hash.hexdigest()
