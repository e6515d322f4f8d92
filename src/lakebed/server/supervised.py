"""What every process of a supervisor owes it: not to outlive it."""

import multiprocessing
import os
import signal
import threading
from multiprocessing.connection import wait

from lakebed.limits import WORKER_END_SECONDS


def end_with_supervisor(seconds: int) -> None:
    """End as at SIGTERM when the supervisor was killed: nobody would replace or stop this process any more."""
    supervisor = multiprocessing.parent_process()
    if supervisor is None:
        return

    def watch() -> None:
        wait([supervisor.sentinel])
        os.kill(os.getpid(), signal.SIGTERM)
        # This thread ends with the process; if it gets to go on, the process is stuck.
        threading.Event().wait(seconds + WORKER_END_SECONDS)
        os._exit(1)

    threading.Thread(target=watch, name="lakebed-supervisor", daemon=True).start()
