"""Placeholders such as `<COMMIT:3>`: values that differ from server to server.

A response binds the numbered ones that it is the first to hold; later requests and responses use the bound value.
"""

import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

_PLACEHOLDER: Final = re.compile(
    r"<(?P<kind>[A-Z0-9]+)(?::(?P<number>\d+))?(?:/(?P<length>\d+))?(?P<encoded>\|url)?>"
)
_SHAPES: Final = {
    "TIMESTR": r"\d{9,11}",
    "RFC3339": r"\d{4}-\d\d-\d\dT[\d:.]+(?:Z|[+-]\d\d:\d\d)",
    "HTTPDATE": r"[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} [\d:]+ GMT",
    "UUID": r"[0-9a-fA-F-]{36}",
    "SCHEMA": r".*",
}
"""What the placeholders without a number may stand for; the others for any text."""
_CHANGING: Final = frozenset({"ETAG", "URL"})
_NOW: Final = 1_700_000_000


class UnboundError(Exception):
    """A request needs a value that no response has given."""


class Bindings:
    """The values of one scenario."""

    def __init__(self, known: Mapping[str, str]) -> None:
        self._values = dict(known)

    def fill(self, text: str) -> str:
        """Return a text of a request with values in place of its placeholders."""
        return _PLACEHOLDER.sub(self._value, text)

    def fill_json(self, value: Any) -> Any:
        match value:
            case "<TIME>":
                return _NOW
            case str():
                return self.fill(value)
            case list():
                return [self.fill_json(each) for each in value]
            case dict():
                return {self.fill(key): self.fill_json(each) for key, each in value.items()}
            case _:
                return value

    def matches(self, pattern: str, text: str) -> bool:
        """Return whether `text` is what a response's `pattern` says, and bind what is new."""
        if pattern == text:
            return True
        found = re.fullmatch(self._expression(pattern), text, re.DOTALL)
        if found is None:
            return False
        for group, value in found.groupdict().items():
            self._values[_key(*group.split("_"))] = value
        return True

    def _value(self, found: re.Match[str]) -> str:
        kind, key = found["kind"], _key(found["kind"], found["number"])
        if kind == "TIMESTR":
            return str(_NOW)
        if kind == "UUID":
            self._values.setdefault(key, f"00000000-0000-4000-8000-{int(found['number']):012}")
        if key not in self._values:
            raise UnboundError(key)
        return self._shown(found, self._values[key])

    def _expression(self, pattern: str) -> str:
        """Return the regular expression of a pattern, with a group for each placeholder that it binds."""
        parts: list[str] = []
        groups: set[str] = set()
        end = 0
        for found in _PLACEHOLDER.finditer(pattern):
            parts.append(re.escape(pattern[end : found.start()]))
            end = found.end()
            kind, number = found["kind"], found["number"]
            key, group = _key(kind, number), f"{kind}_{number}"
            # The newest one of these counts: a setting may change between two reads, a presigned URL holds its time.
            if key in self._values and kind not in _CHANGING:
                parts.append(re.escape(self._shown(found, self._values[key])))
            elif number is None:
                parts.append(f"(?:{_SHAPES.get(kind, '.+?')})")
            elif found["length"] or found["encoded"]:
                parts.append(".+?")
            elif group in groups:
                parts.append(f"(?P={group})")
            else:
                groups.add(group)
                parts.append(f"(?P<{group}>.+?)")
        return "".join(parts) + re.escape(pattern[end:])

    @staticmethod
    def _shown(found: re.Match[str], value: str) -> str:
        value = value[: int(found["length"])] if found["length"] else value
        return quote(value, safe="") if found["encoded"] else value


def _key(kind: str, number: str | None) -> str:
    return kind if number is None else f"{kind}:{number}"
