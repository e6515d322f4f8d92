"""Calls are counted by how they ended and timed by the clock that was given."""

import pytest
from prometheus_client import CollectorRegistry

from lakebed.env.clock import Instant
from lakebed.errors import ConflictError, InvalidInputError, UnavailableError
from lakebed.kv.drivers.memory import MemoryKV
from lakebed.kv.port import Expect, Row
from lakebed.kv.wrappers.faults import Delay, FaultyKV, LostReply, Operation, Refused, Script
from lakebed.kv.wrappers.metrics import MeteredKV
from lakebed.kv.wrappers.sampled import SampledKV
from lakebed.limits import SAMPLED_CALLS
from lakebed.testing.kv_suite import keys_of


class HandClock:
    """Time that passes only while somebody sleeps."""

    passed = 0.0

    def now(self) -> Instant:
        return Instant(0)

    def monotonic(self) -> float:
        return self.passed

    async def sleep(self, seconds: float) -> None:
        self.passed += seconds


async def test_every_outcome_is_counted() -> None:
    registry = CollectorRegistry()
    clock = HandClock()
    faults = Script({Operation.SWAP: [None, None, None, LostReply(), Refused()]})
    store = MeteredKV(FaultyKV(MemoryKV(), plan=faults, clock=clock), registry=registry, clock=clock)

    await store.swap("p", b"k", b"v", expected=Expect.ABSENT)
    with pytest.raises(ConflictError):
        await store.swap("p", b"k", b"v", expected=Expect.ABSENT)
    with pytest.raises(InvalidInputError):
        await store.swap("p", b"", b"v", expected=Expect.ABSENT)
    for _ in range(2):
        with pytest.raises(UnavailableError):
            await store.swap("p", b"k", b"v", expected=Expect.ANY)

    counted = {
        outcome: registry.get_sample_value(
            "lakebed_kv_calls_total", {"operation": "swap", "outcome": outcome}
        )
        for outcome in ("done", "conflict", "invalid", "unknown", "unavailable", "cancelled")
    }
    assert counted == {
        "done": 1,
        "conflict": 1,
        "invalid": 1,
        "unknown": 1,
        "unavailable": 1,
        "cancelled": None,
    }


async def test_time_and_rows_are_measured() -> None:
    registry = CollectorRegistry()
    clock = HandClock()
    faults = Script({Operation.SET_ROWS: [Delay(2.0)], Operation.SCAN: [Delay(0.5), Delay(0.25)]})
    store = MeteredKV(FaultyKV(MemoryKV(), plan=faults, clock=clock), registry=registry, clock=clock)

    await store.set_rows("p", [Row(b"%d" % n, b"v") for n in range(7)])
    assert len(await keys_of(store, "p")) == 7

    def sample(name: str, operation: str) -> float | None:
        return registry.get_sample_value(name, {"operation": operation})

    assert sample("lakebed_kv_seconds_sum", "set_rows") == 2.0
    assert sample("lakebed_kv_seconds_sum", "scan") == 0.75
    assert sample("lakebed_kv_rows_total", "set_rows") == 7
    assert sample("lakebed_kv_rows_total", "scan") == 7


async def test_every_call_to_an_embedded_store_is_counted_and_one_in_64_is_timed() -> None:
    registry = CollectorRegistry()
    clock = HandClock()
    faults = Script({operation: [Delay(0.5)] * 200 for operation in (Operation.GET, Operation.SET_ROWS)})
    store = SampledKV(FaultyKV(MemoryKV(), plan=faults, clock=clock), registry=registry, clock=clock)

    def counted(name: str, **labels: str) -> float:
        return registry.get_sample_value(f"lakebed_kv_{name}", labels) or 0.0

    for calls in range(1, 131):
        await store.get("p", b"k")
        await store.set_rows("p", [Row(b"a", b""), Row(b"b", b"")])
        timed = 1 + (calls - 1) // SAMPLED_CALLS
        seen = 1 + SAMPLED_CALLS * (timed - 1)
        for operation in ("get", "set_rows"):
            assert counted("calls_total", operation=operation, outcome="any") == seen
            assert counted("seconds_count", operation=operation) == timed
            assert counted("seconds_sum", operation=operation) == 0.5 * timed
        assert counted("rows_total", operation="set_rows") == 2 * seen
    for _ in range(65):
        assert await keys_of(store, "p") == [b"a", b"b"]
    assert counted("calls_total", operation="scan", outcome="any") == 65
    # What is rare is measured as ever.
    await store.delete_rows("p", [b"a"])
    assert counted("calls_total", operation="delete_rows", outcome="done") == 1
