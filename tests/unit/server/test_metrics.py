"""What `/metrics` costs, however often anyone asks."""

from pathlib import Path

from lakebed.limits import METRICS_SECONDS
from lakebed.server.metrics import Metrics
from tests.unit.auth.world import OwnedClock


def test_numbers_are_collected_once_a_second(tmp_path: Path) -> None:
    clock = OwnedClock()
    metrics = Metrics(tmp_path, "p", ["a"], shared=False, clock=clock)
    place = metrics.requests.place("a")
    metrics.requests.observe(place, 200, 0.001)
    first = metrics.text()
    metrics.requests.observe(place, 200, 0.001)

    assert metrics.text() is first
    clock.advance(METRICS_SECONDS)
    assert b'lakebed_requests_total{operation="a",status="2xx"} 2.0' in metrics.text()
