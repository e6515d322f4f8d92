"""`Network`: a request on its way to a server and back, in whatever weather.

A message, once sent, no longer depends on its sender: it arrives although the sender
has given up, or is dead. The fates of a request:

    delivered     applied and answered, each after a while
    refused       there was no connection: the caller knows that nothing was sent
    lost          it never arrives; the caller of a write cannot know that
    unanswered    it is applied; the caller of a write cannot know that
    late          the caller is told that nobody knows, and the request is applied some time after that
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Protocol, TypeVar

from lakebed.errors import ErrorKind, LakebedError, UnavailableError
from lakebed.testing.simulation.chance import Chance
from lakebed.testing.simulation.history import CURRENT, Op
from lakebed.testing.simulation.loop import OWNER, PART, WORLD, SimLoop
from lakebed.testing.simulation.trace import Trace

T = TypeVar("T")


class Fate(StrEnum):
    """What becomes of a request."""

    DELIVERED = "delivered"
    REFUSED = "refused"
    LOST = "lost"
    UNANSWERED = "unanswered"
    LATE = "late"


@dataclass(frozen=True, slots=True, kw_only=True)
class Weather:
    """How often each fate is met, and how slow the network is."""

    refused: float = 0.0
    lost: float = 0.0
    unanswered: float = 0.0
    late: float = 0.0
    slow: float = 0.0
    """How often a message takes seconds instead of milliseconds."""
    reads: float = 0.2
    """How much of the bad luck of writes reads have: they are many, and after a failed one not much can happen."""


CALM = Weather()
ROUGH = Weather(refused=0.01, lost=0.02, unanswered=0.07, late=0.07, slow=0.01)


@dataclass(frozen=True, slots=True)
class Delivery:
    """A request as it is applied: who wanted it, and whether that will be known."""

    op: Op | None
    fate: Fate
    process: str
    part: str = ""
    """The part of the process, where it is no client's call: see `PART`."""

    @property
    def is_heard(self) -> bool:
        """Whether the answer arrives."""
        return self.fate is Fate.DELIVERED


class Observer(Protocol):
    """Told of every request that arrives, once it was applied or refused there."""

    def arrived(self, delivery: Delivery, what: str, *, write: bool, error: LakebedError | None) -> None: ...


class Network:
    """Carries requests."""

    def __init__(self, loop: SimLoop, chance: Chance, trace: Trace, met: Counter[str]) -> None:
        self._loop = loop
        self._chance = chance
        self._trace = trace
        self._met = met
        self.weather = CALM
        self.closed = False
        self.delivering = Delivery(None, Fate.DELIVERED, "")
        """The request that is being applied right now."""
        self.observers: list[Observer] = []
        self.sluggish: frozenset[str] = frozenset()
        """Parts of processes (see `PART`) whose requests take long: others do much between two of them."""
        self._era = 0

    def cut(self) -> None:
        """Lose everything that is on its way: the servers that it is sent to are no more."""
        self._era += 1

    async def call(self, what: str, apply: Callable[[], T], *, write: bool) -> T:
        """Return what `apply` returns at the server, or raise what it raises, or `UnavailableError`."""
        if self.closed:
            raise asyncio.CancelledError
        fate = self._draw(write=write)
        owner = OWNER.get()
        process = owner.name if owner is not None else "world"
        delivery = Delivery(CURRENT.get(), fate, process, PART.get())
        arrive = partial(self._deliver, what, apply, delivery, write=write, era=self._era)
        reply: asyncio.Future[T] = self._loop.create_future()
        if fate is Fate.REFUSED:
            self._later(self._latency(), self._fail, reply, _refused(what))
        elif fate is Fate.LOST:
            self._later(self._patience(), self._fail, reply, _silence(what, write=write))
        elif fate is Fate.DELIVERED:
            self._later(self._latency(), arrive, reply)
        else:
            patience = self._patience()
            arrival = self._latency() if fate is Fate.UNANSWERED else patience + self._lateness()
            self._later(arrival, arrive, None)
            self._later(
                max(patience, arrival if fate is Fate.UNANSWERED else 0.0),
                self._fail,
                reply,
                _silence(what, write=write),
            )
        if fate is not Fate.DELIVERED:
            if delivery.op is not None:
                delivery.op.unlucky = True
            self._met[f"{fate} {what.split(' ', 1)[0]}"] += 1
            self._trace.note(f"{delivery.process} {fate}: {what}")
        return await reply

    def _draw(self, *, write: bool) -> Fate:
        weather = self.weather
        drawn = self._chance.between(0, 1)
        share = 1.0 if write else weather.reads
        for fate, probability in (
            (Fate.REFUSED, weather.refused * share),
            (Fate.LOST, weather.lost * share),
            (Fate.UNANSWERED, weather.unanswered if write else 0.0),
            (Fate.LATE, weather.late if write else 0.0),
        ):
            drawn -= probability
            if drawn < 0:
                return fate
        return Fate.DELIVERED

    def _deliver(
        self,
        what: str,
        apply: Callable[[], T],
        delivery: Delivery,
        reply: "asyncio.Future[T] | None",
        *,
        write: bool,
        era: int,
    ) -> None:
        if era != self._era:
            if reply is not None:
                self._fail(reply, _silence(what, write=write))
            return
        self.delivering = delivery
        try:
            value = apply()
        except LakebedError as error:
            self._trace.note(f"{delivery.process} {what}: {error.kind}")
            self._observe(delivery, what, write=write, error=error)
            if reply is not None:
                self._later(self._latency(), self._fail, reply, error)
        else:
            self._trace.note(f"{delivery.process} {what}")
            self._observe(delivery, what, write=write, error=None)
            if reply is not None:
                self._later(self._latency(), self._answer, reply, value)

    def _observe(self, delivery: Delivery, what: str, *, write: bool, error: LakebedError | None) -> None:
        for observer in self.observers:
            observer.arrived(delivery, what, write=write, error=error)

    def _answer(self, reply: "asyncio.Future[T]", value: T) -> None:
        if not reply.done():
            reply.set_result(value)

    def _fail(self, reply: "asyncio.Future[T]", error: LakebedError) -> None:
        if not reply.done():
            reply.set_exception(error)

    def _later(self, seconds: float, function: Callable[..., None], *args: object) -> None:
        self._loop.call_later(seconds, function, *args, context=WORLD)

    def _latency(self) -> float:
        if PART.get() in self.sluggish:
            return self._chance.between(0.0, 1.5)
        if self._chance.happens(self.weather.slow):
            return self._chance.between(0.1, 4.0)
        return self._chance.between(0.0002, 0.004)

    def _patience(self) -> float:
        """How long a caller waits for an answer."""
        return self._chance.between(0.02, 1.0)

    def _lateness(self) -> float:
        """How long after that a late request still arrives."""
        return self._chance.weighted(
            [
                (self._chance.between(0.0, 0.05), 5),
                (self._chance.between(0.0, 2.0), 4),
                (self._chance.between(0.0, 120.0), 1),
            ]
        )


def _refused(what: str) -> LakebedError:
    return UnavailableError(ErrorKind.STORE_UNAVAILABLE, f"{what}: connection refused")


def _silence(what: str, *, write: bool) -> LakebedError:
    kind = ErrorKind.OUTCOME_UNKNOWN if write else ErrorKind.STORE_UNAVAILABLE
    return UnavailableError(kind, f"{what}: no answer")
