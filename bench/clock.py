"""Stopwatches: how long one thing takes, and how many of them many callers get done."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from statistics import median
from typing import Self

import numpy as np


class Stopwatch:
    """`with Stopwatch() as watch: …`, then `watch.seconds`."""

    seconds: float = 0.0

    def __enter__(self) -> Self:
        self._started = time.perf_counter()
        return self

    def __exit__(self, *_exc: object) -> None:
        self.seconds = time.perf_counter() - self._started


@dataclass(slots=True)
class Latencies:
    """What callers waited, in seconds, and over how long."""

    waits: list[float] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def rate(self) -> float:
        return len(self.waits) / self.seconds

    def percentile_ms(self, percent: float) -> float:
        return float(np.percentile(self.waits, percent)) * 1000 if self.waits else float("nan")

    def summary(self) -> str:
        return f"p50 {self.percentile_ms(50):.2f} ms, p99 {self.percentile_ms(99):.2f} ms"


async def timed(work: Callable[[], Awaitable[object]], *, repeats: int, warm_up: bool = False) -> float:
    """Return the median of `repeats` runs, after one that does not count if `warm_up`."""
    if warm_up:
        await work()
    seconds = []
    for _ in range(repeats):
        with Stopwatch() as watch:
            await work()
        seconds.append(watch.seconds)
    return median(seconds)


async def hammer(
    call: Callable[[int], Awaitable[object]],
    *,
    callers: int,
    seconds: float | None = None,
    until: asyncio.Event | None = None,
) -> Latencies:
    """Let `callers` call again and again, each call with a number of its own, for so long or until the event."""
    latencies = Latencies()
    number = 0
    started = time.perf_counter()

    def going() -> bool:
        if until is not None and until.is_set():
            return False
        return seconds is None or time.perf_counter() - started < seconds

    async def caller() -> None:
        nonlocal number
        while going():
            number += 1
            at = time.perf_counter()
            await call(number)
            latencies.waits.append(time.perf_counter() - at)
            # A call that never waited would keep everyone else from running.
            await asyncio.sleep(0)

    await asyncio.gather(*(caller() for _ in range(callers)))
    latencies.seconds = time.perf_counter() - started
    return latencies
