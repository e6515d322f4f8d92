"""The owner files of a namespace: `_lakebed/owners/<generation>`, sealed JSON.

Each is created once and never changed. The greatest generation owns the namespace; without any file it is
generation 0, whose owner the `owner-<uid>` marker names.
"""

from typing import Final

import msgspec

from lakebed.env.clock import Instant
from lakebed.format.gc import Document
from lakebed.model.ids import RepoName, RepoUid

OWNERS_FOLDER: Final = "_lakebed/owners/"
# Names sort like numbers.
_DIGITS: Final = 10


class Owner(msgspec.Struct, frozen=True, kw_only=True):
    """A repository that took a namespace over, and the installation it is in."""

    generation: int
    uid: RepoUid
    repository: RepoName
    installation: str
    at: Instant

    def __str__(self) -> str:
        return f"repository {self.repository} of installation {self.installation or 'unknown'} ({self.uid})"


OWNER: Final = Document("owner", Owner)


def owner_key(generation: int) -> str:
    """Return where the owner file of a generation lies."""
    return f"{OWNERS_FOLDER}{generation:0{_DIGITS}}"


def generation_of(key: str) -> int | None:
    """Return the generation of an owner file by its key; None for what is no owner file."""
    name = key.removeprefix(OWNERS_FOLDER)
    return int(name) if name.isdecimal() and len(name) == _DIGITS else None
