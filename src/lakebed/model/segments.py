"""Names of segments: what tells a cleaner who wrote one, and when.

    <era>-<nonce>                   a writer's own; the nonce is 20 characters of 0-9a-v
    <era>-<incarnation>-<token>     the output of a compaction of that branch under that fencing token

The era is the hour, in engine time. A cleaner raises `min_era` on every branch before it
looks for what nobody references, and no branch takes a segment of an older era after
that; so what it deletes can never be appended. A job's output is safe while its token
holds a slot of the branch or is above the branch's `last_token`.

A dataset is named by the incarnation of the branch it is for.
"""

import re
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final

from lakebed.env.clock import SECOND, Instant
from lakebed.errors import ErrorKind, InvalidInputError, quoted
from lakebed.model.branch import Branch
from lakebed.model.ids import Nonce
from lakebed.model.layers import SegmentLayer

SEGMENTS_FOLDER: Final = "_lakebed/segments/"
_ENDING: Final = ".parquet"
_ERA_SECONDS: Final = 3600
_ID: Final = re.compile(r"(\d{8})-(\w+)(?:-(\d+))?", re.ASCII)


@dataclass(frozen=True, slots=True)
class SegmentName:
    """What a segment's id says. `token` is 0 for a writer's own, and `owner` then its nonce."""

    era: int
    owner: Nonce
    token: int = 0

    def __str__(self) -> str:
        return f"{self.era:08}-{self.owner}-{self.token}" if self.token else f"{self.era:08}-{self.owner}"


def era_at(now: Instant) -> int:
    """Return the era of an instant of engine time."""
    return now // (_ERA_SECONDS * SECOND)


def parse_segment_id(text: str) -> SegmentName:
    """Return what a segment's id says, or raise `InvalidInputError`."""
    found = _ID.fullmatch(text)
    if found is None:
        raise InvalidInputError(ErrorKind.INVALID_ARGUMENT, f"{quoted(text)} is not the id of a segment")
    era, owner, token = found.groups()
    return SegmentName(int(era), Nonce(owner), int(token or 0))


def segment_key(segment_id: str) -> str:
    """Return the object key of a segment."""
    return f"{SEGMENTS_FOLDER}{segment_id}{_ENDING}"


def parse_segment_key(key: str) -> SegmentName:
    """Return what the object key of a segment says, or raise `InvalidInputError`."""
    if not key.startswith(SEGMENTS_FOLDER) or not key.endswith(_ENDING):
        raise InvalidInputError(ErrorKind.INVALID_ARGUMENT, f"{quoted(key)} is not the key of a segment")
    name = parse_segment_id(key[len(SEGMENTS_FOLDER) : -len(_ENDING)])
    if segment_key(str(name)) != key:
        raise InvalidInputError(ErrorKind.INVALID_ARGUMENT, f"{quoted(key)} is not the key of a segment")
    return name


def cached_dataset(layer: SegmentLayer) -> str:
    """Return the name under which the rows of a layer are cached; like a range's, it starts with their hash."""
    return f"{layer.hash}-{layer.id}.{layer.dataset}"


def attempt_nonce(incarnation: Nonce, token: int) -> Nonce:
    """Return the nonce in the names of ranges and metaranges that an attempt of a job writes.

    No operation draws one like it: theirs have no dash.
    """
    return Nonce(f"{incarnation}-{token}")


def protects(branch: Branch, token: int) -> bool:
    """Return whether what a job wrote under `token` for this branch may still be installed."""
    holders = (branch.l2_slot, branch.fold_slot)
    return token > branch.last_token or any(slot is not None and slot.token == token for slot in holders)


def is_orphan(
    name: SegmentName,
    *,
    referenced: AbstractSet[str],
    branches: Mapping[Nonce, Branch],
    min_era: int,
) -> bool:
    """Return whether a segment may be deleted: nothing refers to it, and nothing ever can.

    Order matters: segments are listed, `min_era` is put on every branch, then what is `referenced` (stashes, then live and
    retired layers of all branches, deleted ones too) and the live `branches`, by incarnation, are read.
    """
    if str(name) in referenced:
        return False
    if not name.token:
        return name.era < min_era
    owner = branches.get(name.owner)
    return owner is None or not protects(owner, name.token)
