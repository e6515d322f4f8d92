"""What the wrappers add to a store."""

from collections.abc import Callable

import pytest
from prometheus_client import CollectorRegistry

from lakebed.env.clock import SystemClock
from lakebed.env.ids import SeededIds
from lakebed.errors import AlreadyExistsError, ErrorKind, NotFoundError, UnavailableError
from lakebed.limits import SAMPLED_CALLS
from lakebed.objects.drivers.memory import MemoryObjects
from lakebed.objects.port import ByteRange, ETag, IfMatch, PutMode
from lakebed.objects.wrappers.faults import (
    Delay,
    Fault,
    FaultyObjects,
    LostReply,
    LostRequest,
    Operation,
    PartialRead,
    Refused,
    Script,
)
from lakebed.objects.wrappers.metrics import MeteredObjects, ObjectMeters
from lakebed.objects.wrappers.retry import RetryingObjects
from lakebed.objects.wrappers.sampled import SampledObjects


class RecordingClock(SystemClock):
    def __init__(self) -> None:
        self.waits: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)


class Retried:
    """A memory store behind scripted faults behind retries."""

    def __init__(self, faults: dict[Operation, list[Fault | None]]) -> None:
        self.clock = RecordingClock()
        self.memory = MemoryObjects()
        self.script = Script(faults)
        faulty = FaultyObjects(self.memory, plan=self.script, clock=self.clock)
        self.store = RetryingObjects(faulty, clock=self.clock, ids=SeededIds(1), attempts_max=3)


async def test_a_create_whose_reply_was_lost_knows_its_own_success() -> None:
    retried = Retried({Operation.PUT: [LostReply()]})

    etag = await retried.store.put("k", b"mine")

    found = await retried.memory.head("k")
    assert found is not None
    assert found.etag == etag


async def test_a_create_whose_request_was_lost_is_sent_again() -> None:
    retried = Retried({Operation.PUT: [LostRequest(), LostRequest()]})

    await retried.store.put("k", b"mine")

    assert await retried.memory.get("k") == b"mine"


async def test_a_create_that_lost_to_someone_elses_bytes_says_so() -> None:
    retried = Retried({Operation.PUT: [LostRequest()]})
    await retried.memory.put("k", b"them")

    with pytest.raises(AlreadyExistsError):
        await retried.store.put("k", b"mine")

    assert await retried.memory.get("k") == b"them"


async def test_a_create_of_an_existing_key_is_not_taken_for_an_own_success() -> None:
    retried = Retried({})
    await retried.memory.put("k", b"same bytes")

    with pytest.raises(AlreadyExistsError):
        await retried.store.put("k", b"same bytes")


async def test_a_create_that_may_have_been_applied_ends_unknown_whatever_the_last_try_says() -> None:
    retried = Retried({Operation.PUT: [LostReply(), Refused(), Refused()]})

    with pytest.raises(UnavailableError) as raised:
        await retried.store.put("k", b"mine")

    assert raised.value.kind is ErrorKind.OUTCOME_UNKNOWN


@pytest.mark.parametrize("when", [PutMode.OVERWRITE, IfMatch(ETag("m1"))], ids=["overwrite", "if-match"])
async def test_a_replacing_put_of_unknown_outcome_is_not_repeated(when: PutMode | IfMatch) -> None:
    retried = Retried({Operation.PUT: [LostRequest()]})
    await retried.memory.put("k", b"old")

    with pytest.raises(UnavailableError) as raised:
        await retried.store.put("k", b"new", when=when)

    assert raised.value.kind is ErrorKind.OUTCOME_UNKNOWN
    assert await retried.memory.get("k") == b"old"


async def test_a_put_that_was_certainly_not_applied_is_repeated_whatever_it_is() -> None:
    retried = Retried({Operation.PUT: [Refused(), Refused()], Operation.COPY: [Refused()]})

    await retried.store.put("k", b"new", when=PutMode.OVERWRITE)
    await retried.store.copy("k", "l")

    assert await retried.memory.get("l") == b"new"
    assert retried.script.finished


async def test_waits_grow_and_then_the_failure_is_told() -> None:
    retried = Retried({Operation.GET: [Refused(), Refused(), Refused()]})

    with pytest.raises(UnavailableError):
        await retried.store.get("k")

    first, second = retried.clock.waits
    assert 0.05 <= first < 0.15
    assert 0.10 <= second < 0.30


async def test_what_is_missing_is_not_asked_for_twice() -> None:
    retried = Retried({})

    with pytest.raises(NotFoundError):
        await retried.store.get("k")

    assert retried.clock.waits == []


async def test_a_full_disk_is_told_at_once() -> None:
    retried = Retried({})

    async def full(*_args: object, **_kwargs: object) -> ETag:
        raise UnavailableError(ErrorKind.DISK_FULL, "full")

    retried.memory.put = full  # type: ignore[method-assign]  # a full disk in one line

    with pytest.raises(UnavailableError):
        await retried.store.put("k", b"x")

    assert retried.clock.waits == []


@pytest.mark.parametrize(
    ("byte_range", "expected"),
    [(None, b"0123456789"), (ByteRange(2, 9), b"2345678"), (ByteRange(5), b"56789")],
)
@pytest.mark.parametrize("broken_after", range(11))
async def test_a_stream_goes_on_where_it_broke_off(
    byte_range: ByteRange | None, expected: bytes, broken_after: int
) -> None:
    retried = Retried({Operation.STREAM: [PartialRead(broken_after), Refused()]})
    await retried.memory.put("k", b"0123456789")

    chunks = [chunk async for chunk in retried.store.stream("k", byte_range=byte_range)]

    assert b"".join(chunks) == expected


@pytest.mark.parametrize("broken_after", range(8))
async def test_a_listing_goes_on_where_it_broke_off(broken_after: int) -> None:
    retried = Retried({Operation.LIST: [PartialRead(broken_after), Refused()]})
    keys = [f"k{n}" for n in range(7)]
    for key in keys:
        await retried.memory.put(key, b"")

    listed = [info.key async for page in retried.store.list(page_items_max=3) for info in page]

    assert listed == keys


async def test_a_delay_waits_on_the_clock() -> None:
    retried = Retried({Operation.HEAD: [Delay(7.0)]})

    await retried.store.head("k")

    assert retried.clock.waits == [7.0]


@pytest.mark.parametrize("fault", [LostRequest(), LostReply()], ids=["request", "reply"])
async def test_a_lost_reply_was_applied_and_a_lost_request_was_not(fault: Fault) -> None:
    memory = MemoryObjects()
    store = FaultyObjects(memory, plan=Script({Operation.PUT: [fault]}), clock=RecordingClock())

    with pytest.raises(UnavailableError) as raised:
        await store.put("k", b"1")

    assert raised.value.kind is ErrorKind.OUTCOME_UNKNOWN
    assert (await memory.head("k") is not None) == isinstance(fault, LostReply)


async def test_calls_are_counted_by_how_they_ended() -> None:
    registry = CollectorRegistry()
    faulty = FaultyObjects(
        MemoryObjects(), plan=Script({Operation.PUT: [None, LostReply(), Refused()]}), clock=RecordingClock()
    )
    store = MeteredObjects(faulty, meters=ObjectMeters(registry), clock=RecordingClock())

    await store.put("k", b"12345")
    assert await store.get("k") == b"12345"
    for attempt in (lambda: store.put("l", b""), lambda: store.put("m", b""), lambda: store.put("k", b"")):
        await failing(attempt)
    await failing(lambda: store.get("missing"))

    counted = {
        (sample.labels["operation"], sample.labels["outcome"]): sample.value
        for metric in registry.collect()
        for sample in metric.samples
        if sample.name == "lakebed_objects_calls_total"
    }
    assert counted == {
        ("put", "done"): 1,
        ("put", "unknown"): 1,
        ("put", "unavailable"): 1,
        ("put", "refused"): 1,
        ("get", "done"): 1,
        ("get", "missing"): 1,
    }
    assert registry.get_sample_value("lakebed_objects_bytes_total", {"direction": "written"}) == 5
    assert registry.get_sample_value("lakebed_objects_bytes_total", {"direction": "read"}) == 5


async def test_every_call_to_local_storage_is_counted_and_one_in_64_is_timed() -> None:
    registry = CollectorRegistry()
    store = SampledObjects(MemoryObjects(), meters=ObjectMeters(registry), clock=RecordingClock())

    def counted(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(f"lakebed_objects_{name}", labels)

    for index in range(SAMPLED_CALLS + 1):
        await store.put(f"k{index}", b"12345")
        assert await store.get(f"k{index}") == b"12345"
        assert b"".join([chunk async for chunk in store.stream(f"k{index}")]) == b"12345"
        assert await store.head(f"k{index}") is not None
    for operation in ("put", "get", "stream", "head"):
        assert counted("calls_total", operation=operation, outcome="any") == SAMPLED_CALLS + 1
    assert counted("seconds_count", operation="get") == 2
    assert counted("bytes_total", direction="written") == 5 * (SAMPLED_CALLS + 1)
    assert counted("bytes_total", direction="read") == 2 * 5 * (SAMPLED_CALLS + 1)


async def failing(call: Callable[[], object]) -> None:
    with pytest.raises((UnavailableError, AlreadyExistsError, NotFoundError)):
        await call()  # type: ignore[misc]  # any of the store's calls
