"""`Layer`: one immutable step of a branch's uncommitted changes.

Layers do not commute: which write to a path counts is decided by their order,
newest first, and `seq` grows with every layer that a branch ever had.
"""

from dataclasses import dataclass
from typing import TypeAlias

from lakebed.env.clock import Instant
from lakebed.model.ids import MetarangeId, StagingToken


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenLayer:
    """Rows of one KV partition that no writer may add to any more."""

    token: StagingToken
    seq: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentLayer:
    """One dataset of a segment object in the repository's namespace.

    `entries` does not count tombstones, `bytes` is what a reader fetches, and `hash` is that of the
    rows: the name under which they are cached. `level` is 0 as written, and grows with each fold.
    """

    id: str
    dataset: str
    seq: int
    min_key: str
    max_key: str
    entries: int
    tombstones: int
    bytes: int
    level: int
    hash: str = ""


Layer: TypeAlias = TokenLayer | SegmentLayer


def layer_name(layer: Layer) -> str:
    """Return the name that no two layers of a repository share."""
    return layer.token if isinstance(layer, TokenLayer) else f"{layer.id}/{layer.dataset}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RetiredLayer:
    """A layer that left its branch at `at` and stays readable for a grace period."""

    layer: Layer
    at: Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class RetiredTree:
    """A compacted tree that a branch had until `at`; its files are roots for a grace period."""

    tree: MetarangeId
    at: Instant
