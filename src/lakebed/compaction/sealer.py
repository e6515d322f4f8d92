"""`Sealer`: closes staging tokens that hold enough to be compacted.

Rows arrive without a change of the branch record, so it looks into tokens: no further than to
the number of rows that decides, for no longer than `COMPACTION_LOOK_SECONDS` at a time, and
into each so rarely that looking stays a small part of the time. What it remembers only tells when a
token last grew; a process that starts knows everything after one pause.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from lakebed.compaction.census import Census
from lakebed.compaction.limits import CompactionLimits
from lakebed.compaction.load import Load
from lakebed.compaction.sensor import seal_reason
from lakebed.env.clock import Clock, Instant
from lakebed.errors import ConflictError, NotFoundError
from lakebed.limits import (
    COMPACTION_COUNTS_MAX,
    COMPACTION_LOOK_SECONDS,
    COMPACTION_POLL_SHARE,
    SEALED_LAYERS_SLOWDOWN,
)
from lakebed.model.branch import Branch
from lakebed.model.ids import BranchName, StagingToken
from lakebed.model.repository import Repository
from lakebed.refs.branches import Branches
from lakebed.staging.record import seal
from lakebed.telemetry.log import get_logger

log = get_logger(__name__)

# With more layers than this, one more for compaction would bring the writers' limit near: theirs is the room.
_LAYERS_MAX = SEALED_LAYERS_SLOWDOWN // 2


@dataclass(frozen=True, slots=True)
class _Look:
    load: Load
    changed_at: Instant
    again_at: float


class Sealer:
    """Seals for compaction."""

    def __init__(self, branches: Branches, census: Census, *, clock: Clock, limits: CompactionLimits) -> None:
        self._branches = branches
        self._census = census
        self._clock = clock
        self._limits = limits
        self._looks: dict[StagingToken, _Look] = {}

    async def seal_due(
        self, repo: Repository, branches: Iterable[Branch], *, now: Instant
    ) -> dict[BranchName, Branch]:
        """Seal what is worth it, and return those branches as they are now, by name."""
        sealed: dict[BranchName, Branch] = {}
        due = [
            (self._due_at(branch.staging_token), branch.staging_token, branch)
            for branch in branches
            if branch.staging_token is not None and len(branch.sealed) < _LAYERS_MAX
        ]
        begun = self._clock.monotonic()
        due = [each for each in due if each[0] <= begun]
        looked = False
        # Those first that were not looked into for the longest time: nobody is passed over for ever.
        for _, token, branch in sorted(due, key=lambda each: each[0]):
            if looked and self._clock.monotonic() >= begun + COMPACTION_LOOK_SECONDS:
                break
            looked = True
            reason = await self._look(token, now)
            if reason is None:
                continue
            del self._looks[token]
            try:
                sealed[branch.name] = await self.seal(repo, branch)
            except (ConflictError, NotFoundError):
                # Too many change it at once, or it was deleted: the next look tells.
                continue
            log.info("sealed", repository=repo.name, branch=branch.name, reason=reason)
        while len(self._looks) > COMPACTION_COUNTS_MAX:
            del self._looks[next(iter(self._looks))]
        return sealed

    async def seal(self, repo: Repository, branch: Branch) -> Branch:
        """Close the staging token that `branch` has, if it is still that one."""
        token = branch.staging_token
        sealed = await self._branches.update(
            repo,
            branch.name,
            lambda current, _now: seal(current),
            landed=lambda current: current.staging_token != token,
        )
        return sealed.value

    def _due_at(self, token: StagingToken) -> float:
        known = self._looks.get(token)
        return known.again_at if known is not None else 0.0

    async def _look(self, token: StagingToken, now: Instant) -> str | None:
        """Return why the token should be sealed, and remember what it held."""
        begun = self._clock.monotonic()
        load = await self._census.count(token, rows_max=self._limits.seal_rows)
        ended = self._clock.monotonic()
        known = self._looks.pop(token, None)
        changed_at = now if known is None or known.load != load else known.changed_at
        self._looks[token] = _Look(load, changed_at, ended + COMPACTION_POLL_SHARE * (ended - begun))
        return seal_reason(load, written_at=changed_at, now=now, limits=self._limits)
