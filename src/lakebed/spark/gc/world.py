"""What runs work with, and one run that holds the lease."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from lakebed.env.clock import Clock
from lakebed.spark.gc.decide import Options
from lakebed.spark.gc.lease import Lease
from lakebed.spark.gc.ports import Server, Started, Store, Tables
from lakebed.spark.gc.progress import HowFar, Nobody, Progress, Watcher

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Tools(Generic[T]):
    """What reaches a namespace."""

    store: Store
    tables: Tables[T]
    how_far: Callable[[], HowFar] = HowFar
    """What the engine has done so far."""


@dataclass(frozen=True, slots=True, kw_only=True)
class World(Generic[T]):
    """What runs work with. `open` is called once the server has said where the namespace lies."""

    server: Server
    open: Callable[[Started], Tools[T]]
    clock: Clock
    watcher: Watcher = field(default_factory=Nobody)


@dataclass(frozen=True, slots=True, kw_only=True)
class Run(Generic[T]):
    """One run that holds the lease."""

    lease: Lease
    server: Server
    store: Store
    tables: Tables[T]
    clock: Clock
    options: Options
    progress: Progress

    @property
    def started(self) -> Started:
        return self.lease.started


def run_of(world: World[T], lease: Lease, options: Options) -> Run[T]:
    """Return a run that has the lease."""
    tools = world.open(lease.started)
    return Run(
        lease=lease,
        server=world.server,
        store=tools.store,
        tables=tools.tables,
        clock=world.clock,
        options=options,
        progress=Progress(clock=world.clock, watcher=world.watcher, how_far=tools.how_far),
    )
