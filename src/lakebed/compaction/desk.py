"""`Desk`: one repository as a poll has read it, tidied up on the way.

The job document is read before the branches, and heartbeats in between: a slot or a heartbeat that
the document could know of and does not belongs to an attempt that has ended, and goes.
"""

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import partial

from lakebed.compaction.census import Census
from lakebed.compaction.install import stuck_sources, with_parked, without_stale_slots
from lakebed.compaction.scheduler import Facts
from lakebed.compaction.sealer import Sealer
from lakebed.compaction.store import Attempt, JobStore, ReadSchedule
from lakebed.compaction.survey import Survey
from lakebed.env.clock import Instant
from lakebed.errors import ConflictError, NotFoundError
from lakebed.format.records import decode_branch
from lakebed.limits import COMPACTION_BRANCHES_AT_HAND
from lakebed.model.branch import Branch, BranchRecord
from lakebed.model.compaction import JobState, Schedule, Source
from lakebed.model.ids import BranchName, RepoUid
from lakebed.model.layers import TokenLayer
from lakebed.model.repository import Repository
from lakebed.refs.decoded import Decoded
from lakebed.refs.keys import branch_key
from lakebed.versioning.parts import Parts


@dataclass(frozen=True, slots=True, kw_only=True)
class Desk:
    """What a poll decides on."""

    repo: Repository
    stored: ReadSchedule
    facts: Facts
    now: Instant
    layers: int
    layers_max: int

    def is_held(self, attempt: Attempt) -> bool:
        """Return whether nobody but this attempt has its job."""
        return any(
            (job.id, job.token) == attempt and job.state is not JobState.PARKED
            for job in self.stored.value.jobs
        )

    def is_queued(self, job_id: str) -> bool:
        """Return whether the job waits for a worker."""
        return any(job.id == job_id and job.state is JobState.QUEUED for job in self.stored.value.jobs)


class Desks:
    """Reads repositories."""

    def __init__(self, parts: Parts, jobs: JobStore, census: Census, sealer: Sealer) -> None:
        self._parts = parts
        self._jobs = jobs
        self._census = census
        self._sealer = sealer
        self._surveys: dict[RepoUid, Survey] = {}
        self._decoded = Decoded[BranchRecord](decode_branch)

    def forget_all_but(self, uids: AbstractSet[RepoUid]) -> None:
        """Let go of what is known of repositories that are gone."""
        self._surveys = {uid: survey for uid, survey in self._surveys.items() if uid in uids}

    async def read(self, repo: Repository) -> Desk:
        """Return what is to be decided in a repository; seal what is due, and remove what is left of ended attempts."""
        stored = await self._jobs.read(repo)
        schedule = stored.value
        heartbeats = await self._jobs.heartbeats(repo)
        await self._jobs.forget(repo, [each for each in heartbeats if _is_over(each, schedule)])
        survey = await self._survey(repo)
        names = {job.spec.branch for job in schedule.jobs}.union(survey.choose(COMPACTION_BRANCHES_AT_HAND))
        found = await self._records(repo, sorted(names))
        now = await self._jobs.now()
        live = {name: record for name, record in found.items() if isinstance(record, Branch)}
        if not schedule.paused:
            live |= await self._sealer.seal_due(repo, live.values(), now=now)
        stuck = stuck_sources(schedule)
        for name, branch in live.items():
            of_branch = stuck.get(branch.incarnation, set())
            found[name] = await self._in_step(repo, branch, partial(_in_step, schedule, of_branch))
        # Where layers hurt most is planned first, and counted first.
        order = sorted(found, key=lambda name: -_layers(found[name]))
        loads = await self._census.of_sealed(
            layer.token
            for name in order
            if isinstance(staged := found[name], Branch)
            for layer in staged.sealed
            if isinstance(layer, TokenLayer)
        )
        return Desk(
            repo=repo,
            stored=stored,
            facts=Facts(branches={name: found[name] for name in order}, heartbeats=heartbeats, loads=loads),
            now=now,
            layers=survey.layers,
            layers_max=survey.layers_max,
        )

    async def _survey(self, repo: Repository) -> Survey:
        survey = self._surveys.get(repo.uid)
        if survey is None:
            survey = Survey(self._parts.kv, repo.partition, clock=self._parts.clock)
            self._surveys[repo.uid] = survey
        await survey.refresh()
        return survey

    async def _records(
        self, repo: Repository, names: Sequence[BranchName]
    ) -> dict[BranchName, BranchRecord | None]:
        items = await self._parts.kv.get_many([(repo.partition, branch_key(name)) for name in names])
        return {
            name: None if item is None else self._decoded(repo.partition, item)
            for name, item in zip(names, items, strict=True)
        }

    async def _in_step(
        self, repo: Repository, branch: Branch, step: Callable[[Branch], Branch]
    ) -> BranchRecord | None:
        """Bring what the record says of jobs in step with the document that was read before it."""
        if step(branch) is branch:
            return branch
        try:
            changed = await self._parts.branches.update(
                repo,
                branch.name,
                lambda current, _now: step(current),
                landed=lambda current: step(current) is current,
            )
        except NotFoundError:
            return None
        except ConflictError:
            return branch
        return changed.value


def _in_step(schedule: Schedule, stuck: AbstractSet[Source], branch: Branch) -> Branch:
    return with_parked(without_stale_slots(branch, schedule), stuck)


def _is_over(attempt: Attempt, schedule: Schedule) -> bool:
    """Return whether an attempt has ended, and is not one that this document cannot know of yet."""
    live = any((job.id, job.token) == attempt for job in schedule.jobs)
    return not live and attempt[1] <= schedule.token_floor


def _layers(record: BranchRecord | None) -> int:
    return len(record.sealed) if isinstance(record, Branch) else 0
