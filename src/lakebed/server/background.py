"""Background tasks of one process: one owner, which restarts each of them until the process stops."""

import asyncio
from collections.abc import Awaitable, Callable

from lakebed.env.clock import Clock
from lakebed.limits import BACKGROUND_RESTART_SECONDS
from lakebed.refs.outermost import logged


class Background:
    """Runs loops that never end by themselves. One that raises is logged and started again after a pause."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._tasks: dict[str, asyncio.Task[None]] = {}

    @property
    def names(self) -> list[str]:
        """The tasks that run, in the order they were started in."""
        return [name for name, task in self._tasks.items() if not task.done()]

    def start(self, name: str, run: Callable[[], Awaitable[None]]) -> None:
        """Keep `run` running until `stop`."""
        assert name not in self._tasks, f"{name} runs already"
        self._tasks[name] = asyncio.create_task(self._keep(name, run), name=name)

    async def stop(self) -> None:
        """End every task, the last one first, before what they use is closed."""
        while self._tasks:
            _, task = self._tasks.popitem()
            task.cancel()
            await asyncio.wait([task])

    async def _keep(self, name: str, run: Callable[[], Awaitable[None]]) -> None:
        while True:
            async with logged("background_task_failed", task=name):
                await run()
            await self._clock.sleep(BACKGROUND_RESTART_SECONDS)
