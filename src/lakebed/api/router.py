"""Method and path to operation: a trie over path segments, built once from the table.

`lakectl` percent-encodes refs twice (`main%255E2`), so refs are decoded twice. A tag with an escape in its name (`a%41`) has to be
encoded twice, therefore.

What is asked for most is asked for again and again: the path of an object is in the
query, so a busy client sends one path a thousand times. The last matches are remembered.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from urllib.parse import unquote

from lakebed.api.operation import Operation
from lakebed.errors import ErrorKind, InvalidInputError, quoted

_REFS = frozenset({"ref", "leftRef", "rightRef", "sourceRef", "commitId"})
_REMEMBERED_MAX = 4096
_REMEMBERED_BYTES_MAX = 512


@dataclass(slots=True)
class _Node:
    fixed: dict[str, "_Node"] = field(default_factory=dict)
    param: "_Node | None" = None
    names: dict[str, tuple[str, ...]] = field(default_factory=dict)
    operations: dict[str, Operation] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Match:
    """An operation and its path parameters."""

    operation: Operation
    params: Mapping[str, str]


class Router:
    """Finds operations."""

    def __init__(self, operations: Iterable[Operation]) -> None:
        self._root = _Node()
        self._remembered: dict[tuple[str, bytes], Match] = {}
        for operation in operations:
            self._add(operation)

    def find(self, method: str, path: bytes) -> Match | None:
        """Return what `path` (percent-encoded, below the API's root) leads to; None if it leads nowhere with this method.

        Raises:
            InvalidInputError: a parameter is not UTF-8, or empty.
        """
        known = self._remembered.get((method, path))
        if known is not None:
            return known
        match = self._find(method, path.decode("latin-1"))
        if match is not None and len(path) <= _REMEMBERED_BYTES_MAX:
            if len(self._remembered) >= _REMEMBERED_MAX:
                self._remembered.clear()
            self._remembered[method, path] = match
        return match

    def _find(self, method: str, path: str) -> Match | None:
        values: list[str] = []
        node = self._walk(self._root, path.split("/")[1:], 0, values)
        if node is None:
            return None
        operation = node.operations.get(method)
        if operation is None:
            return None
        params = dict(zip(node.names[method], values, strict=True))
        if not all(params.values()):
            name = next(name for name, value in params.items() if not value)
            raise InvalidInputError(ErrorKind.INVALID_ARGUMENT, f"path: `{name}` is empty in {quoted(path)}")
        for name in _REFS & params.keys():
            params[name] = _plain(params[name])
        return Match(operation, params)

    def _walk(self, node: _Node, segments: list[str], at: int, values: list[str]) -> _Node | None:
        if at == len(segments):
            return node if node.operations else None
        segment = segments[at]
        below = node.fixed.get(segment)
        if below is not None and (found := self._walk(below, segments, at + 1, values)) is not None:
            return found
        # An empty parameter is named in the error, but at the end of a path it is no parameter.
        if node.param is None or (not segment and at == len(segments) - 1):
            return None
        values.append(_plain(segment))
        found = self._walk(node.param, segments, at + 1, values)
        if found is None:
            values.pop()
        return found

    def _add(self, operation: Operation) -> None:
        node, names = self._root, []
        for segment in operation.path.split("/")[1:]:
            if segment.startswith("{"):
                names.append(segment[1:-1])
                node.param = node.param or _Node()
                node = node.param
            else:
                node = node.fixed.setdefault(segment, _Node())
        assert operation.method not in node.operations, (
            f"{operation.method} {operation.path} is declared twice"
        )
        node.operations[operation.method] = operation
        node.names[operation.method] = tuple(names)


def _plain(segment: str) -> str:
    if "%" not in segment:
        return segment
    try:
        return unquote(segment, errors="strict")
    except UnicodeDecodeError as error:
        raise InvalidInputError(
            ErrorKind.INVALID_ARGUMENT, f"path: {quoted(segment)} is not valid UTF-8"
        ) from error
