"""How urgent a process and its threads are to the system: what can wait must not take time from those who wait for a reply.

Linux only knows the finer ways; elsewhere niceness has to do.
"""

import os
import sys
import threading
from contextlib import suppress


def be_nice(nice: int) -> None:
    """Let the calling thread be at least so nice."""
    if nice and sys.platform == "linux":
        # Elsewhere this would slow the whole process down.
        thread = threading.get_native_id()
        with suppress(PermissionError):  # A sandbox. An error here would break the pool whose thread this is.
            os.setpriority(os.PRIO_PROCESS, thread, max(nice, os.getpriority(os.PRIO_PROCESS, thread)))


def be_idle() -> None:
    """Let the calling thread, and those it starts, go only while nobody else wants the processor.

    There is no way back without special rights. Linux may make every session a group of its own, and groups share
    evenly: it is those of one session that this is kind to.
    """
    if sys.platform == "linux":
        with suppress(PermissionError):  # A sandbox that does not know it. Niceness has to do.
            os.sched_setscheduler(threading.get_native_id(), os.SCHED_IDLE, os.sched_param(0))
