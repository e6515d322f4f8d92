"""Wildcards in policies: `*` is any text, also none, also with slashes; `?` is one character.

Patterns become regular expressions once, when a policy is compiled. A piece between two
stars is taken where it first occurs and never tried again further on, which is all that
matching by wildcards needs: so the time is bounded by the length of the text times that
of the pattern, whatever an author of policies writes.
"""

import re


def wildcard_regex(pattern: str) -> str:
    """Return the source of a regular expression that, used with `fullmatch`, matches as `pattern` does.

    >>> bool(re.fullmatch(wildcard_regex("fs:Read*"), "fs:ReadObject"))
    True
    """
    first, *rest = pattern.split("*")
    if not rest:
        return _piece_regex(first)
    *middle, last = rest
    skips = "".join(rf"(?>(?s:.*?){_piece_regex(piece)})" for piece in middle if piece)
    return rf"{_piece_regex(first)}{skips}(?s:.*){_piece_regex(last)}"


def matches(pattern: str, text: str) -> bool:
    """Return whether `text` matches a pattern."""
    return re.fullmatch(wildcard_regex(pattern), text) is not None


def may_begin(pattern: str, text: str) -> bool:
    """Return whether a text that begins with `text` may match a pattern.

    >>> may_begin("a/secret/*", "a/"), may_begin("b/*", "a/")
    (True, False)
    """
    # Where in the pattern one may stand; at a star one may also stand behind it.
    places = _past_stars(pattern, {0})
    for character in text:
        places = _past_stars(
            pattern,
            {
                place if pattern[place] == "*" else place + 1
                for place in places
                if place < len(pattern) and pattern[place] in ("*", "?", character)
            },
        )
    return bool(places)


def _past_stars(pattern: str, places: set[int]) -> set[int]:
    found = set(places)
    for place in places:
        at = place
        while at < len(pattern) and pattern[at] == "*":
            at += 1
            found.add(at)
    return found


def _piece_regex(piece: str) -> str:
    return "(?s:.)".join(map(re.escape, piece.split("?")))
