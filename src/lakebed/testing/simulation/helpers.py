"""Helper processes of the simulation: they do their work at once, and some of them die at it."""

from collections.abc import Callable
from concurrent.futures import Executor, Future
from concurrent.futures.process import BrokenProcessPool
from typing import Any, ParamSpec, TypeVar

from lakebed.testing.simulation.chance import Chance

P = ParamSpec("P")
T = TypeVar("T")


class Helpers:
    """Opens pools whose processes die with a probability, and counts those that died."""

    def __init__(self, chance: Chance, *, deaths: float) -> None:
        self._chance = chance
        self._share = deaths
        self.died = 0

    def open_pool(self, _processes: int) -> Executor:
        """Return a pool: like a real one, it takes nothing any more once a process of it has died."""
        return _Pool(self._dies)

    def _dies(self) -> bool:
        dies = self._chance.happens(self._share)
        self.died += dies
        return dies


class _Pool(Executor):
    def __init__(self, dies: Callable[[], bool]) -> None:
        self._dies = dies
        self._is_broken = False

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> "Future[T]":
        if self._is_broken:
            raise BrokenProcessPool("a process of this pool is gone")
        future: Future[Any] = Future()
        self._is_broken = self._dies()
        if self._is_broken:
            future.set_exception(BrokenProcessPool("a process of this pool is gone"))
        else:
            future.set_result(fn(*args, **kwargs))
        return future
