"""Where an answer differs from the recorded one, field by field.

Contract: the status, the headers that clients read, the keys, types and values of JSON, the bytes of an object.

Incidental, so not compared: keys beyond the recorded ones, details of cookies, `x-frame-options`, long validation texts, and texts
that come from the storage. A recorded 500 is a slip of the reference: an answer that names the mistake (4xx) is equal to it.
"""

import json
from dataclasses import dataclass
from typing import Any, Final

from tests.contract.exchanges import Exchange
from tests.contract.placeholders import Bindings
from tests.contract.sending import Answer

_SCHEMA: Final = "<SCHEMA>"
"""How recorded validation texts end: the reference appends an excerpt of its schema."""
_INCIDENTAL_HEADERS: Final = frozenset({"set-cookie", "transfer", "x-frame-options"})
_STORAGE_HEADERS: Final = frozenset(
    {"content-type", "content-length", "content-range", "content-disposition", "etag"}
)
_SLIP: Final = 500
_RULES: Final = ({"pattern"}, {"branch_id", "retention_days"})
_KINDS: Final = {bool: "bool", int: "number", float: "number", str: "text", list: "list", dict: "object"}


@dataclass(frozen=True, slots=True)
class Difference:
    field: str
    """`status`, `header <name>`, `body`, or a path of JSON: `.results[2].path`."""
    recorded: Any
    answered: Any

    def __str__(self) -> str:
        return f"{self.field}: recorded {_short(self.recorded)}, answered {_short(self.answered)}"


def differences(exchange: Exchange, answer: Answer, bindings: Bindings) -> list[Difference]:
    """Return where an answer differs, and bind what it is the first to give."""
    recorded = exchange.response
    if recorded.status == _SLIP and 400 <= answer.status < _SLIP:
        return []
    if answer.status != recorded.status:
        # The rest differs as a consequence.
        return [Difference("status", recorded.status, f"{answer.status} {answer.body[:300]!r}")]
    return [*_headers(exchange, answer, bindings), *_bodies(exchange, answer, bindings)]


def _headers(exchange: Exchange, answer: Answer, bindings: Bindings) -> list[Difference]:
    found: list[Difference] = []
    for name, value in exchange.response.headers.items():
        if name in _INCIDENTAL_HEADERS or (exchange.request.url and name not in _STORAGE_HEADERS):
            continue
        got = answer.headers.get(name)
        wanted = value
        if name == "content-type" and got is not None:
            wanted, got = (text.replace(" ", "").lower() for text in (wanted, got))
        if got is None or not bindings.matches(wanted, got):
            found.append(Difference(f"header {name}", value, answer.headers.get(name)))
    return found


def _bodies(exchange: Exchange, answer: Answer, bindings: Bindings) -> list[Difference]:
    recorded, text = exchange.response.body, answer.body.decode(errors="replace")
    match recorded:
        case _ if exchange.response.body_not_kept or exchange.request.method == "HEAD":
            return []
        case None:
            return [Difference("body", None, text)] if text else []
        case {"json": value}:
            try:
                got = json.loads(answer.body)
            except ValueError:
                return [Difference("body", "JSON", text)]
            return list(_json(value, got, "", bindings))
        case {"text": wanted}:
            return [] if bindings.matches(wanted, text) else [Difference("body", wanted, text)]
        case {"repeat": [letter, times]}:
            return [] if text == letter * times else [Difference("body", f"{letter}…", text)]
        case {"html": True}:
            return [] if text.lstrip().startswith("<") else [Difference("body", "HTML", text)]
        case _:
            raise AssertionError(recorded)


def _json(recorded: Any, got: Any, at: str, bindings: Bindings) -> list[Difference]:
    if recorded == "<TIME>":
        is_time = isinstance(got, int) and not isinstance(got, bool)
        return [] if is_time else [Difference(at, recorded, got)]
    if _kind(recorded) != _kind(got):
        return [Difference(at, recorded, got)]
    match recorded:
        case dict():
            found = []
            for key, value in recorded.items():
                if key not in got:
                    found.append(Difference(f"{at}.{key}", value, "nothing"))
                elif not (key == "message" and str(value).endswith(_SCHEMA)):
                    found += _json(value, got[key], f"{at}.{key}", bindings)
            return found
        case list():
            if _are_rules(recorded) and _are_rules(got):
                recorded, got = sorted(recorded, key=repr), sorted(got, key=repr)
            if len(recorded) != len(got):
                return [Difference(f"{at}[]", f"{len(recorded)}: {recorded}", f"{len(got)}: {got}")]
            return [
                difference
                for index, (one, other) in enumerate(zip(recorded, got, strict=True))
                for difference in _json(one, other, f"{at}[{index}]", bindings)
            ]
        case str():
            return [] if bindings.matches(recorded, got) else [Difference(at, recorded, got)]
        case _:
            return [] if recorded == got else [Difference(at, recorded, got)]


def _are_rules(values: list[Any]) -> bool:
    """Return whether a list holds rules of protection or of retention, whose order means nothing."""
    return all(isinstance(each, dict) and set(each) in _RULES for each in values)


def _kind(value: Any) -> str:
    return _KINDS.get(type(value), "null")


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 300 else f"{text[:300]}…"
