"""Wildcards in policies: `*` is any text, also none, also with slashes; `?` is one character.

Patterns become regular expressions once, when a policy is compiled. A piece between two
stars is taken where it first occurs and never tried again further on, which is all that
matching by wildcards needs: so the time is bounded by the length of the text times that
of the pattern, whatever an author of policies writes.
"""

import re
from typing import Final

_STARS: Final = re.compile(r"\*{2,}")


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
    # Where in the pattern one may stand is a number with a bit for each place, so that a character takes one step for all
    # places. At a star one may also stand behind it.
    pattern = _STARS.sub("*", pattern)
    stars, takes = _places(pattern)
    at = _past_stars(1, stars)
    for character in text:
        moved = at & takes.get(character, takes["?"])
        at = _past_stars((at & stars) | (moved << 1), stars)
        if not at:
            return False
    return True


def _places(pattern: str) -> tuple[int, dict[str, int]]:
    """Return the places of stars, and for each character that the pattern names the places where it may go on."""
    of: dict[str, list[int]] = {"?": [], "*": []}
    for place, character in enumerate(pattern):
        of.setdefault(character, []).append(place)
    any_character = _bits(of.pop("?"))
    stars = _bits(of.pop("*"))
    takes = {character: _bits(places) | any_character for character, places in of.items()}
    return stars, {**takes, "?": any_character}


def _bits(places: list[int]) -> int:
    """Return a number with these bits set."""
    if not places:
        return 0
    data = bytearray(places[-1] // 8 + 1)
    for place in places:
        data[place // 8] |= 1 << place % 8
    return int.from_bytes(data, "little")


def _past_stars(at: int, stars: int) -> int:
    return at | ((at & stars) << 1)


def _piece_regex(piece: str) -> str:
    return "(?s:.)".join(map(re.escape, piece.split("?")))
