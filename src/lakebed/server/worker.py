"""Where a worker process begins: Granian imports this module and calls `create_app`.

The supervisor leaves the configuration in the environment, because that is all that
a new process gets from it.
"""

import asyncio
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from multiprocessing.connection import wait
from typing import Any

from lakebed.server.asgi import WorkerApp
from lakebed.server.config import decode_config
from lakebed.server.metrics import LIBRARY_VARIABLE
from lakebed.server.settings import WORKER_VARIABLE
from lakebed.telemetry.log import configure


def create_app() -> WorkerApp:
    """Return the application of this process."""
    config = decode_config(os.environ[WORKER_VARIABLE])  # noqa: TID251  the configuration of a process
    # Ctrl-C is for the supervisor, which tells its workers; a worker that heard it by itself would seem to have died.
    os.setsid()
    configure(level=config.log_level, json=config.log_json)
    end_with_supervisor(config.shutdown_seconds)
    _heed_one_signal(asyncio.get_event_loop())
    return WorkerApp(config, shared_metrics=LIBRARY_VARIABLE in os.environ)  # noqa: TID251  set by the supervisor


def end_with_supervisor(seconds: int) -> None:
    """End as at SIGTERM when the supervisor was killed: nobody would replace or stop this process any more."""
    supervisor = multiprocessing.parent_process()
    if supervisor is None:
        return

    def watch() -> None:
        wait([supervisor.sentinel])
        os.kill(os.getpid(), signal.SIGTERM)
        # This thread ends with the process; if it gets to go on, the process is stuck.
        threading.Event().wait(seconds)
        os._exit(1)

    threading.Thread(target=watch, name="lakebed-supervisor", daemon=True).start()


def _heed_one_signal(loop: asyncio.AbstractEventLoop) -> None:
    """Let only the first signal to stop get to Granian, which adds its handlers to `loop` after this.

    Service managers tell every process, and then the supervisor tells its workers once
    more; Granian, told twice at almost the same time, waits for itself.
    """
    add = loop.add_signal_handler
    heeded = threading.Event()

    def add_once(number: int, callback: Callable[..., object], *args: Any) -> None:
        def heed() -> None:
            if not heeded.is_set():
                heeded.set()
                callback(*args)

        add(number, heed)

    loop.add_signal_handler = add_once  # type: ignore[assignment,method-assign]  # the one hook that Granian leaves
