"""`Sightings`: recognises the scenarios of the design in what happens, and counts them.

The play is random. Nobody orders a lease to run out while its worker is alive; it happens, and here it is seen. Each
scenario is recognised by records and requests alone, so that what is counted did happen. `coverage.SCENARIOS_MET` has
their sentences.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from lakebed.compaction.keys import SCHEDULE_KEY
from lakebed.compaction.limits import CompactionLimits
from lakebed.errors import ErrorKind
from lakebed.limits import GRACE_SECONDS
from lakebed.model.branch import Branch, BranchRecord, DeletedBranch, Slot
from lakebed.model.compaction import Job, JobKind, JobState, Schedule
from lakebed.model.ids import Nonce
from lakebed.model.layers import SegmentLayer
from lakebed.model.repository import DeletingRepository, Repository, RepositoryRecord
from lakebed.testing.simulation.history import Op, Outcome
from lakebed.testing.simulation.ledger import Ledger
from lakebed.testing.simulation.network import Delivery
from lakebed.testing.simulation.record_laws import is_fold
from lakebed.testing.simulation.steps import Steps

AttemptKey = tuple[str, int]
"""Whose attempt it is: the incarnation of a branch and a token."""

_READS = frozenset({"stat", "list", "scan"})
# A scan that began longer ago than so many calls has died with its process.
_RECENT_OPS = 100
# So many lost swaps in a row are no accident.
_LOST_IN_A_ROW = 3


@dataclass(slots=True)
class Attempt:
    """A job in the hands of a worker, and what its branch went through meanwhile."""

    partition: str
    branch: str
    job: str
    kind: JobKind
    process: str
    uploaded: bool = False
    heads: int = 0
    reset_paths: set[str] = field(default_factory=set)
    """What lay in the layers that a reset took away under it."""
    deleted: bool = False


class Sightings:
    """See the module's docstring."""

    def __init__(self, ledger: Ledger, steps: Steps) -> None:
        self._ledger = ledger
        self._truth = ledger.truth
        self._met: Counter[str] = ledger.met
        self._steps = steps
        self._limits: dict[str, CompactionLimits] = {}
        """Of each process."""
        self._alive: set[str] = set()
        self._attempts: dict[AttemptKey, Attempt] = {}
        """Those that may still try to install."""
        self._installed_by: dict[str, str] = {}
        """The process of the last install of each job."""
        self._planned_by: dict[str, str] = {}
        self._workers: dict[str, str] = {}
        """Who had each job last."""
        self._polled: set[str] = set()
        self._lost: Counter[tuple[str, str]] = Counter()
        """How many swaps of a record a process has lost in a row."""
        self._fought = False
        """Whether the swap that is being applied was lost that often before."""
        self._gone: set[str] = set()
        """Files that were deleted."""
        self._parked: dict[str, set[str]] = {}
        """Branches with a parked job, by repository."""
        self._unreadable: dict[str, set[str]] = {}
        """Those of them whose job has a damaged file among its sources."""
        self._damaged: set[str] = set()
        """Layers whose files are damaged, by name."""
        self._deadly: bool = False
        self._rested = False
        self._left_over: set[AttemptKey] = set()
        """Attempts that began before the database was put back, in a future it does not know."""
        self._cut_short: set[str] = set()
        """Names of repositories that were deleted with a job under way."""

    # The stage tells.

    def started(self, process: str, limits: CompactionLimits, *, skew_seconds: float, works: bool) -> None:
        """A process has begun."""
        self._alive.add(process)
        self._limits[process] = limits
        if works and abs(skew_seconds) > 1800:
            self.see(7, "worker and coordinator")

    def died(self, process: str) -> None:
        """A process was killed."""
        self._alive.discard(process)
        self._attempts = {
            key: attempt for key, attempt in self._attempts.items() if attempt.process != process
        }

    def woke(self, process: str, seconds: float) -> None:
        """A process goes on after it stood still for so long."""
        if seconds > GRACE_SECONDS and any(each.uploaded for each in self._of_process(process)):
            self.see(2)

    def clock_set(self, by_seconds: float) -> None:
        """The database got another time."""
        if by_seconds < -1800:
            self.see(7, "engine, back")
        elif by_seconds > 1800:
            self.see(7, "engine, forward")

    def rested(self) -> None:
        """There was no worker for an hour."""
        self._rested = True

    def poisoned(self) -> None:
        """Whatever reads some layer dies from now on."""
        self._deadly = True

    def damaged(self, layers: AbstractSet[str]) -> None:
        """These layers, and no others, have files that are damaged."""
        self._damaged = set(layers)

    def scanned(self, seconds: float, *, ran_out: bool) -> None:
        """A pinned scan has ended, after so long: at its end, or because its pin has run out."""
        if ran_out:
            self.see(23, "pin ran out")
        elif seconds > GRACE_SECONDS:
            self.see(23, "pinned for longer than the grace")

    def restored(self) -> None:
        """The database is an older one, and knows that it is."""
        self._left_over = {key for key, each in self._attempts.items() if each.process in self._alive}

    def see(self, number: int, detail: str = "") -> None:
        """Count a scenario."""
        self._met[sighting(number, detail)] += 1

    # `Watch` tells.

    def answered(self, op: Op) -> None:
        if op.kind == "merge" and op.kind_of_error is ErrorKind.DIRTY_BRANCH:
            record = self._truth.branch(op.repo, op.branch)
            if isinstance(record, Branch) and record.compacted is not None:
                self.see(14)
        if op.kind == "scan" and op.kind_of_error is ErrorKind.VERSION_CHANGED:
            self.see(23, "too slow")
        if op.kind in _READS and op.outcome is Outcome.DONE and op.branch in self._parked.get(op.repo, ()):
            self.see(18)
            if op.branch in self._unreadable.get(op.repo, ()):
                self.see(18, "the file is damaged")

    def swap_lost(self, delivery: Delivery, which: str) -> None:
        if which.startswith("compaction-"):
            self.see(17)
        elif delivery.part:
            place = " ".join(which.split(" ")[:2])
            self._lost[delivery.process, place] += 1

    def swap_won(self, place: str) -> None:
        delivery = self._ledger.network.delivering
        self._fought = self._lost.pop((delivery.process, place), 0) >= _LOST_IN_A_ROW
        if self._fought:
            self.see(15)

    def polled(self, process: str, partition: str) -> None:
        if process in self._polled:
            return
        self._polled.add(process)
        if SCHEDULE_KEY in self._truth.partitions.get(partition, {}) and len(self._polled) > 1:
            self.see(16)

    def rows_dropped(self) -> None:
        if any(op.kind == "scan" and op.end is None for op in self._ledger.history.ops[-_RECENT_OPS:]):
            self.see(23, "cleaned meanwhile")

    def files_deleted(self, keys: Iterable[str]) -> None:
        self._gone.update(keys)

    def file_put(self, key: str) -> None:
        if key in self._gone:
            self.see(24)

    def asked(self, which: AttemptKey) -> None:
        """An attempt goes on."""
        if which in self._left_over:
            self._left_over.discard(which)
            self.see(25)

    def uploaded(self, which: AttemptKey) -> None:
        attempt = self._attempts.get(which)
        if attempt is None or attempt.uploaded:
            return
        attempt.uploaded = True
        if any(each.uploaded for each in self._of_job(attempt.job) if each is not attempt):
            self.see(1)
        if attempt.job in self._installed_by:
            self.see(4)

    def written_to_token(self, token: str, paths: AbstractSet[str]) -> None:
        place = next(
            (
                (each.partition, each.branch)
                for each in self._attempts.values()
                if each.reset_paths and self._stages_in(each, token)
            ),
            None,
        )
        if place is not None:
            self._written(*place, paths)

    def branch_swapped(
        self, partition: str, old: BranchRecord | None, new: BranchRecord, op: Op | None
    ) -> None:
        if isinstance(old, Branch) and isinstance(new, Branch):
            self._claims(partition, old, new)
            self._installs(old, new)
            if new.commit_id != old.commit_id:
                self._head_moved(old, op)
            elif op is not None and op.kind == "reset_branch" and not new.sealed:
                self._was_reset(partition, old)
            self._appended(partition, old, new)
        elif isinstance(old, Branch) and isinstance(new, DeletedBranch):
            for attempt in self._of_branch(old.incarnation):
                attempt.deleted = True
        elif isinstance(new, Branch) and any(
            each.deleted and (each.partition, each.branch) == (partition, new.name)
            for each in self._attempts.values()
        ):
            self.see(12)

    def schedule_swapped(self, partition: str, old: Schedule, new: Schedule) -> None:
        delivery = self._ledger.network.delivering
        before, after = {job.id: job for job in old.jobs}, {job.id: job for job in new.jobs}
        for job in old.jobs:
            if job.id not in after:
                self._job_left(job, delivery)
        for job in new.jobs:
            self._job_changed(before.get(job.id), job, delivery)
        limits = self._limits.get(delivery.process)
        if limits is not None and len(new.jobs) >= limits.jobs_max:
            self.see(20)
        parked = [job.spec for job in new.jobs if job.state is JobState.PARKED]
        self._parked[partition] = {spec.branch for spec in parked}
        self._unreadable[partition] = {
            spec.branch for spec in parked if any(source.name in self._damaged for source in spec.sources)
        }

    def repository_swapped(self, new: RepositoryRecord) -> None:
        if isinstance(new, DeletingRepository):
            partition = f"{new.name}-{new.uid}"
            if any(each.partition == partition for each in self._attempts.values()):
                self.see(13, "during a job")
                self._cut_short.add(new.name)
            if any(
                self._steps.is_at("cleaner", each, "mark", "queue write", "delete") for each in self._alive
            ):
                self.see(13, "during cleaning")
                self._cut_short.add(new.name)
        elif isinstance(new, Repository) and new.name in self._cut_short:
            self._cut_short.discard(new.name)
            self.see(13, "name used again")

    # What a record tells.

    def _claims(self, partition: str, old: Branch, new: Branch) -> None:
        process = self._ledger.network.delivering.process
        for kind, was, now in _slots(old, new):
            if now is not None and now != was and process in self._alive:
                self._attempts[new.incarnation, now.token] = Attempt(
                    partition, new.name, now.job, kind, process
                )

    def _installs(self, old: Branch, new: Branch) -> None:
        for _, was, now in _slots(old, new):
            if was is None or now is not None or new.commit_id != old.commit_id:
                continue
            folded = any(is_fold(layer) and layer not in old.sealed for layer in new.sealed)
            if folded or new.compacted != old.compacted:
                self._attempts.pop((new.incarnation, was.token), None)
                self._installed_by[was.job] = self._ledger.network.delivering.process
                if self._fought:
                    self.see(15, "an install")
                if self._rested:
                    self._rested = False
                    self.see(21)
                if self._deadly and any(self._parked.values()):
                    self.see(19)

    def _head_moved(self, old: Branch, op: Op | None) -> None:
        for key, attempt in self._of_branch_keys(old.incarnation):
            if op is not None and op.kind == "commit" and _holds(old, key[1]):
                self.see(8, "after upload" if attempt.uploaded else "after claim")
            attempt.heads += 1
            if attempt.heads == 2:
                self.see(9)

    def _was_reset(self, partition: str, old: Branch) -> None:
        for attempt in self._of_branch(old.incarnation):
            for layer in old.sealed:
                attempt.reset_paths |= self._truth.changes(partition, layer).keys()
            if attempt.kind is JobKind.L2 and old.compacted is None:
                self.see(11)

    def _appended(self, partition: str, old: Branch, new: Branch) -> None:
        if not any(each.reset_paths for each in self._of_branch(new.incarnation)):
            return
        for layer in new.sealed:
            if isinstance(layer, SegmentLayer) and layer not in old.sealed and not is_fold(layer):
                self._written(partition, new.name, self._truth.changes(partition, layer).keys())

    def _written(self, partition: str, branch: str, paths: AbstractSet[str]) -> None:
        for attempt in self._attempts.values():
            if (attempt.partition, attempt.branch) == (partition, branch) and attempt.reset_paths & paths:
                self.see(10, "after upload" if attempt.uploaded else "after claim")

    def _stages_in(self, attempt: Attempt, token: str) -> bool:
        record = self._truth.branch(attempt.partition, attempt.branch)
        return isinstance(record, Branch) and record.staging_token == token

    def _job_left(self, job: Job, delivery: Delivery) -> None:
        if not job.token:
            return
        if not delivery.is_heard:
            self.see(5)
        self._attempts.pop((job.spec.incarnation, job.token), None)
        if self._installed_by.get(job.id, delivery.process) != delivery.process:
            self.see(4)

    def _job_changed(self, old: Job | None, new: Job, delivery: Delivery) -> None:
        if old is None:
            self._planned_by[new.id] = delivery.process
        if old is not None and new.silences > old.silences:
            self.see(6)
        if new.state is not JobState.RUNNING or (old is not None and old.token == new.token):
            return
        lost = old is not None and (old.state is JobState.RUNNING or (new.failures, new.silences) != (0, 0))
        if lost and self._workers.get(new.id) == new.worker:
            self.see(3)
        self._workers[new.id] = new.worker
        planner = self._planned_by.get(new.id, delivery.process)
        if self._limits.get(planner) != self._limits.get(delivery.process):
            self.see(22)

    def _of_process(self, process: str) -> Sequence[Attempt]:
        return [each for each in self._attempts.values() if each.process == process]

    def _of_job(self, job: str) -> Sequence[Attempt]:
        return [each for each in self._attempts.values() if each.job == job]

    def _of_branch(self, incarnation: Nonce) -> Sequence[Attempt]:
        return [each for _, each in self._of_branch_keys(incarnation)]

    def _of_branch_keys(self, incarnation: Nonce) -> Sequence[tuple[AttemptKey, Attempt]]:
        return [(key, each) for key, each in self._attempts.items() if key[0] == incarnation]


def sighting(number: int, detail: str = "") -> str:
    """Return what a scenario is counted as."""
    return f"scenario {number:02}" + (f", {detail}" if detail else "")


def _slots(old: Branch, new: Branch) -> tuple[tuple[JobKind, Slot | None, Slot | None], ...]:
    return (JobKind.FOLD, old.fold_slot, new.fold_slot), (JobKind.L2, old.l2_slot, new.l2_slot)


def _holds(branch: Branch, token: int) -> bool:
    return any(slot is not None and slot.token == token for slot in (branch.fold_slot, branch.l2_slot))
