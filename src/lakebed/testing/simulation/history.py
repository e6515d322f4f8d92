"""`History`: what clients asked for, what they were told, and when.

Time is counted in steps: every write that the database applies, every question and
every answer is one. An answer is right if it was true at some step between the two.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from lakebed.errors import CorruptError, ErrorKind, LakebedError, is_unknown


class Outcome(StrEnum):
    """What a client knows after its call."""

    DONE = "done"
    REFUSED = "refused"
    """An error that promises that nothing happened and nothing will."""
    UNKNOWN = "unknown"
    """It may have happened, or may still: an error that says so, a client that gave up, a process that died."""


@dataclass(slots=True, eq=False)
class Op:
    """One call of one client."""

    number: int
    kind: str
    process: str
    repo: str
    """The partition of the repository, or its name where that is not known yet."""
    branch: str
    args: dict[str, Any]
    start: int
    end: int | None = None
    outcome: Outcome = Outcome.UNKNOWN
    result: Any = None
    error: LakebedError | None = None
    effects: list[tuple[int, str, str]] = field(default_factory=list)
    """What it did, as the database saw it: step, word, detail. Not the preparations, which change nothing for anyone."""
    unlucky: bool = False
    """Whether a request of it met anything but an answer."""
    seconds: float = 0.0
    """How long it took."""

    def __str__(self) -> str:
        told = f"{self.outcome}" + (f" ({self.error.kind})" if self.error is not None else "")
        args = " ".join(f"{name}={value}" for name, value in self.args.items())
        return f"#{self.number} {self.process} {self.kind} {self.branch} {args} [{self.start}..{self.end}] {told}"

    @property
    def kind_of_error(self) -> ErrorKind | None:
        return self.error.kind if self.error is not None else None


CURRENT: ContextVar[Op | None] = ContextVar("op", default=None)
"""The call that the running code works for."""


class History:
    """Every call of a run."""

    def __init__(self) -> None:
        self.step = 0
        self.ops: list[Op] = []
        self.by_checksum: dict[str, Op] = {}
        """The one write that each content belongs to."""
        self.damaged = False
        """Whether a file was damaged on purpose, so that the engine may say so."""

    def tick(self) -> int:
        self.step += 1
        return self.step

    def begin(self, kind: str, *, process: str, repo: str, branch: str = "", **args: Any) -> Op:
        """Take down a question."""
        op = Op(len(self.ops), kind, process, repo, branch, args, self.tick())
        self.ops.append(op)
        self.by_checksum.update(dict.fromkeys(args.get("contents", {}).values(), op))
        return op

    async def run(
        self, op: Op, call: Callable[[], Awaitable[Any]], *, give_up_after: float | None = None
    ) -> Op:
        """Ask it, and take down the answer. Errors of the engine are answers; anything else is a bug and raised."""
        token = CURRENT.set(op)
        try:
            async with asyncio.timeout(give_up_after):
                op.result = await call()
            op.outcome = Outcome.DONE
        except TimeoutError:
            op.outcome = Outcome.UNKNOWN
        except CorruptError as error:
            if not self.damaged:
                raise
            op.error = error
        except LakebedError as error:
            op.error = error
            op.outcome = Outcome.UNKNOWN if is_unknown(error) else Outcome.REFUSED
        finally:
            CURRENT.reset(token)
        op.end = self.tick()
        return op
