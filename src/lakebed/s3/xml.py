"""XML: written by joining strings, read by a parser that knows no entities.

A list of a thousand keys is one pass of joins: whether anything in it needs escaping is
one search over all of it, and hardly ever true.

Reading takes time and memory in proportion to the document: text is joined once per element,
and depth and number of elements have limits. UTF-8 is the only encoding. The parser would
look any other name up among Python's codecs, some of which take quadratic time.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Final
from xml.parsers import expat

import msgspec

from lakebed.limits import KIB, S3_XML_ELEMENTS_MAX
from lakebed.s3.errors import Code, S3Error

DECLARATION: Final = '<?xml version="1.0" encoding="UTF-8"?>\n'
NAMESPACE: Final = "http://s3.amazonaws.com/doc/2006-03-01/"

# Beside markup: control characters, which only a reference can carry (as Amazon writes them), and what no XML may hold.
_SPECIAL: Final = re.compile("[&<>\"'\x00-\x1f\x7f\ud800-\udfff\ufffe\uffff]")
_DEPTH_MAX: Final = 8
_PIECE_BYTES: Final = 64 * KIB
_ENCODINGS: Final = frozenset(("utf-8", "utf8", "us-ascii"))


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


class Node(msgspec.Struct, gc=False):
    """An element that was read: its name without a namespace, its text, its children. No cycles: they point down."""

    name: str
    text: str = ""
    children: Sequence["Node"] = ()

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
        S3Error: `MalformedXML`: not XML, not UTF-8, another root, a DTD, nested too deep, or too many elements.
    """
    reader = _Reader()
    parser = expat.ParserCreate("UTF-8")
    parser.XmlDeclHandler = reader.declaration
    # Names come without splitting: prefixes are cut off by hand, whatever namespace a client declares.
    parser.StartElementHandler = reader.start
    parser.EndElementHandler = reader.end
    parser.CharacterDataHandler = reader.data
    parser.StartDoctypeDeclHandler = reader.refuse
    parser.EntityDeclHandler = reader.refuse
    parser.buffer_text = True
    try:
        _feed(parser, body)
    except (expat.ExpatError, UnicodeError, ValueError) as error:
        raise malformed() from error
    if reader.root is None or reader.root.name != root:
        raise malformed()
    return reader.root


def _feed(parser: expat.XMLParserType, body: bytes) -> None:
    """Parse in pieces. One tag with all attributes of a large document would hold the interpreter for as long as it takes."""
    for start in range(0, len(body), _PIECE_BYTES):
        parser.Parse(body[start : start + _PIECE_BYTES], False)  # noqa: FBT003  expat's own signature
        if start - parser.CurrentByteIndex > _PIECE_BYTES:
            raise malformed(f"A tag or comment has at most {_PIECE_BYTES} bytes.")
    parser.Parse(b"", True)  # noqa: FBT003


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
        self._children: list[list[Node]] = []
        self._more: dict[int, list[str]] = {}
        """By depth: text behind the first piece of an element, which is mostly the only one."""
        self._elements = 0

    def declaration(self, _version: str, encoding: str | None, _standalone: int) -> None:
        if encoding is not None and encoding.lower() not in _ENCODINGS:
            raise malformed("The encoding of a document must be UTF-8.")

    def start(self, name: str, _attributes: object) -> None:
        node = Node(name.rpartition(":")[2])
        if self._open:
            parent = self._open[-1]
            if not parent.children:
                parent.children = []
                self._children.append(parent.children)
            self._children[-1].append(node)
        else:
            self.root = node
        self._open.append(node)
        self._elements += 1
        if len(self._open) > _DEPTH_MAX or self._elements > S3_XML_ELEMENTS_MAX:
            raise malformed()

    def end(self, _name: str) -> None:
        more = self._more.pop(len(self._open), None)
        node = self._open.pop()
        if more is not None:
            node.text = "".join((node.text, *more))
        if node.children:
            self._children.pop()

    def data(self, text: str) -> None:
        node = self._open[-1]
        if node.text:
            self._more.setdefault(len(self._open), []).append(text)
        else:
            node.text = text

    def refuse(self, *_arguments: object) -> None:
        raise malformed()


def _reference(found: re.Match[str]) -> str:
    character = found.group()
    named = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&apos;"}.get(character)
    if named is not None:
        return named
    return "\ufffd" if character >= "\ud800" else f"&#x{ord(character):x};"
