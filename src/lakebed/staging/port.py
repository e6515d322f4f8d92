"""What staging needs from its neighbours, which it may not import.

`Branches` is the ref store's view of branch records, `Base` the committed tree
below the layers, `Segments` the files among the layers. All are handed in by the composition root.
"""

from collections.abc import Callable, Mapping
from typing import Protocol

import pyarrow as pa

from lakebed.env.clock import Instant
from lakebed.format.bloom import Bloom
from lakebed.kv.port import NamesFence, Version
from lakebed.model.branch import Branch
from lakebed.model.entries import Change, Entry
from lakebed.model.ids import BranchName, Path
from lakebed.model.layers import SegmentLayer
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


class OpenSegment(Protocol):
    """The changes of one segment layer, at hand."""

    def find_change(self, path: str) -> Change | None:
        """Return the change of `path`, or None."""
        ...

    def between(self, start: bytes, stop: bytes | None) -> pa.Table:
        """Return the changes with start <= key < stop (None: to the end), without copying."""
        ...


class Segments(Protocol):
    """Files with staged changes.

    Whoever reads raises `NotFoundError` (`KEY_NOT_FOUND`) if the file is not there: the layer may have left its branch
    long ago, which only the branch record can tell. A damaged file is a `CorruptError`.
    """

    def rules_out(self, repo: Repository, layer: SegmentLayer, key_hash: int) -> bool:
        """Return whether it is known, without waiting, that no key with that hash (`format.bloom.key_hash`) is there."""
        ...

    def bloom(self, repo: Repository, layer: SegmentLayer) -> Bloom | None:
        """Return the filter over the keys of a layer, if it is at hand."""
        ...

    def peek(self, repo: Repository, layer: SegmentLayer) -> OpenSegment | None:
        """Return the changes of a layer if they are at hand: the path of a hot read, which must not wait."""
        ...

    async def learn(self, repo: Repository, layer: SegmentLayer) -> None:
        """Fetch what `rules_out` needs, if that saves fetching the changes."""
        ...

    async def open(self, repo: Repository, layer: SegmentLayer) -> OpenSegment:
        """Return the changes of a layer."""
        ...

    async def write(self, repo: Repository, segment_id: str, dataset: str, changes: pa.Table) -> SegmentLayer:
        """Store changes as a segment of one dataset, durable when it returns; return its layer, with a `seq` of 0."""
        ...

    async def write_all(
        self, repo: Repository, segment_id: str, datasets: Mapping[str, pa.Table]
    ) -> dict[str, SegmentLayer]:
        """Store changes of several branches, by dataset, as one segment; return their layers as `write` does."""
        ...
