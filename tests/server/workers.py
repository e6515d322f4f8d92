"""What a supervisor's workers do in its tests. Each runs in a process of its own."""

import os
import signal
import threading
from pathlib import Path
from typing import Any

from lakebed.errors import CorruptError, ErrorKind


def refuses(_config: str, _sockets: Any, _balance: Any, supervisor: Any) -> None:
    supervisor.send(CorruptError(ErrorKind.NEWER_VERSION, "written by a newer lakebed"))


def fails(_config: str, _sockets: Any, _balance: Any, _supervisor: Any) -> None:
    raise SystemExit(1)


def dies_twice(config: str, _sockets: Any, balance: Any, supervisor: Any) -> None:
    """Be ready and die; the third of us tells the supervisor to stop."""
    supervisor.send(None)
    with Path(config).open("a") as file:
        file.write(f"{balance.slot}\n")
    if len(Path(config).read_text().splitlines()) < 3:
        os.kill(os.getpid(), signal.SIGKILL)
    os.kill(os.getppid(), signal.SIGTERM)
    threading.Event().wait()


def is_stuck(_config: str, _sockets: Any, _balance: Any, supervisor: Any) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    supervisor.send(None)
    os.kill(os.getppid(), signal.SIGTERM)
    threading.Event().wait()


def waits(_config: str, _sockets: Any, _balance: Any, supervisor: Any) -> None:
    supervisor.send(None)
    threading.Event().wait()


def dies_twice_beside(config: str, supervisor: Any) -> None:
    """Be ready and die; the third of us tells the supervisor to stop."""
    supervisor.send(None)
    with Path(config).open("a") as file:
        file.write("beside\n")
    if len(Path(config).read_text().splitlines()) < 3:
        os.kill(os.getpid(), signal.SIGKILL)
    os.kill(os.getppid(), signal.SIGTERM)
    threading.Event().wait()
