"""Writes by segment: a batch becomes one file, and the file the newest layer of its branch.

    1. name     the era is engine time's, the rest is drawn: nobody else has the name
    2. upload   small batches of several branches in one file (see `sharing`), a large one in its own;
                crash after: a file that nobody refers to; the cleaner knows by its era when nobody ever will
    3. append   swap: seal the staging token, lay the segment on top, leave no token

Only 3 makes it visible, all of it at once, and a lost reply is recognised by the segment's name. What was
decided about the branch's content before 1 holds at 3 only if the record is the same *and* had no staging token,
because rows arrive in a token without a change of the record.
"""

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Final

import pyarrow as pa

from lakebed.env.clock import Clock, Instant
from lakebed.env.ids import IdSource
from lakebed.errors import ConflictError, ErrorKind, UnavailableError
from lakebed.format.blocks import change_block
from lakebed.kv.port import KVStore
from lakebed.limits import (
    SEGMENT_BATCH_ROWS,
    SEGMENT_LAYERS_MAX,
    SEGMENT_RETIRED_MAX,
    SWAP_ATTEMPTS_MAX,
)
from lakebed.model.branch import Branch
from lakebed.model.entries import Change
from lakebed.model.ids import BranchName, Nonce
from lakebed.model.layers import SegmentLayer
from lakebed.model.repository import Repository
from lakebed.model.segments import SegmentName, era_at
from lakebed.staging.admission import require_admission
from lakebed.staging.port import Branches, Segments
from lakebed.staging.record import append_segment, find_appended, knows_layer, seal
from lakebed.staging.sharing import SharedSegments

# As those that are drawn.
_NONCE_LENGTH: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class HandedIn:
    """What a branch record knows of a segment from outside."""

    branch: Branch
    owner: Nonce
    """Names the call on this very branch, which may be deleted and created again."""
    layer: SegmentLayer | None
    """What an earlier `hand_in` of the call has staged; None if there was none, or the record has forgotten it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Once:
    """When a call may be appended, so that it is appended once although branch records forget."""

    owner: Nonce
    until: Instant
    """Engine time. Up to then the branch record names every layer that any try of the call has appended."""


class SegmentUse(StrEnum):
    """When a batch goes by segment."""

    AUTO = "auto"
    """If it is so large that a file costs less than its rows."""
    ALWAYS = "always"
    """Whenever the branch has room for another layer."""


class Appender:
    """Lays changes over branches as segments."""

    def __init__(
        self,
        kv: KVStore,
        *,
        branches: Branches,
        segments: Segments,
        clock: Clock,
        ids: IdSource,
        use: SegmentUse,
    ) -> None:
        self._kv = kv
        self._branches = branches
        self._segments = segments
        self._shared = SharedSegments(kv, segments=segments, clock=clock, ids=ids)
        self._ids = ids
        self._use = use

    def wants(self, rows: int) -> bool:
        """Return whether a batch of so many changes goes by segment, if the branch has room."""
        return self._use is SegmentUse.ALWAYS or rows >= SEGMENT_BATCH_ROWS

    def has_room(self, branch: Branch) -> bool:
        """Return whether a branch may get another layer although nobody may be there to merge them, or too fast."""
        return len(branch.sealed) < SEGMENT_LAYERS_MAX and len(branch.retired) < SEGMENT_RETIRED_MAX

    async def settle(self, repo: Repository, branch: Branch) -> Branch:
        """Return the branch record without a staging token: what it shows then changes only with the record."""
        token = branch.staging_token
        if token is None:
            return branch
        sealed = await self._branches.update(
            repo,
            branch.name,
            lambda current, _now: seal(current) if current.staging_token == token else current,
            landed=lambda current: current.staging_token != token,
        )
        if sealed.value.staging_token is not None:
            raise _moved(branch)
        return sealed.value

    async def append(
        self, repo: Repository, branch: Branch, changes: pa.Table, *, exactly: bool = False
    ) -> Branch:
        """Stage a change block, all or nothing, and return the record that shows it.

        With `exactly`, only while the branch record is `branch`, which must have no staging token.

        Raises:
            ConflictError: nothing was staged: read the record again, decide again.
            UnavailableError: `OUTCOME_UNKNOWN`: it may have been.
        """
        assert not exactly or branch.staging_token is None, "rows may arrive unseen"
        layer = await self._store(repo, branch.incarnation, changes)

        def append(current: Branch, _now: Instant) -> Branch:
            # Records of one branch are equal only if they are the same: each swap moves `updated_at` on.
            if exactly and current != branch:
                raise _moved(branch)
            return append_segment(current, layer)

        appended = await self._branches.update(
            repo, branch.name, append, landed=lambda current: knows_layer(current, layer)
        )
        return appended.value

    async def find_handed_in(self, repo: Repository, name: BranchName, call: str) -> HandedIn:
        """Return what the branch record knows of this call."""
        branch = (await self._branches.get(repo, name)).value
        owner = _owner(call, branch)
        return HandedIn(branch=branch, owner=owner, layer=find_appended(branch, owner))

    async def hand_in(
        self,
        repo: Repository,
        name: BranchName,
        changes: pa.Table,
        *,
        call: str,
        once: Once | None = None,
    ) -> SegmentLayer:
        """Stage a change block from outside as one segment, all or nothing, and return its layer.

        `call` stands for this call and these very rows: it is staged once, however often it is handed in, as
        long as the branch record remembers. With `once`, nothing is appended later, nor to another branch of the name.

        Raises:
            ConflictError: `OUTCOME_FORGOTTEN`: it is too late for `once`.
            UnavailableError: `TOO_MANY_LAYERS`: commit or wait; `OUTCOME_UNKNOWN`: it may have been staged;
                `STORE_UNAVAILABLE`: the branch was deleted and created again.
        """
        for _ in range(SWAP_ATTEMPTS_MAX):
            branch = (await self._branches.get(repo, name)).value
            # Of this branch alone: whoever finds a file of the name there already must find its own rows.
            owner = _owner(call, branch)
            if once is not None and owner != once.owner:
                raise UnavailableError(
                    ErrorKind.STORE_UNAVAILABLE,
                    f"branch {name} was deleted and created again: repeat the call",
                )
            segment_id = str(SegmentName(era_at(await self._kv.now()), owner))
            layer = await self._segments.write(repo, segment_id, branch.incarnation, changes)
            try:
                appended = await self._branches.update(
                    repo,
                    name,
                    partial(_append_handed_in, layer, once),
                    landed=partial(_has_appended, owner),
                )
            except ConflictError as error:
                if error.kind is not ErrorKind.FENCE_LOST:
                    raise
            else:
                return find_appended(appended.value, owner) or layer
        raise ConflictError(ErrorKind.TOO_MANY_RETRIES, f"branch {name} is created again and again")

    async def _store(self, repo: Repository, dataset: str, changes: pa.Table) -> SegmentLayer:
        if changes.num_rows < SEGMENT_BATCH_ROWS:
            return await self._shared.write(repo, dataset, changes)
        name = SegmentName(era_at(await self._kv.now()), Nonce(self._ids.token()))
        return await self._segments.write(repo, str(name), dataset, changes)


def _has_appended(owner: Nonce, current: Branch) -> bool:
    return find_appended(current, owner) is not None


def _append_handed_in(layer: SegmentLayer, once: Once | None, current: Branch, now: Instant) -> Branch:
    if once is not None and now > once.until:
        raise outcome_forgotten(current.name)
    require_room(current)
    return append_segment(current, layer)


def _owner(call: str, branch: Branch) -> Nonce:
    digest = hashlib.sha256(f"{call}/{branch.incarnation}".encode()).digest()
    return Nonce(base64.b32hexencode(digest).decode().lower()[:_NONCE_LENGTH])


def require_room(branch: Branch) -> None:
    """Raise `UnavailableError` (`TOO_MANY_LAYERS`) if a branch can take no segment from outside: it cannot go as rows."""
    require_admission(branch)
    left = len(branch.retired)
    if left >= SEGMENT_RETIRED_MAX:
        raise UnavailableError(
            ErrorKind.TOO_MANY_LAYERS, f"{left} layers have just left branch {branch.name}: wait, or commit"
        )


def outcome_forgotten(name: BranchName) -> ConflictError:
    """Return the error for a call that an earlier one with the same id may have staged, too long ago to know."""
    return ConflictError(
        ErrorKind.OUTCOME_FORGOTTEN,
        f"an earlier request with this id may have staged these rows on {name}, too long ago to know: "
        "look at the branch, and send what is missing under a new id",
    )


def sorted_block(changes: Sequence[Change]) -> pa.Table:
    """Return changes in order of writing as a change block: of those of one path, the last."""
    newest = {change.path: change for change in changes}
    return change_block([newest[path] for path in sorted(newest)])


def _moved(branch: Branch) -> ConflictError:
    return ConflictError(
        ErrorKind.VERSION_CHANGED, f"branch {branch.name} moved while it was being written to"
    )
