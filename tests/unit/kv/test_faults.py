"""Planned faults do what they say, and keep to the port's contract."""

import pytest

from lakebed.env.clock import Instant
from lakebed.env.ids import SeededIds
from lakebed.errors import ConflictError, ErrorKind, UnavailableError
from lakebed.kv.drivers.memory import MemoryKV
from lakebed.kv.port import Expect, NamesFence, Row
from lakebed.kv.wrappers.faults import (
    AppliedLate,
    Call,
    Conflict,
    Delay,
    Fault,
    FaultyKV,
    LostReply,
    LostRequest,
    Operation,
    Refused,
    Script,
    chances,
    no_faults,
)
from lakebed.testing.kv_suite import rows_of


class CountingClock:
    """A clock that only remembers how long it was asked to wait."""

    slept = 0.0

    def now(self) -> Instant:
        return Instant(0)

    def monotonic(self) -> float:
        return self.slept

    async def sleep(self, seconds: float) -> None:
        self.slept += seconds


def faulty(inner: MemoryKV, operation: Operation, *faults: Fault | None) -> FaultyKV:
    return FaultyKV(inner, plan=Script({operation: list(faults)}), clock=CountingClock())


@pytest.mark.parametrize(
    ("fault", "kind", "applied"),
    [
        (LostRequest(), ErrorKind.OUTCOME_UNKNOWN, False),
        (LostReply(), ErrorKind.OUTCOME_UNKNOWN, True),
        (AppliedLate(), ErrorKind.OUTCOME_UNKNOWN, False),
        (Refused(), ErrorKind.STORE_UNAVAILABLE, False),
    ],
)
async def test_a_failed_write_was_applied_or_not_as_the_fault_says(
    fault: Fault, kind: ErrorKind, applied: bool
) -> None:
    inner = MemoryKV()
    store = faulty(inner, Operation.SWAP, fault)

    with pytest.raises(UnavailableError) as caught:
        await store.swap("p", b"k", b"v", expected=Expect.ABSENT)

    assert caught.value.kind is kind
    assert (await inner.get("p", b"k") is not None) is applied


@pytest.mark.parametrize("fault", [LostRequest(), LostReply(), AppliedLate(), Refused()])
async def test_a_failed_read_has_no_unknown_outcome(fault: Fault) -> None:
    store = faulty(MemoryKV(), Operation.GET, fault)

    with pytest.raises(UnavailableError) as caught:
        await store.get("p", b"k")

    assert caught.value.kind is ErrorKind.STORE_UNAVAILABLE
    assert await store.land() == 0


async def test_a_lost_reply_hides_a_conflict_too() -> None:
    inner = MemoryKV()
    await inner.swap("p", b"k", b"old", expected=Expect.ABSENT)
    store = faulty(inner, Operation.SWAP, LostReply())

    with pytest.raises(UnavailableError):
        await store.swap("p", b"k", b"new", expected=Expect.ABSENT)


async def test_a_late_write_lands_when_it_is_let_and_is_checked_then() -> None:
    inner = MemoryKV()
    store = faulty(inner, Operation.SET_ROWS, AppliedLate(), AppliedLate())
    await store.swap("r", b"branch", b"v", expected=Expect.ABSENT, names=(b"token",))
    fence = NamesFence(partition="r", key=b"branch", names=(b"token",))
    for key in (b"fenced", b"free"):
        with pytest.raises(UnavailableError):
            await store.set_rows("p", [Row(key, b"v")], fence=fence if key == b"fenced" else None)
    await store.swap("r", b"branch", b"v", expected=Expect.ANY, names=(b"next",))

    assert await store.land() == 1, "the fence stopped one of the two"

    assert await rows_of(inner, "p") == [(b"free", b"v")]


async def test_a_planned_conflict_writes_nothing() -> None:
    inner = MemoryKV()
    store = FaultyKV(
        inner,
        plan=Script({Operation.SWAP: [Conflict()], Operation.SET_ROWS: [Conflict()]}),
        clock=CountingClock(),
    )

    with pytest.raises(ConflictError) as caught:
        await store.swap("p", b"k", b"v", expected=Expect.ABSENT)
    assert caught.value.kind is ErrorKind.VERSION_CHANGED
    with pytest.raises(ConflictError) as caught:
        await store.set_rows("p", [Row(b"k", b"v")])
    assert caught.value.kind is ErrorKind.ROW_CHANGED

    assert await inner.get("p", b"k") is None


async def test_a_delay_waits_on_the_clock_and_then_succeeds() -> None:
    clock = CountingClock()
    store = FaultyKV(MemoryKV(), plan=Script({Operation.SWAP: [Delay(3.5)]}), clock=clock)

    await store.swap("p", b"k", b"v", expected=Expect.ABSENT)

    assert clock.slept == 3.5


async def test_a_script_meets_the_call_it_names_and_knows_when_it_is_done() -> None:
    script = Script({Operation.SWAP: [None, LostRequest()]})
    store = FaultyKV(MemoryKV(), plan=script, clock=CountingClock())

    await store.set_rows("p", [Row(b"k", b"v")])
    await store.swap("p", b"a", b"v", expected=Expect.ABSENT)
    assert not script.finished
    with pytest.raises(UnavailableError):
        await store.swap("p", b"b", b"v", expected=Expect.ABSENT)

    assert script.finished
    await store.swap("p", b"c", b"v", expected=Expect.ABSENT)


async def test_a_scan_can_break_off_between_pages() -> None:
    store = faulty(MemoryKV(), Operation.SCAN, None, LostRequest())
    await store.set_rows("p", [Row(b"%d" % n, b"v") for n in range(4)])
    seen: list[bytes] = []

    async def read() -> None:
        async for page in store.scan("p", page_items_max=2):
            seen.extend(page.keys)

    with pytest.raises(UnavailableError):
        await read()

    assert seen == [b"0", b"1"]


def test_equal_seeds_draw_equal_faults() -> None:
    drawn = []
    for seed in (7, 7, 8):
        plan = chances(SeededIds(seed), [(0.2, LostReply()), (0.1, Conflict()), (0.1, Delay(1))])
        drawn.append([plan(Call(Operation.SWAP)) for _ in range(500)])

    assert drawn[0] == drawn[1] != drawn[2]
    assert {type(fault) for fault in drawn[0]} == {LostReply, Conflict, Delay, type(None)}
    assert 60 < sum(isinstance(fault, LostReply) for fault in drawn[0]) < 140


def test_chance_never_plans_a_conflict_for_a_read() -> None:
    plan = chances(SeededIds(1), [(1.0, Conflict())])

    assert plan(Call(Operation.GET)) is None
    assert plan(Call(Operation.SWAP)) == Conflict()
    assert no_faults(Call(Operation.SWAP)) is None
