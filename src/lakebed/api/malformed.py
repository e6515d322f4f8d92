"""Requests that do not fit the schema of their operation, and lakeFS's phrases for them.

msgspec says what does not fit; the phrase is made from what it says. lakeFS appends an excerpt of its schema to most
of these phrases, which nothing compares, so it is left out. Where there is no phrase, `message` is our text.
"""

import re
from collections.abc import Mapping
from typing import Any, Final, get_args, get_origin

import msgspec

from lakebed.errors import ErrorKind, InvalidInputError, cut, quoted

_MISSING: Final = re.compile(r"Object missing required field `(?P<field>[^`]+)`(?: - at `\$(?P<at>[^`]*)`)?")
_EXPECTED: Final = re.compile(r"Expected `(?P<type>[^`]+)`, got `(?P<got>\w+)`(?: - at `\$(?P<at>[^`]*)`)?")
_BOUND: Final = re.compile(r"Expected `int` (?P<sign>[<>])= (?P<bound>-?\d+) - at `\$(?P<at>[^`]*)`")
_ENUM: Final = re.compile(r"Invalid enum value .* - at `\$(?P<at>[^`]*)`", re.DOTALL)
_REPEATED: Final = re.compile("'(.*)'", re.DOTALL)
_PART: Final = re.compile(r"\.([^.\[]+)|\[(\d+)\]")

_SYNTAX: Final = {"int": "integer", "bool": "boolean", "float": "number"}
_NOUNS: Final = {
    "str": "a string",
    "int": "an integer",
    "float": "a number",
    "bool": "a boolean",
    "array": "an array",
    "object": "an object",
}
_AT: Final = re.compile(r".* - at `\$\.(?P<field>\w+)[^`]*`", re.DOTALL)
_BODY: Final = "request body has an error"


class MalformedError(InvalidInputError):
    """A request that does not fit the schema of its operation.

    `phrase` is empty where lakeFS has none. `field` is the parameter or field of the body whose value does not fit, if
    lakeFS may check it by hand: the table of phrases has those.
    """

    def __init__(self, message: str, phrase: str, *, field: str = "") -> None:
        super().__init__(ErrorKind.INVALID_ARGUMENT, message)
        self.phrase = phrase
        self.field = field


def bad_parameter(
    error: msgspec.ValidationError, where: str, values: Mapping[str, Any], types: Mapping[str, Any]
) -> MalformedError:
    """Return the error of a parameter of the query or a header; `values` are those that were given, the empty ones too."""
    said = str(error)
    name, why = _parameter(said, values, types)
    phrase = f'parameter "{name}" in {where} has an error: {why}' if why else ""
    return MalformedError(f"{where}: {_shortened(said)}", phrase, field=_value_field(said))


def _parameter(said: str, values: Mapping[str, Any], types: Mapping[str, Any]) -> tuple[str, str]:
    if found := _MISSING.fullmatch(said):
        name = found["field"]
        return name, "empty value is not allowed" if name in values else "value is required but missing"
    if found := _BOUND.fullmatch(said):
        side = "most" if found["sign"] == "<" else "least"
        return _name(found), f"number must be at {side} {found['bound']}"
    if found := _EXPECTED.fullmatch(said):
        name, noun = _name(found), _SYNTAX.get(found["type"].removesuffix(" | null"), "")
        return name, f"value {cut(str(values.get(name)))}: an invalid {noun}: invalid syntax" if noun else ""
    if found := _ENUM.fullmatch(said):
        name = _name(found)
        allowed = msgspec.json.encode(_choices(types.get(name))).decode()
        return name, f"value is not one of the allowed values {allowed}"
    return "", ""


def _name(found: re.Match[str]) -> str:
    return (found["at"] or "").removeprefix(".")


def _choices(kind: Any) -> list[Any]:
    """Return the values of a `Literal`, also of an optional or annotated one."""
    if (
        get_origin(kind) is not None
        and not isinstance(kind, type)
        and all(isinstance(each, str) for each in get_args(kind))
    ):
        return list(get_args(kind))
    return [value for each in get_args(kind) for value in _choices(each)]


def _shortened(said: str) -> str:
    """Return what msgspec says with the value that it repeats cut, and the place behind it kept."""
    return _REPEATED.sub(lambda found: quoted(found[1]), said)


def bad_body(error: msgspec.ValidationError, kind: Any) -> MalformedError:
    """Return the error of a JSON body that is not a `kind`."""
    said = str(error)
    at, why = _field(said)
    schema = (
        f" #/components/schemas/{kind.__name__}"
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct)
        else ""
    )
    place = f' Error at "{at}":' if at else ""
    phrase = f"{_BODY}: doesn't match schema{schema}:{place} {why}" if why else ""
    return MalformedError(f"body: {_shortened(said)}", phrase, field=_value_field(said))


def _field(said: str) -> tuple[str, str]:
    if found := _MISSING.fullmatch(said):
        return f"{_pointer(found['at'])}/{found['field']}", f'property "{found["field"]}" is missing'
    if (found := _EXPECTED.fullmatch(said)) and "..." not in (found["at"] or ""):
        if found["got"] == "null":
            return _pointer(found["at"]), "Value is not nullable"
        noun = _NOUNS.get(found["type"].removesuffix(" | null"), "")
        return _pointer(found["at"]), f"value must be {noun}" if noun else ""
    return "", ""


def _value_field(said: str) -> str:
    """Return the field with a value of the right type that does not fit: too long, too large, not one of some."""
    found = None if _MISSING.fullmatch(said) or _EXPECTED.fullmatch(said) else _AT.fullmatch(said)
    return found["field"] if found else ""


def _pointer(at: str | None) -> str:
    return "".join(f"/{name or index}" for name, index in _PART.findall(at or ""))


def missing_body() -> MalformedError:
    """Return the error of a request without the body that it needs."""
    return MalformedError(
        "body: nothing is there, and a JSON body is needed here", f"{_BODY}: value is required but missing"
    )


def bad_content_type(given: str) -> MalformedError:
    """Return the error of a body that is not declared as JSON."""
    return MalformedError(
        f"header: Content-Type is '{cut(given)}': a body here is `application/json`",
        f'{_BODY}: header Content-Type has unexpected value "{cut(given)}"',
    )


def not_json(error: Exception) -> MalformedError:
    """Return the error of a body that is no JSON at all."""
    return MalformedError(f"body is not JSON: {error}", f"{_BODY}: failed to decode request body")
