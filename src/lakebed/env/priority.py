"""How urgent a process and its threads are to the system: what can wait must not take time from those who wait for a reply.

Linux only knows the finer ways; elsewhere niceness has to do.
"""

import os
import sys
import threading
from contextlib import suppress
from typing import Final

# The scheduler gives this niceness a weight of 29, where a thread of default niceness has 1024.
_BACKGROUND_NICE: Final = 16


def be_nice(nice: int) -> None:
    """Let the calling thread be at least so nice."""
    if nice and sys.platform == "linux":
        # Elsewhere this would slow the whole process down.
        thread = threading.get_native_id()
        with suppress(PermissionError):  # A sandbox. An error here would break the pool whose thread this is.
            os.setpriority(os.PRIO_PROCESS, thread, max(nice, os.getpriority(os.PRIO_PROCESS, thread)))


def step_back() -> None:
    """Let the calling thread, and the threads it starts, yield the processor to requests without starving.

    Threads that compete for a core share it by weight. Beside one busy thread of default niceness (1024), this thread
    (29) gets 29 / 1053 of the core: a saturated server loses less than 3 % to compaction, and compaction proceeds.
    SCHED_IDLE has a weight of 3 and gets 3 / 1027. With that, layers pile up on a saturated server until its writers
    have to wait, and a killed compactor stays for half a minute, because a process needs the processor to end.

    Only a privileged process can undo it. Linux may schedule each session as a group, and groups share evenly: the
    weights hold between threads of one session.
    """
    be_nice(_BACKGROUND_NICE)
    if sys.platform == "linux":
        with suppress(PermissionError):  # A sandbox that does not know it. Niceness has to do.
            os.sched_setscheduler(threading.get_native_id(), os.SCHED_BATCH, os.sched_param(0))
