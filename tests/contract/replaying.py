"""Replays a recording against a server.

The recorded waits are left out: they let the reference's action runs get different seconds.
"""

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.contract.comparing import Difference, differences
from tests.contract.exchanges import Exchange, read_recording
from tests.contract.placeholders import Bindings, UnboundError
from tests.contract.sending import Answer, Sender

_TASK_SECONDS_MAX: Final = 60
_POLL_SECONDS: Final = 0.05


@dataclass(frozen=True, slots=True)
class Replayed:
    exchange: Exchange
    differences: list[Difference]


def replay(recording: Path, endpoint: str, known: Mapping[str, str]) -> Iterator[Replayed]:
    """Send every exchange of a recording, each scenario with bindings of its own."""
    scenario: str | None = None
    bindings, sender = Bindings(known), None
    try:
        for exchange in read_recording(recording):
            if exchange.scenario != scenario or sender is None:
                if sender is not None:
                    sender.close()
                scenario, bindings = exchange.scenario, Bindings(known)
                sender = Sender(endpoint, bindings)
            yield Replayed(exchange, _replay_one(exchange, sender, bindings))
    finally:
        if sender is not None:
            sender.close()


def _replay_one(exchange: Exchange, sender: Sender, bindings: Bindings) -> list[Difference]:
    try:
        answer = sender.send(exchange.request)
        deadline = time.monotonic() + _TASK_SECONDS_MAX
        while exchange.poll and not _has_ended(answer) and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)
            answer = sender.send(exchange.request)
    except UnboundError as error:
        return [Difference("request", f"a value for {error}", "no response gave one")]
    found = differences(exchange, answer, bindings)
    return found if exchange.is_compared else []


def _has_ended(answer: Answer) -> bool:
    """Return whether the status of a task will not change any more."""
    try:
        body = json.loads(answer.body)
    except ValueError:
        return True
    return not isinstance(body, dict) or any(
        body.get(key) for key in ("completed", "done", "error", "message")
    )
