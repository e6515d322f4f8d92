"""What maintenance keeps in the KV: what there is to do, and whose turn it is to do it."""

from dataclasses import dataclass

from lakebed.env.clock import Instant
from lakebed.model.ids import Nonce


@dataclass(frozen=True, slots=True, kw_only=True)
class TodoEntry:
    """Says of a branch that maintenance has something to do there."""

    due: Instant
    """When to look. A writer says at once (0), and only maintenance puts it off."""
    nonce: Nonce
    """The put that wrote it: after a lost reply, its writer must not take an older entry for its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenanceTurn:
    """Which process does the maintenance of an installation, and how far it has come.

    It saves work, nothing else: every step may be done twice, and by several processes at once.
    """

    holder: Nonce
    until: Instant
    """From then on another process may take the turn."""
    cursor: str = ""
    """The repository that was visited last; empty between two passes."""
    pass_began: Instant = Instant(0)
    """When the current pass over all repositories began, or the last one."""
    full_began: Instant = Instant(0)
    """When the last pass began that reads every branch record."""
