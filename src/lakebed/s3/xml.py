"""XML: written by joining strings, read by a parser that knows no entities.

A list of a thousand keys is one pass of joins: whether anything in it needs escaping is
one search over all of it, and hardly ever true.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final
from xml.parsers import expat

from lakebed.s3.errors import Code, S3Error

DECLARATION: Final = '<?xml version="1.0" encoding="UTF-8"?>\n'
NAMESPACE: Final = "http://s3.amazonaws.com/doc/2006-03-01/"

# Beside markup: control characters, which only a reference can carry (as Amazon writes them), and what no XML may hold.
_SPECIAL: Final = re.compile("[&<>\"'\x00-\x1f\x7f\ud800-\udfff\ufffe\uffff]")
_DEPTH_MAX: Final = 8


def escaped(text: str) -> str:
    """Return `text` as the content of an element."""
    return text if _SPECIAL.search(text) is None else _SPECIAL.sub(_reference, text)


def all_escaped(texts: list[str]) -> list[str]:
    """Return every text as the content of an element."""
    if _SPECIAL.search("".join(texts)) is None:
        return texts
    return [escaped(text) for text in texts]


def element(name: str, text: str | int) -> str:
    """Return an element that holds text."""
    return f"<{name}>{escaped(text) if isinstance(text, str) else text}</{name}>"


def document(name: str, parts: Iterable[str]) -> str:
    """Return a root element in Amazon's namespace around parts that are XML already."""
    return f'<{name} xmlns="{NAMESPACE}">{"".join(parts)}</{name}>'


@dataclass(slots=True)
class Node:
    """An element that was read: its name without a namespace, its text, its children."""

    name: str
    text: str = ""
    children: list["Node"] = field(default_factory=list)

    def find(self, name: str) -> "Node | None":
        """Return the first child of that name."""
        return next((child for child in self.children if child.name == name), None)

    def value(self, name: str, default: str = "") -> str:
        """Return the text of the first child of that name."""
        found = self.find(name)
        return default if found is None else found.text

    def all(self, name: str) -> list["Node"]:
        """Return the children of that name."""
        return [child for child in self.children if child.name == name]


def parse(body: bytes, *, root: str) -> Node:
    """Return the document in `body`, whose root must be `root`.

    Raises:
        S3Error: `MalformedXML`: not XML, another root, a DTD, or nested too deep.
    """
    reader = _Reader()
    parser = expat.ParserCreate()
    # Names come without splitting: prefixes are cut off by hand, whatever namespace a client declares.
    parser.StartElementHandler = reader.start
    parser.EndElementHandler = reader.end
    parser.CharacterDataHandler = reader.data
    parser.StartDoctypeDeclHandler = reader.refuse
    parser.EntityDeclHandler = reader.refuse
    parser.buffer_text = True
    try:
        parser.Parse(body, True)  # noqa: FBT003  expat's own signature
    except (expat.ExpatError, UnicodeError, ValueError) as error:
        raise malformed() from error
    if reader.root is None or reader.root.name != root:
        raise malformed()
    return reader.root


def malformed(message: str | None = None) -> S3Error:
    """The error for a body that does not say what it should."""
    return S3Error(
        Code.MALFORMED_XML,
        message
        or "The XML you provided was not well-formed or did not validate against our published schema.",
    )


class _Reader:
    def __init__(self) -> None:
        self.root: Node | None = None
        self._open: list[Node] = []

    def start(self, name: str, _attributes: object) -> None:
        node = Node(name.rpartition(":")[2])
        if self._open:
            self._open[-1].children.append(node)
        else:
            self.root = node
        self._open.append(node)
        if len(self._open) > _DEPTH_MAX:
            raise malformed()

    def end(self, _name: str) -> None:
        self._open.pop()

    def data(self, text: str) -> None:
        self._open[-1].text += text

    def refuse(self, *_arguments: object) -> None:
        raise malformed()


def _reference(found: re.Match[str]) -> str:
    character = found.group()
    named = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&apos;"}.get(character)
    if named is not None:
        return named
    return "\ufffd" if character >= "\ud800" else f"&#x{ord(character):x};"
