"""Work that is confined takes no more than it is given, and what follows is not confined."""

import resource
import signal
import subprocess
import sys

import pytest

from lakebed.env.confinement import confined

MEMORY = """
from lakebed.env.confinement import confined
try:
    with confined(memory_bytes=200_000_000, cpu_seconds=60):
        fits = bytearray(100_000_000)
        bytearray(400_000_000)
except MemoryError:
    print(len(fits), len(bytearray(400_000_000)))
"""
TIME = """
from lakebed.env.confinement import confined
with confined(memory_bytes=200_000_000, cpu_seconds=0.1):
    while True:
        pass
"""


def _run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


@pytest.mark.skipif(sys.platform != "linux", reason="no other system keeps a bound on memory")
def test_an_allocation_beyond_the_bound_fails_and_later_ones_do_not() -> None:
    assert _run(MEMORY).stdout.split() == ["100000000", "400000000"]


def test_a_process_that_computes_for_too_long_is_ended() -> None:
    assert _run(TIME).returncode == -signal.SIGXCPU


def test_the_bounds_are_taken_back() -> None:
    kinds = (resource.RLIMIT_DATA, resource.RLIMIT_CPU, resource.RLIMIT_CORE)
    before = [resource.getrlimit(kind) for kind in kinds]
    with confined(memory_bytes=2**40, cpu_seconds=3600):
        assert resource.getrlimit(resource.RLIMIT_CORE)[0] == 0
    assert [resource.getrlimit(kind) for kind in kinds] == before
