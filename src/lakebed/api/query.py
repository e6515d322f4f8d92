"""Query strings and headers to the types that operations declare.

Fields of the struct are the parameters: their names are the wire's (renamed by
msgspec where Python needs another), a list takes repeated parameters, a default
makes one optional. An empty query parameter counts as absent, as clients send every parameter
that they know. What does not fit is named in the error.
"""

from typing import Any, get_origin
from urllib.parse import unquote_to_bytes

import msgspec
from msgspec.structs import FieldInfo, fields

from lakebed.api.malformed import bad_parameter
from lakebed.errors import ErrorKind, InvalidInputError, quoted


class Parameters:
    """Decodes the parameters of one operation."""

    def __init__(self, kind: type[msgspec.Struct], *, where: str) -> None:
        self._kind = kind
        self._where = where
        self._fields: dict[str, FieldInfo] = {each.encode_name: each for each in fields(kind)}
        self._names = {name.encode(): name for name in self._fields}
        self._lower = [(name, name.lower().encode()) for name in self._fields]
        self._lists = {name for name, each in self._fields.items() if get_origin(each.type) in (list, tuple)}

    def from_query(self, query: bytes) -> Any:
        """Return the struct of a raw query string.

        Raises:
            InvalidInputError: a parameter is missing or malformed; unknown ones are ignored.
        """
        values: dict[str, Any] = {}
        for pair in query.split(b"&") if query else ():
            raw, _, value = pair.partition(b"=")
            if not value:
                continue
            name = self._names.get(raw) or _plain(raw)
            if name in self._lists:
                values.setdefault(name, []).append(_plain(value))
            elif name in self._fields:
                values[name] = _plain(value)
        return self._convert(values, query)

    def from_headers(self, headers: dict[bytes, bytes]) -> Any:
        """Return the struct of request headers."""
        return self._convert(
            {name: headers[lower].decode("latin-1") for name, lower in self._lower if lower in headers}, b""
        )

    def _convert(self, values: dict[str, Any], query: bytes) -> Any:
        try:
            return msgspec.convert(values, self._kind, strict=False)
        except msgspec.ValidationError as error:
            given = (
                dict.fromkeys((_plain(pair.partition(b"=")[0]) for pair in query.split(b"&")), "") | values
            )
            types = {name: each.type for name, each in self._fields.items()}
            raise bad_parameter(error, self._where, given, types) from error


def _plain(text: bytes) -> str:
    if b"+" in text:
        text = text.replace(b"+", b" ")
    # Slashes are what most paths have escaped, and only they: the library takes a step in Python for each.
    plain = text.replace(b"%2F", b"/")
    try:
        return (unquote_to_bytes(text) if b"%" in plain else plain).decode()
    except UnicodeDecodeError as error:
        raise InvalidInputError(
            ErrorKind.INVALID_ARGUMENT, f"{quoted(text.decode('latin-1'))} is not valid UTF-8"
        ) from error
