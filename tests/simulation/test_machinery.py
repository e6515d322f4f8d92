"""The world the engine is put into: its loop, its deaths and its network."""

import asyncio
from collections import Counter
from collections.abc import Coroutine
from contextvars import copy_context
from typing import Any

import pytest

from lakebed.errors import ErrorKind, UnavailableError
from lakebed.testing.simulation.chance import Chance
from lakebed.testing.simulation.clock import SimClock
from lakebed.testing.simulation.loop import OWNER, Owner, SimLoop, StuckError
from lakebed.testing.simulation.network import Network, Weather
from lakebed.testing.simulation.trace import Trace


def make_loop(seed: str = "seed") -> SimLoop:
    return SimLoop(Chance(seed))


def spawn(loop: SimLoop, owner: Owner, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
    context = copy_context()
    context.run(OWNER.set, owner)
    return loop.create_task(work, context=context)


def test_time_jumps_to_the_next_timer() -> None:
    loop = make_loop()

    async def main() -> float:
        await asyncio.gather(asyncio.sleep(3600), asyncio.sleep(60))
        return loop.time()

    assert loop.run(main()) == 3600
    loop.abandon()


def test_a_clock_that_is_set_back_was_read_before() -> None:
    loop = make_loop()
    clock = SimClock(loop)
    clock.set(100.0)
    told = clock.now()

    clock.set(-100.0)

    assert clock.now() < told == clock.latest()
    loop.abandon()


def test_the_order_of_tasks_comes_from_the_seed() -> None:
    def order(seed: str) -> list[str]:
        loop, done = make_loop(seed), []

        async def main() -> None:
            tasks = []
            for name in "abcdef":
                owner = loop.own(name)

                async def work(name: str = name) -> None:
                    done.append(name)

                tasks.append(spawn(loop, owner, work()))
            await asyncio.gather(*tasks)

        loop.run(main())
        loop.abandon()
        return done

    assert order("1") == order("1")
    assert len({tuple(order(str(seed))) for seed in range(10)}) > 5


def test_a_dead_process_never_runs_again_not_even_its_finally_blocks() -> None:
    loop, happened = make_loop(), []
    victim = loop.own("victim")

    async def work() -> None:
        try:
            happened.append("began")
            await asyncio.sleep(10)
            happened.append("went on")
        finally:
            happened.append("cleaned up")

    async def main() -> list[str]:
        spawn(loop, victim, work())
        await asyncio.sleep(1)
        loop.kill(victim)
        await asyncio.sleep(100)
        return list(happened)

    assert loop.run(main()) == ["began"]
    loop.abandon()


def test_nobody_dies_while_a_run_is_abandoned() -> None:
    loop, happened = make_loop(), []
    victim = loop.own("victim")

    async def work() -> None:
        try:
            await asyncio.sleep(1000)
        finally:
            await asyncio.sleep(10)
            happened.append("cleaned up")

    async def main() -> None:
        spawn(loop, victim, work())
        loop.call_later(5, loop.kill, victim)
        await asyncio.sleep(1)

    loop.run(main())
    loop.abandon()

    assert happened == ["cleaned up"]


def test_a_paused_process_goes_on_when_it_wakes() -> None:
    loop, times = make_loop(), []
    sleeper = loop.own("sleeper")

    async def work() -> None:
        for _ in range(2):
            await asyncio.sleep(10)
            times.append(loop.time())

    async def main() -> None:
        task = spawn(loop, sleeper, work())
        await asyncio.sleep(1)
        loop.pause(sleeper, 100)
        await task

    loop.run(main())
    assert times == [101, 111]
    loop.abandon()


def test_waiting_for_what_never_happens_is_an_error_not_a_hang() -> None:
    loop = make_loop()
    with pytest.raises(StuckError):
        loop.run(asyncio.Event().wait())
    loop.abandon()


@pytest.mark.parametrize(
    ("weather", "applied_at_once", "applied_later"),
    [
        (Weather(lost=1), False, False),
        (Weather(unanswered=1), True, True),
        (Weather(late=1), False, True),
        (Weather(refused=1), False, False),
    ],
)
def test_a_write_that_is_not_answered_may_or_may_not_be_applied(
    weather: Weather, applied_at_once: bool, applied_later: bool
) -> None:
    loop, applied = make_loop(), []
    network = Network(loop, Chance("seed"), Trace(loop.time), Counter())
    network.weather = weather

    async def main() -> tuple[ErrorKind, bool, bool]:
        with pytest.raises(UnavailableError) as caught:
            await network.call("swap something", lambda: applied.append(1), write=True)
        at_once = bool(applied)
        await asyncio.sleep(1000)
        return caught.value.kind, at_once, bool(applied)

    kind, at_once, later = loop.run(main())
    loop.abandon()

    unknown = ErrorKind.STORE_UNAVAILABLE if weather.refused else ErrorKind.OUTCOME_UNKNOWN
    assert (kind, at_once, later) == (unknown, applied_at_once, applied_later)


def test_a_message_arrives_although_its_sender_is_dead() -> None:
    loop, applied = make_loop(), []
    network = Network(loop, Chance("seed"), Trace(loop.time), Counter())
    sender = loop.own("sender")

    async def main() -> None:
        spawn(loop, sender, network.call("swap something", lambda: applied.append(1), write=True))
        while not loop._timers:
            await asyncio.sleep(0)
        loop.kill(sender)
        await asyncio.sleep(10)

    loop.run(main())
    loop.abandon()
    assert applied == [1]
