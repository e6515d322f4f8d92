"""How a run tells whoever watches how far it is, and remembers it for the report."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

from lakebed.env.clock import Clock
from lakebed.format.gc import Phase


@dataclass(frozen=True, slots=True)
class HowFar:
    """What an engine has done since it was opened: rows it went through, or, if it knows a `total`, tasks."""

    done: int = 0
    total: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Going:
    """A phase that is going on, and what it has done so far; a `total` of 0 is one that nobody knows."""

    phase: str
    seconds: float
    done: int
    total: int


@dataclass(slots=True)
class Tally:
    """What an engine in this process has gone through."""

    done: int = 0

    def add(self, rows: int) -> None:
        """Count."""
        self.done += rows

    def how_far(self) -> HowFar:
        """Return what was counted so far; from any thread."""
        return HowFar(self.done)


class Watcher(Protocol):
    """Somebody who watches."""

    def begins(self, phase: str, look: Callable[[], Going]) -> None:
        """Hear that a phase begins. `look` tells how it goes until it ends, also from another thread."""
        ...

    def ends(self, phase: Phase) -> None:
        """Hear that it is over."""
        ...

    def warns(self, message: str) -> None:
        """Hear what should be known."""
        ...


class Nobody:
    """Watches nothing."""

    def begins(self, phase: str, look: Callable[[], Going]) -> None: ...

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
    how_far: Callable[[], HowFar] = HowFar
    phases: list[Phase] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    @contextmanager
    def phase(self, name: str) -> Iterator[Counted]:
        """Time a block; what it counts is the phase's."""
        began, before, counted = self.clock.monotonic(), self.how_far(), Counted()

        def look() -> Going:
            now = self.how_far()
            return Going(
                phase=name,
                seconds=self.clock.monotonic() - began,
                done=now.done - before.done,
                total=now.total - before.total,
            )

        self.watcher.begins(name, look)
        yield counted
        ended = Phase(name, round(self.clock.monotonic() - began, 3), counted.count)
        self.phases.append(ended)
        self.watcher.ends(ended)

    def warn(self, message: str) -> None:
        """Tell what should be known, and put it into the report."""
        self.warnings.append(message)
        self.watcher.warns(message)
