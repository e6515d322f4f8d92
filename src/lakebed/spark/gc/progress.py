"""How a run tells whoever watches how far it is, and remembers it for the report."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

from lakebed.env.clock import Clock
from lakebed.format.gc import Phase


class Watcher(Protocol):
    """Somebody who watches."""

    def begins(self, phase: str) -> None:
        """Hear that a phase begins."""
        ...

    def ends(self, phase: Phase) -> None:
        """Hear that it is over."""
        ...

    def warns(self, message: str) -> None:
        """Hear what should be known."""
        ...


class Nobody:
    """Watches nothing."""

    def begins(self, phase: str) -> None: ...

    def ends(self, phase: Phase) -> None: ...

    def warns(self, message: str) -> None: ...


@dataclass(slots=True)
class Counted:
    """What a phase went through."""

    count: int = 0


@dataclass(slots=True, kw_only=True)
class Progress:
    """The phases of one run."""

    clock: Clock
    watcher: Watcher
    phases: list[Phase] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    @contextmanager
    def phase(self, name: str) -> Iterator[Counted]:
        """Time a block; what it counts is the phase's."""
        began, counted = self.clock.monotonic(), Counted()
        self.watcher.begins(name)
        yield counted
        ended = Phase(name, round(self.clock.monotonic() - began, 3), counted.count)
        self.phases.append(ended)
        self.watcher.ends(ended)

    def warn(self, message: str) -> None:
        """Tell what should be known, and put it into the report."""
        self.warnings.append(message)
        self.watcher.warns(message)
