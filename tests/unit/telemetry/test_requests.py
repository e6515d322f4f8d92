"""Requests are counted once each, and summed over all workers."""

from pathlib import Path

from prometheus_client import CollectorRegistry

from lakebed.telemetry.request_ids import RequestIds
from lakebed.telemetry.requests import RequestMeter, RequestMetrics, meter_file


def test_the_answers_of_all_workers_are_summed(tmp_path: Path) -> None:
    meters = [RequestMeter(["stat", "list"], meter_file(tmp_path, name)) for name in ("one", "two")]
    for meter in meters:
        meter.observe(meter.place("list"), 200, 0.25)
    meters[0].observe(meters[0].place("list"), 404, 100.0)

    registry = CollectorRegistry()
    registry.register(RequestMetrics(tmp_path))

    def answers(status: str) -> float | None:
        return registry.get_sample_value("lakebed_requests_total", {"operation": "list", "status": status})

    def within(bound: str) -> float | None:
        return registry.get_sample_value("lakebed_request_seconds_bucket", {"operation": "list", "le": bound})

    assert (answers("2xx"), answers("4xx"), answers("5xx")) == (2.0, 1.0, None)
    assert (within("0.1"), within("0.25"), within("60.0"), within("+Inf")) == (0.0, 2.0, 2.0, 3.0)
    assert registry.get_sample_value("lakebed_request_seconds_sum", {"operation": "list"}) == 100.5
    assert registry.get_sample_value("lakebed_request_seconds_count", {"operation": "stat"}) is None


def test_workers_with_other_operations_are_summed_by_name(tmp_path: Path) -> None:
    old = RequestMeter(["a", "gone"], meter_file(tmp_path, "old"))
    new = RequestMeter(["a longer name", "a"], meter_file(tmp_path, "new"))
    for meter in (old, new):
        meter.observe(meter.place("a"), 204, 0.5)

    registry = CollectorRegistry()
    registry.register(RequestMetrics(tmp_path))

    assert registry.get_sample_value("lakebed_requests_total", {"operation": "a", "status": "2xx"}) == 2.0


def test_a_request_keeps_the_id_it_came_with_if_that_can_be_logged() -> None:
    ids = RequestIds("process")

    assert ids.of({b"x-request-id": b"mine"}) == "mine"
    made = [
        ids.of(headers)
        for headers in ({}, {b"x-request-id": b"two\nlines"}, {b"x-request-id": b"x" * 1000}, {})
    ]
    assert len(set(made)) == 4
    assert all(name.startswith("process-") for name in made)
