"""Calls are counted by how they ended and timed by the clock that was given."""

import pytest
from prometheus_client import CollectorRegistry

from lakebed.env.clock import Instant
from lakebed.errors import ConflictError, InvalidInputError, UnavailableError
from lakebed.kv.drivers.memory import MemoryKV
from lakebed.kv.port import Expect, Row
from lakebed.kv.wrappers.faults import Delay, FaultyKV, LostReply, Operation, Refused, Script
from lakebed.kv.wrappers.metrics import MeteredKV
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
