"""What staging needs from its neighbours, which it may not import.

`Branches` is the ref store's view of branch records, `Base` the committed tree
below the layers. Both are handed in by the composition root.
"""

from collections.abc import Callable
from typing import Protocol

from lakebed.env.clock import Instant
from lakebed.kv.port import NamesFence, Version
from lakebed.model.branch import Branch
from lakebed.model.entries import Entry
from lakebed.model.ids import BranchName, Path
from lakebed.model.repository import Repository


class VersionedBranch(Protocol):
    """A branch record and the version it was read at."""

    @property
    def value(self) -> Branch: ...

    @property
    def version(self) -> Version: ...


class Branches(Protocol):
    """Reads and swaps branch records."""

    async def get(self, repo: Repository, name: BranchName) -> VersionedBranch:
        """Return the record, or raise `NotFoundError`."""
        ...

    async def update(
        self,
        repo: Repository,
        name: BranchName,
        change: Callable[[Branch, Instant], Branch],
        *,
        landed: Callable[[Branch], bool],
    ) -> VersionedBranch:
        """Swap `change(current, now)` in until it sticks; `landed` recognises an own swap whose reply was lost."""
        ...

    def fence(self, repo: Repository, branch: Branch, *, commit: bool = False) -> NamesFence:
        """Return a fence on the record's staging token, and on its commit if asked."""
        ...


class Base(Protocol):
    """The tree that lies below a branch's layers."""

    async def lookup(self, repo: Repository, branch: Branch, path: Path) -> Entry | None:
        """Return the entry of `path` in `compacted`, or in the tree of the branch's commit."""
        ...
