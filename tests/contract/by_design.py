"""The differences by design: `by_design.toml`, one entry per reason and field.

An entry holds for the steps that it names, and every one of them has to differ so.
"""

import re
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.contract.replaying import Replayed

_TABLE: Final = Path(__file__).with_name("by_design.toml")
_INDEX: Final = re.compile(r"\[\d+\]")


@dataclass(frozen=True, slots=True)
class Place:
    scenario: str
    step: int
    field: str
    """As in `Difference`, without the indexes of lists."""

    def __str__(self) -> str:
        return f"{self.scenario} {self.step} {self.field}"


def expected_places() -> dict[Place, str]:
    """Return the places that differ by design, with the reason of each."""
    places: dict[Place, str] = {}
    for entry in tomllib.loads(_TABLE.read_text(encoding="utf-8"))["difference"]:
        for scenario, steps in entry["steps"].items():
            for step in _steps(steps):
                for field in entry["fields"]:
                    place = Place(scenario, step, field)
                    assert place not in places, f"{place} stands twice in the table"
                    places[place] = entry["reason"]
    return places


def differing_places(replayed: Iterable[Replayed]) -> dict[Place, list[str]]:
    """Return where a recording differed, with what there is to say about each."""
    places: dict[Place, list[str]] = {}
    for each in replayed:
        exchange, request = each.exchange, each.exchange.request
        for difference in each.differences:
            place = Place(exchange.scenario, exchange.step, _INDEX.sub("[]", difference.field))
            text = f"{request.method} {request.target} ({exchange.command}): {difference}"
            places.setdefault(place, []).append(text)
    return places


def _steps(text: str) -> Iterable[int]:
    """Return the steps that a text as `3, 7-9` names."""
    for part in text.split(","):
        first, _, last = part.partition("-")
        yield from range(int(first), int(last or first) + 1)
