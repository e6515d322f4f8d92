"""Workers that do not start, die, and do not end."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakebed.env.clock import SystemClock
from lakebed.errors import CorruptError, ErrorKind, UnavailableError
from lakebed.server.http import supervisor
from lakebed.server.http.listening import bound
from lakebed.server.http.supervisor import Beside, Supervisor, Target
from tests.server import workers


@pytest.fixture(autouse=True)
def surroundings(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let new processes find this package, and leave the signals as they were."""
    monkeypatch.syspath_prepend(Path(__file__).parents[2])
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def supervise(target: Target, *, config: str = "", count: int = 1, beside: Beside | None = None) -> None:
    listening = bound("127.0.0.1", 0)
    Supervisor(
        target, config, [listening], workers=count, seconds=0.1, clock=SystemClock(), beside=beside
    ).run()
    assert listening.fileno() == -1, "nobody listens afterwards"


def test_a_worker_that_cannot_start_ends_the_server_with_its_reason() -> None:
    with pytest.raises(CorruptError, match="written by a newer lakebed") as raised:
        supervise(workers.refuses, count=2)
    assert raised.value.kind is ErrorKind.NEWER_VERSION
    with pytest.raises(UnavailableError, match="could not start"):
        supervise(workers.fails)


def test_a_worker_that_dies_comes_back_in_its_place(tmp_path: Path) -> None:
    starts = tmp_path / "starts"
    supervise(workers.dies_twice, config=str(starts))
    assert starts.read_text() == "0\n0\n0\n"


def test_a_process_beside_the_workers_comes_back_too(tmp_path: Path) -> None:
    starts = tmp_path / "starts"
    supervise(workers.waits, config=str(starts), beside=workers.dies_twice_beside)
    assert starts.read_text() == "beside\n" * 3


def test_a_worker_that_does_not_end_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "WORKER_END_SECONDS", 0.1)
    supervise(workers.is_stuck)
