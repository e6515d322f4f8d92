"""A repository of one branch with writers, commits, workers and a cleaner, all on records and dicts.

The product's own pure functions change the records; what a layer or a tree holds is a dict here,
under the name that the record has for it. `steps` does what the shell will do, in pieces, so that
anything may happen between two of them. `laws` says what must be true after each.
"""

from dataclasses import dataclass, field, replace

from lakebed.compaction.guard import Refusal, install_refusal, spec_refusal
from lakebed.compaction.install import RefusedError, claim, install, without_stale_slots
from lakebed.compaction.limits import CompactionLimits
from lakebed.compaction.scheduler import Facts, Poll, Report, Status, prepare
from lakebed.compaction.update import apply
from lakebed.env.clock import SECOND, Instant, after
from lakebed.errors import ConflictError
from lakebed.format.compaction_records import decode_schedule, encode_schedule
from lakebed.format.records import decode_branch, encode_branch
from lakebed.limits import GRACE_SECONDS
from lakebed.model.branch import Branch, BranchRecord, DeletedBranch
from lakebed.model.compaction import (
    FoldOutput,
    Job,
    JobKind,
    JobState,
    Output,
    Schedule,
    TreeOutput,
    source_of,
)
from lakebed.model.diffs import ChangeCounts
from lakebed.model.ids import BranchName, CommitId, MetarangeId, Nonce, StagingToken
from lakebed.model.layers import SegmentLayer, TokenLayer
from lakebed.model.segments import SegmentName, attempt_nonce, parse_segment_id, protects
from lakebed.refs.branches import bury, later, new_branch
from lakebed.staging import record

MAIN = BranchName("main")
LIMITS = CompactionLimits(
    fold_layers=3,
    fold_layers_max=4,
    l2_layers=5,
    failures_max=2,
    jobs_max=3,
    l2_tombstones=3,
    held_seconds=60,
)
WORKERS = ("w1", "w2")

Changes = dict[str, str | None]
Entries = dict[str, str]


@dataclass
class Attempt:
    """A worker at a job: what it was given, and how far it is."""

    job: Job
    worker: str
    claimed: bool = False
    output: Output | None = None


@dataclass
class Operation:
    """A commit on its way."""

    nonce: Nonce
    started: Branch
    tree: MetarangeId


@dataclass
class Reader:
    """Somebody who read the record at some time, and what they must see."""

    seen: Branch
    at: Instant
    view: Entries


@dataclass
class World:
    now: Instant = Instant(1_700_000_000 * SECOND)
    count: int = 0
    record: BranchRecord = field(init=False)
    schedule: Schedule = field(default_factory=Schedule)
    layers: dict[str, Changes] = field(default_factory=dict)
    trees: dict[str, Entries] = field(default_factory=dict)
    commits: dict[CommitId, MetarangeId] = field(default_factory=dict)
    view: Entries = field(default_factory=dict)
    """What was acknowledged."""
    committed: Entries = field(default_factory=dict)
    beats: dict[tuple[str, int], Instant] = field(default_factory=dict)
    attempts: list[Attempt] = field(default_factory=list)
    reports: dict[str, list[Report]] = field(default_factory=lambda: {w: [] for w in WORKERS})
    operation: Operation | None = None
    readers: list[Reader] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    assigned: dict[str, int] = field(default_factory=dict)
    installed: list[JobKind] = field(default_factory=list)
    refused: list[Refusal] = field(default_factory=list)

    def __post_init__(self) -> None:
        base = {"a": "0", "b": "0", "c": "0"}
        self.trees["base"] = dict(base)
        self.view, self.committed = dict(base), dict(base)
        commit = CommitId("0" * 64)
        self.commits[commit] = MetarangeId("base")
        self.record = new_branch(MAIN, commit, Nonce(self.name("i")), now=self.now)

    @property
    def branch(self) -> Branch:
        assert isinstance(self.record, Branch)
        return self.record

    def name(self, prefix: str) -> str:
        self.count += 1
        return f"{prefix}{self.count}"

    def swap(self, new: BranchRecord) -> None:
        assert self.record.last_token <= new.last_token, "J1: tokens of a branch only grow"
        assert self.record.next_seq <= new.next_seq, "D7: places are never given out again"
        stamped = replace(new, updated_at=later(self.record.updated_at, self.now))
        assert decode_branch(encode_branch(stamped)) == stamped
        self.record = stamped

    # Clients.

    def write(self, changes: Changes, *, as_segment: bool) -> None:
        sealed = record.seal(self.branch)
        if as_segment:
            name = str(SegmentName(1, Nonce(self.name("n"))))
            layer = self._segment(name, changes, level=0, seq=sealed.next_seq)
            self.layers[source_of(layer).name] = dict(changes)
            self.swap(replace(sealed, sealed=(layer, *sealed.sealed), next_seq=sealed.next_seq + 1))
        else:
            token = StagingToken(self.name("lake-main:"))
            self.layers[token] = dict(changes)
            self.swap(record.push_layer(sealed, TokenLayer(token=token, seq=0)))
        self.view = overlay(self.view, changes)

    def begin_commit(self) -> None:
        nonce = Nonce(self.name("op"))
        begun = record.begin(self.branch, nonce, (self.branch.commit_id,), self.now)
        entry = replace(begun.pending[nonce], below=begun.next_seq)
        self.swap(replace(begun, pending={**begun.pending, nonce: entry}))
        tree = MetarangeId(f"tree-{nonce}")
        self.operation = Operation(nonce, replace(self.branch, staging_token=None), tree)

    def build_commit(self) -> None:
        operation = self.operation
        assert operation is not None
        try:
            record.require_unmoved(self.branch, operation.nonce, started=operation.started)
        except ConflictError:
            self.operation = None
            return
        self.trees[operation.tree] = self.read(operation.started)

    def finish_commit(self) -> None:
        operation, self.operation = self.operation, None
        assert operation is not None
        if operation.tree not in self.trees:
            return
        commit = CommitId(f"{self.count:064}")
        before = self.branch
        try:
            moved = record.finish(
                before, operation.nonce, started=operation.started, commit_id=commit, now=self.now
            )
        except ConflictError:
            return
        self.commits[commit] = operation.tree
        self.committed = dict(self.trees[operation.tree])
        self.swap(moved)

    def abandon_commit(self) -> None:
        """End a commit that finds nothing to commit; its layers go if they change nothing."""
        operation, self.operation = self.operation, None
        assert operation is not None
        try:
            record.require_unmoved(self.branch, operation.nonce, started=operation.started)
        except ConflictError:
            return
        before = self.branch
        clean = self.read(operation.started) == self.committed
        ended = record.abandon(
            before, operation.nonce, clean=operation.started if clean else None, now=self.now
        )
        self.swap(ended)

    def renew_commit(self) -> None:
        assert self.operation is not None
        self.swap(record.renew(self.branch, self.operation.nonce, self.now))

    def lose_schedule(self) -> None:
        """The job document is gone: what is known of layers is rebuilt from branches, tokens start in a new epoch."""
        self.schedule = Schedule(epoch=self.schedule.epoch + 1)

    def reset(self) -> None:
        token = StagingToken(self.name("lake-main:"))
        self.layers[token] = {}
        self.swap(record.reset(self.branch, token, self.now))
        self.view = dict(self.committed)

    def delete_and_create(self) -> None:
        before = self.branch
        tombstone = bury(before, self.now)
        assert isinstance(tombstone, DeletedBranch)
        self.swap(tombstone)
        again = new_branch(MAIN, before.commit_id, Nonce(self.name("i")), now=self.now, previous=tombstone)
        self.swap(again)
        self.view = dict(self.committed)
        self.operation = None

    def open_reader(self) -> None:
        self.readers.append(Reader(self.branch, self.now, dict(self.view)))

    # The service and its workers.

    def poll(self, worker: str, *, free: int, reply_lost: bool = False, clock: int = 0) -> None:
        poll = Poll(
            id=self.name("p"),
            worker=worker,
            free=dict.fromkeys(JobKind, free),
            reports=tuple(self.reports[worker]),
        )
        facts = Facts(branches={MAIN: self.record}, heartbeats=dict(self.beats))
        before = encode_schedule(self.schedule)
        update = prepare(self.schedule, poll, facts, now=after(self.now, clock), limits=LIMITS)
        assert encode_schedule(self.schedule) == before, "J3: prepare changes nothing"
        again = prepare(decode_schedule(before), poll, facts, now=after(self.now, clock), limits=LIMITS)
        assert again == update, "J3: prepare on what was stored decides the same"
        changed = apply(self.schedule, update)
        assert apply(changed, update) == changed, "J3: applied twice is applied once"
        assert changed.now >= self.schedule.now, "T1: time does not go back"
        self.schedule = changed
        self.reports[worker] = []
        for job in update.assigned:
            assert all(job.token > token for token in self.tokens), "J1: a token was given out before"
            self.tokens.append(job.token)
            self.assigned[job.id] = self.assigned.get(job.id, 0) + 1
            lower = [
                j for j in self.schedule.jobs if j.state is JobState.QUEUED and j.spec.kind is JobKind.FOLD
            ]
            assert job.spec.kind is JobKind.FOLD or free == 0 or not self._assignable(lower), "J7"
            if not reply_lost:
                self.attempts.append(Attempt(job, worker))
        self.attempts = [a for a in self.attempts if not (a.worker == worker and a.job.id in update.lost)]

    def claim(self, attempt: Attempt) -> None:
        spec = attempt.job.spec
        try:
            self.swap(claim(self.branch, spec, token=attempt.job.token, now=self.now))
        except RefusedError as error:
            self._end(attempt, Status.DONE if error.refusal.is_over else Status.RELEASED)
        else:
            attempt.claimed = True

    def work(self, attempt: Attempt) -> None:
        """Read the sources and store the output, if they are still there."""
        spec, token = attempt.job.spec, attempt.job.token
        names = [source.name for source in spec.sources]
        below = spec.compacted if spec.compacted is not None else self.commits[spec.commit_id]
        missing = [name for name in names if name not in self.layers]
        if missing or (spec.kind is JobKind.L2 and below not in self.trees):
            assert spec_refusal(self.record, spec, now=self.now) is not None, "D5: a source is missing"
            self._end(attempt, Status.DONE)
            return
        merged: Changes = {}
        for name in reversed(names):
            merged |= self.layers[name]
        if spec.kind is JobKind.FOLD:
            segment = str(SegmentName(1, spec.incarnation, token))
            layer = self._segment(segment, merged, level=1, seq=0) if merged else None
            if layer is not None:
                self.layers[source_of(layer).name] = merged
            attempt.output = FoldOutput(layer=layer)
            return
        entries = overlay(self.trees[below], merged)
        base = self.trees[self.commits[spec.commit_id]]
        counts = compare(base, entries)
        tree = None
        if entries != base:
            tree = MetarangeId(f"hash-{attempt_nonce(spec.incarnation, token)}")
            self.trees[tree] = entries
        attempt.output = TreeOutput(tree=tree, counts=counts)

    def install(self, attempt: Attempt) -> None:
        assert attempt.output is not None
        before, spec, token = self.branch, attempt.job.spec, attempt.job.token
        shown, may_commit = self.read(before), self._commit_may_finish()
        if spec.is_probe:
            self._end(attempt, Status.DONE)
            return
        try:
            new = install(before, spec, attempt.output, token=token, now=self.now)
        except RefusedError as error:
            self.refused.append(error.refusal)
            over = spec_refusal(before, spec, now=self.now)
            self._end(attempt, Status.DONE if over is not None and over.is_over else Status.RELEASED)
            return
        self.swap(new)
        self.installed.append(spec.kind)
        assert self.read(self.branch) == shown, "D3: an install changes nothing that a reader sees"
        assert self._commit_may_finish() is may_commit, "an install makes no live commit start over"
        assert install_refusal(self.branch, spec, token=token, now=self.now) is not None, "J2"
        self._end(attempt, Status.DONE)

    def heartbeat(self, attempt: Attempt) -> None:
        self.beats[attempt.job.id, attempt.job.token] = self.now

    def fail(self, attempt: Attempt) -> None:
        self._end(attempt, Status.FAILED)

    def clean(self) -> None:
        """Let go what left the branch a grace ago, then delete whatever nothing protects."""
        self.swap(without_stale_slots(self.branch, self.schedule))
        oldest = after(self.now, -GRACE_SECONDS)
        self.swap(
            replace(
                self.branch,
                retired=tuple(r for r in self.branch.retired if r.at >= oldest),
                retired_trees=tuple(r for r in self.branch.retired_trees if r.at >= oldest),
            )
        )
        kept = self.referenced()
        self.layers = {n: c for n, c in self.layers.items() if n in kept or self._in_flight_layer(n)}
        self.trees = {n: e for n, e in self.trees.items() if n in kept or self._in_flight_tree(n)}

    # Laws.

    def check(self) -> None:
        branch = self.branch
        assert self.read(branch) == self.view, "D1, D2: the branch shows what was acknowledged"
        base = self.trees[self.commits[branch.commit_id]]
        assert base == self.committed, "D9: HEAD shows what was committed"
        if branch.compacted is not None:
            assert branch.compacted_counts == compare(base, self.trees[branch.compacted])
        lost = self.referenced() - {*self.layers} - {*self.trees}
        assert not lost, f"D5: {lost} is referenced and gone"
        for reader in self.readers:
            assert self.read(reader.seen) == reader.view, "D4, D6: a reader sees one record, whole"
        live = [job for job in self.schedule.jobs if job.state is not JobState.PARKED]
        sources = [
            (j.spec.incarnation, s) for j in self.schedule.jobs for s in (*j.spec.sources, *j.suspects)
        ]
        assert len(sources) == len({*sources}), "J4: a layer is in one job at most"
        running = [(j.spec.incarnation, j.spec.kind) for j in live if j.state is JobState.RUNNING]
        assert len(running) == len({*running}), "one owner of a slot at a time"
        assert len(self.schedule.jobs) <= LIMITS.jobs_max, "the queue is bounded"
        for job in self.schedule.jobs:
            assert job.failures <= LIMITS.failures_max + 1, "J5"

    def read(self, branch: Branch) -> Entries:
        below = branch.compacted if branch.compacted is not None else self.commits[branch.commit_id]
        entries = self.trees[below]
        for layer in reversed(branch.sealed):
            entries = overlay(entries, self.layers[source_of(layer).name])
        return dict(entries)

    def referenced(self) -> set[str]:
        branch = self.branch
        trees = [*self.commits.values(), branch.compacted, *(r.tree for r in branch.retired_trees)]
        layers = [*branch.sealed, *(r.layer for r in branch.retired)]
        token = [branch.staging_token] if branch.staging_token is not None else []
        return {*token, *(t for t in trees if t is not None), *(source_of(layer).name for layer in layers)}

    def _commit_may_finish(self) -> bool:
        operation = self.operation
        if operation is None or operation.nonce not in self.branch.pending:
            return False
        try:
            record.require_unmoved(self.branch, operation.nonce, started=operation.started)
        except ConflictError:
            return False
        return self.branch.pending[operation.nonce].is_live(self.now)

    def _in_flight_layer(self, name: str) -> bool:
        if name.startswith("lake-"):
            return False
        segment = parse_segment_id(name.split("/", maxsplit=1)[0])
        return bool(segment.token) and self._protected(segment.owner, segment.token)

    def _in_flight_tree(self, name: str) -> bool:
        _, owner, *token = name.split("-")
        if not token:
            entry = self.branch.pending.get(Nonce(owner))
            return entry is not None and entry.is_live(self.now)
        return self._protected(Nonce(owner), int(token[0]))

    def _protected(self, incarnation: Nonce, token: int) -> bool:
        return self.branch.incarnation == incarnation and protects(self.branch, token)

    def _assignable(self, jobs: list[Job]) -> bool:
        running = {j.spec.incarnation for j in self.schedule.jobs if j.state is JobState.RUNNING}
        return any(
            job.spec.incarnation not in running
            and spec_refusal(self.record, job.spec, now=self.schedule.now) is None
            for job in jobs
        )

    def _end(self, attempt: Attempt, status: Status) -> None:
        self.attempts.remove(attempt)
        self.reports[attempt.worker].append(
            Report(job=attempt.job.id, token=attempt.job.token, status=status)
        )

    def _segment(self, name: str, changes: Changes, *, level: int, seq: int) -> SegmentLayer:
        gone = sum(value is None for value in changes.values())
        return SegmentLayer(
            id=name,
            dataset="d",
            seq=seq,
            min_key=min(changes),
            max_key=max(changes),
            entries=len(changes) - gone,
            tombstones=gone,
            bytes=len(changes),
            level=level,
        )


def overlay(entries: Entries, changes: Changes) -> Entries:
    both = {**entries, **changes}
    return {key: value for key, value in both.items() if value is not None}


def compare(base: Entries, other: Entries) -> ChangeCounts:
    return ChangeCounts(
        added=len(other.keys() - base.keys()),
        changed=sum(base[key] != other[key] for key in base.keys() & other.keys()),
        removed=len(base.keys() - other.keys()),
    )
