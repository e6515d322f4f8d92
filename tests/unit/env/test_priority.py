"""How threads give way to others. Each test has a thread of its own: there is no way back."""

import os
import sys
import threading
from collections.abc import Callable

import pytest

from lakebed.env.priority import be_nice, step_back
from lakebed.env.work import ThreadWorkers

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="niceness of a thread is known to Linux only")


def in_a_thread(look: Callable[[], object]) -> object:
    seen: list[object] = []
    thread = threading.Thread(target=lambda: seen.append(look()))
    thread.start()
    thread.join()
    return seen[0]


def niceness() -> int:
    return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())


def test_a_background_thread_starts_background_threads_that_cannot_starve() -> None:
    def look() -> object:
        step_back()
        return in_a_thread(lambda: (os.sched_getscheduler(threading.get_native_id()), niceness()))

    # With SCHED_IDLE a killed process stays for half a minute beside busy ones.
    assert in_a_thread(look) == (os.SCHED_BATCH, 16)


def test_a_nice_thread_never_becomes_more_urgent() -> None:
    def look() -> object:
        be_nice(15)
        be_nice(5)
        return niceness()

    assert in_a_thread(look) == 15


async def test_workers_are_as_nice_as_they_were_asked_to_be() -> None:
    workers = ThreadWorkers(1, nice=7)
    try:
        assert await workers.run(niceness) == 7
    finally:
        workers.close()
    assert niceness() < 7
