"""`SimLoop`: an event loop whose time jumps and whose order is drawn from a seed.

There is no selector and no waiting: when nothing is ready, time moves to the next
timer. Whatever is ready belongs to an owner (a process, or the world itself) by
the context it was scheduled in. The next owner to run is drawn; within one owner,
callbacks run in the order asyncio promises, or, in half of all runs, in any order,
since nothing in the engine may depend on it.

A dead owner's callbacks never run: its tasks stay for ever at the `await` they had
reached, which is what a `kill -9` does, `finally` blocks and all. A paused owner's
callbacks wait until it wakes up, while the rest of the world goes on.
"""

import asyncio
import gc
import heapq
import sys
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from contextvars import Context, ContextVar, copy_context
from dataclasses import dataclass, field
from typing import Any, TypeVar, TypeVarTuple

from lakebed.testing.simulation.chance import Chance

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

# More steps than any scenario takes: whoever gets here runs in circles.
_STEPS_MAX = 5_000_000


class StuckError(Exception):
    """Nothing can happen any more, or far too much does."""


@dataclass(slots=True, eq=False)
class Owner:
    """Whose callbacks they are."""

    name: str
    alive: bool = True
    awake_at: float = 0.0
    ready: deque[asyncio.Handle] = field(default_factory=deque)
    """What may run now; of a paused owner, what will; of a dead one, what would have."""


OWNER: ContextVar[Owner | None] = ContextVar("owner", default=None)
"""The process that the running code belongs to; None for the world."""

PART: ContextVar[str] = ContextVar("part", default="")
"""The part of the process that the running code belongs to, where it is not a client's call: a worker, a cleaner."""

WORLD: Context = Context()
"""The context of what goes on whatever becomes of the processes: messages on their way, above all."""


class SimLoop(asyncio.BaseEventLoop):
    """See the module's docstring."""

    def __init__(self, chance: Chance) -> None:
        super().__init__()
        self._chance = chance
        self._in_order = chance.happens(0.5)
        self._time = 0.0
        self._timers: list[tuple[float, int, asyncio.TimerHandle, Context]] = []
        self._timer_number = 0
        self._world = Owner("world")
        self._owners: list[Owner] = []
        self._runnable: list[Owner] = []
        """Owners that are awake and have something ready."""
        self._tasks: list[asyncio.Task[Any]] = []
        self._failure: BaseException | None = None
        self._ending = False
        self.steps = 0
        self.complaints: list[str] = []
        """What asyncio would have logged: above all, errors that nobody looked at."""

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        """Return what `main` returns, and leave every other task where it is."""
        # Cyclic garbage is collected at moments that no seed decides, and that runs generators' `finally` blocks.
        collecting = gc.isenabled()
        gc.disable()
        hooks = sys.get_asyncgen_hooks()
        sys.set_asyncgen_hooks(finalizer=self._close_generator)
        asyncio._set_running_loop(self)
        try:
            task = self.create_task(main)
            while not task.done():
                self._step()
                if self._failure is not None and not self._ending:
                    raise self._failure
            return task.result()
        finally:
            asyncio._set_running_loop(None)
            sys.set_asyncgen_hooks(*hooks)
            if collecting:
                gc.enable()

    def own(self, name: str) -> Owner:
        """Return a new owner."""
        owner = Owner(name)
        self._owners.append(owner)
        return owner

    def kill(self, owner: Owner) -> None:
        """Let nothing of the owner's ever run again.

        Nobody dies any more once the run is abandoned: a task of the dead that cleans up would never end.
        """
        if self._ending:
            return
        owner.alive = False
        if owner in self._runnable:
            self._runnable.remove(owner)

    def pause(self, owner: Owner, seconds: float) -> None:
        """Let nothing of the owner's run for so long."""
        owner.awake_at = self._time + seconds
        if owner in self._runnable:
            self._runnable.remove(owner)
        self.call_at(owner.awake_at, self._wake, owner, context=WORLD)

    def abandon(self) -> None:
        """End every task that is left, so that none is found unfinished by the garbage collector."""
        self._ending = True
        for owner in self._owners:
            owner.alive, owner.awake_at = True, 0.0
            self._wake(owner)

        async def cancel_all() -> None:
            left = [t for t in self._tasks if not t.done() and t is not asyncio.current_task()]
            for task in left:
                task.cancel()
            await asyncio.gather(*left, return_exceptions=True)

        try:
            self.run(cancel_all())
        finally:
            self._tasks.clear()
            self._timers.clear()
            self.close()

    def time(self) -> float:
        return self._time

    def call_soon(
        self,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.Handle:
        context = context if context is not None else copy_context()
        handle = asyncio.Handle(callback, args, self, context)
        self._make_ready(handle, context)
        return handle

    def call_soon_threadsafe(
        self,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.Handle:
        """There is one thread only."""
        return self.call_soon(callback, *args, context=context)

    def call_later(
        self,
        delay: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        return self.call_at(self._time + delay, callback, *args, context=context)

    def call_at(
        self,
        when: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        context = context if context is not None else copy_context()
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        self._timer_number += 1
        heapq.heappush(self._timers, (when, self._timer_number, handle, context))
        return handle

    def create_task(
        self,
        coro: Coroutine[Any, Any, T] | Generator[Any, None, T],
        *,
        name: object = None,
        context: Context | None = None,
    ) -> "asyncio.Task[T]":
        task: asyncio.Task[T] = asyncio.Task(
            coro, loop=self, name=None if name is None else str(name), context=context
        )
        # Kept to the end: the tasks of a dead process must not be found and unwound half-way through.
        self._tasks.append(task)
        return task

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return asyncio._get_running_loop() is self

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if "handle" in context and isinstance(error, BaseException):
            self.fail(error)
        else:
            self.complaints.append(f"{context.get('message')}: {error!r}")

    def fail(self, error: BaseException) -> None:
        """End the run with an error. The first one counts."""
        self._failure = self._failure or error

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Nothing to count: a cancelled timer is skipped when its time comes."""

    def _step(self) -> None:
        self.steps += 1
        if self.steps > _STEPS_MAX:
            raise StuckError(f"{_STEPS_MAX} steps and no end")
        if not self._runnable:
            self._advance()
        owner = self._chance.pick(self._runnable)
        if not self._in_order and len(owner.ready) > 1:
            owner.ready.rotate(-self._chance.below(len(owner.ready)))
        handle = owner.ready.popleft()
        if not owner.ready:
            self._runnable.remove(owner)
        if not handle.cancelled():
            handle._run()

    def _advance(self) -> None:
        """Move time to the next timer, and make ready what is due then."""
        while not self._runnable:
            if not self._timers:
                raise StuckError("everybody waits for something that will never happen")
            self._time = max(self._time, self._timers[0][0])
            while self._timers and self._timers[0][0] <= self._time:
                _, _, handle, context = heapq.heappop(self._timers)
                if not handle.cancelled():
                    self._make_ready(handle, context)

    def _make_ready(self, handle: asyncio.Handle, context: Context) -> None:
        owner = context.get(OWNER) or self._world
        owner.ready.append(handle)
        if len(owner.ready) == 1 and owner.alive and owner.awake_at <= self._time:
            self._runnable.append(owner)

    def _wake(self, owner: Owner) -> None:
        if owner.alive and owner.awake_at <= self._time and owner.ready and owner not in self._runnable:
            self._runnable.append(owner)

    def _close_generator(self, generator: AsyncGenerator[Any, Any]) -> None:
        self.call_soon(self.create_task, generator.aclose())
