"""Jobs of other layers that Spark spreads over executors, found by the entry-point group `lakebed.jobs`.

Spark imports nothing of the engine: whoever runs it announces what can be done elsewhere, as a module
with these functions.
"""

from importlib.metadata import entry_points
from pathlib import Path
from typing import Protocol, cast

GROUP = "lakebed.jobs"


class SpreadJob(Protocol):
    """Work that any number of processes can do together, with leases of their own."""

    def settings(self, *, data: str | None, file: Path | None) -> str:
        """Return, on the driver, what a worker needs to know. It holds secrets."""
        ...

    def is_for_one_machine(self, text: str) -> bool:
        """Return whether only processes of this machine can work with these settings."""
        ...

    def work(self, text: str) -> dict[str, int]:
        """Work on an executor until nothing is left to do, and return what was done."""
        ...


def load_job(name: str) -> SpreadJob:
    """Return the job that announced itself under `name`."""
    (entry,) = entry_points(group=GROUP, name=name)
    return cast("SpreadJob", entry.load())
