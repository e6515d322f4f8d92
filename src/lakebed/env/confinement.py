"""Bounds on the memory and processor time of a piece of work, kept by the system.

For work on bytes that another party made: a decoder may allocate or compute for long before it returns, so that its caller
cannot stop it. The bounds are on the whole process, so such work belongs in a helper process, one job at a time.

    memory    RLIMIT_DATA: private memory, no file mappings. An allocation beyond it fails. Most libraries raise
              `MemoryError`; some end the process.
    time      RLIMIT_CPU: the system ends the process.

No core is dumped in either case. Only Linux keeps the bound on memory.
"""

import math
import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_PAGE_BYTES = resource.getpagesize()


@contextmanager
def confined(*, memory_bytes: int, cpu_seconds: float) -> Iterator[None]:
    """Let this process take at most so much more memory and processor time than it has taken until now."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    bounds = {
        resource.RLIMIT_CPU: math.ceil(used.ru_utime + used.ru_stime + cpu_seconds),
        resource.RLIMIT_CORE: 0,
    }
    if sys.platform == "linux":
        bounds[resource.RLIMIT_DATA] = _resident_bytes() + memory_bytes
    before = {what: resource.getrlimit(what) for what in bounds}
    try:
        for what, bound in bounds.items():
            soft, hard = before[what]
            resource.setrlimit(what, (bound if soft == resource.RLIM_INFINITY else min(bound, soft), hard))
        yield
    finally:
        for what, limits in before.items():
            resource.setrlimit(what, limits)


def _resident_bytes() -> int:
    """Return the private memory that is in use. Address space that an allocator has only reserved does not count."""
    _size, resident, shared = Path("/proc/self/statm").read_text().split()[:3]
    return (int(resident) - int(shared)) * _PAGE_BYTES
