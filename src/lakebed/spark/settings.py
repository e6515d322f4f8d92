"""What Spark is told, each with its reason. Whoever calls, or has set it up, may say otherwise.

`for_queries` can be set in any session. `for_driver` counts when the driver is started here, and
`for_one_machine` when the executors are here as well.
"""

import os
from pathlib import Path
from typing import Final

_GIB: Final = 2**30
# More than that is used by nothing: what grows with the data spills to disk.
_DRIVER_BYTES_MAX: Final = 4 * _GIB
_DRIVER_BYTES_MIN: Final = _GIB
# Python workers, the page cache and whatever else runs here want their part.
_DRIVER_SHARE: Final = 4
# Few and fat: a task costs tens of milliseconds, and what does not fit in memory spills.
_PARTITIONS_PER_CORE: Final = 3
# A socket's path has at most 103 characters on every system, and its name, which Spark makes, has 42.
_SOCKET_FOLDER_MAX: Final = 60
_CGROUP_LIMIT: Final = Path("/sys/fs/cgroup/memory.max")


def for_queries(cores: int) -> dict[str, str]:
    """Return settings for a session whose executors have so many cores."""
    return {
        "spark.sql.adaptive.enabled": "true",
        # Without it every large join sorts both sides, which took twice the time.
        "spark.sql.adaptive.maxShuffledHashJoinLocalMapThreshold": "512m",
        "spark.sql.shuffle.partitions": str(_PARTITIONS_PER_CORE * cores),
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        # A date is the same on every machine.
        "spark.sql.session.timeZone": "UTC",
    }


def for_driver() -> dict[str, str]:
    """Return settings for a driver that is started here."""
    return {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": f"{driver_bytes() // 2**20}m",
    }


def for_one_machine(folder: Path) -> dict[str, str]:
    """Return settings for a Spark that lives on this machine, with its files in `folder`."""
    return {
        # Nobody else is to reach it.
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.local.dir": str(folder / "local"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        **_sockets(folder / "sockets"),
    }


def _sockets(folder: Path) -> dict[str, str]:
    """Return how tasks talk to their Python: half of what one costs is the connection."""
    if len(str(folder)) > _SOCKET_FOLDER_MAX:
        return {}
    return {
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.python.unix.domain.socket.dir": str(folder),
    }


def cores_of(master: str) -> int:
    """Return how many cores a master on this machine gives to tasks: `local[2]`, `local-cluster[2,1,1024]`."""
    inside = master.partition("[")[2].rstrip("]").split(",")
    if master.startswith("local-cluster["):
        return int(inside[0]) * int(inside[1])
    return int(inside[0]) if inside[0].isdigit() else (os.cpu_count() or 1 if inside[0] == "*" else 1)


def is_one_machine(master: str) -> bool:
    """Return whether a master runs its executors on this machine."""
    return master == "local" or master.startswith(("local[", "local-cluster["))


def driver_bytes() -> int:
    """Return how much memory a driver gets: a part of what this machine, or this container, has."""
    share = _machine_bytes() // _DRIVER_SHARE
    return max(_DRIVER_BYTES_MIN, min(_DRIVER_BYTES_MAX, share))


def _machine_bytes() -> int:
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        limit = _CGROUP_LIMIT.read_text(encoding="ascii").strip()
    except OSError:
        return machine
    return min(machine, int(limit)) if limit.isdigit() else machine
