"""Where a key lives under the root. Pure.

Two places are possible, and at any moment a key is in at most one of them:

- its **plain** place, which is the key itself as a path: `data/abc/def`. People
  look into the folder, and other tools read it.
- its **hidden** place, `.lakebed/keys/<the key's bytes in hex>`, for a key that
  no file system keeps (`a//b`, `..`, `dir/`, NUL, a name over 255 bytes), and for
  one whose plain place is taken: `a` while `a/b` is there, or the reverse, or
  anything that is not ours, such as a symbolic link.

Hex keeps the order of bytes, so both kinds can be listed in order without
reading everything. A name is cut into folders of 240 digits; a folder's name
ends in `+`, which sorts before every digit.
"""

import re
from dataclasses import dataclass
from typing import Final

STATE: Final = ".lakebed"
HIDDEN: Final = f"{STATE}/keys"

_NAME_BYTES_MAX: Final = 255
_CHUNK: Final = 240
_HEX_NAME: Final = re.compile(r"[0-9a-f]{1,240}\+?")


@dataclass(frozen=True, slots=True)
class Place:
    """A file: `folder` is a path from the root ("" is the root), `name` has no slash."""

    folder: str
    name: str


def plain_place(key: str) -> Place | None:
    """Return where `key` lies as itself, or None if no file system can keep it so."""
    segments = key.split("/")
    if segments[0] == STATE or not all(map(is_file_name, segments)):
        return None
    folder, _, name = key.rpartition("/")
    return Place(folder, name)


def hidden_place(key: str) -> Place:
    """Return where `key` lies if it cannot lie as itself."""
    digits = key.encode().hex()
    chunks = [digits[start : start + _CHUNK] for start in range(0, len(digits), _CHUNK)]
    folders = [f"{chunk}+" for chunk in chunks[:-1]]
    return Place("/".join([HIDDEN, *folders]), chunks[-1])


def is_file_name(segment: str) -> bool:
    """Return whether a file system keeps `segment` as a name."""
    if segment in {"", ".", ".."} or "\0" in segment:
        return False
    return len(segment) * 4 <= _NAME_BYTES_MAX or len(segment.encode()) <= _NAME_BYTES_MAX


def is_hidden_name(name: str) -> bool:
    """Return whether `name` can be a part of a hidden place."""
    return _HEX_NAME.fullmatch(name) is not None


def key_of(digits: str) -> str:
    """Return the key that `hidden_place` wrote as `digits`."""
    return bytes.fromhex(digits).decode()
