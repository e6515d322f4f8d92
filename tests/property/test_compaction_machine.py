"""Compaction beside writers, commits, resets and a cleaner: whatever happens in whatever order, nobody notices."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.property.compaction_world import LIMITS, WORKERS, World

from lakebed.env.clock import after
from lakebed.limits import GRACE_SECONDS

changes = st.dictionaries(st.sampled_from("abcde"), st.sampled_from([None, "1", "2"]), min_size=1, max_size=3)
workers = st.sampled_from(WORKERS)
picks = st.integers(0, 9)


class CompactionChangesNothing(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.world = World()

    def attempt(self, pick: int, *, claimed: bool, made: bool):
        found = [a for a in self.world.attempts if a.claimed is claimed and (a.output is not None) is made]
        return found[pick % len(found)] if found else None

    @rule(what=changes, as_segment=st.booleans(), more=st.integers(0, 3))
    def write(self, what, as_segment, more) -> None:
        for _ in range(more + 1):
            self.world.write(what, as_segment=as_segment)

    @precondition(lambda self: self.world.operation is None)
    @rule()
    def begin_commit(self) -> None:
        self.world.begin_commit()

    @precondition(lambda self: self.world.operation is not None)
    @rule()
    def build_commit(self) -> None:
        self.world.build_commit()

    @precondition(lambda self: self.world.operation is not None)
    @rule()
    def finish_commit(self) -> None:
        self.world.finish_commit()

    @rule()
    def reset(self) -> None:
        self.world.reset()

    @rule()
    def delete_and_create_the_branch(self) -> None:
        self.world.delete_and_create()

    @rule()
    def open_reader(self) -> None:
        self.world.open_reader()

    @rule(
        worker=workers,
        free=st.integers(0, 2),
        reply_lost=st.booleans(),
        clock=st.sampled_from([0, -3600, 60]),
    )
    def poll(self, worker, free, reply_lost, clock) -> None:
        self.world.poll(worker, free=free, reply_lost=reply_lost, clock=clock)

    @rule(worker=workers, steps=st.integers(1, 3), pick=picks)
    def work_through(self, worker, steps, pick) -> None:
        """A worker that gets on without being disturbed: most interesting states lie behind a few of these."""
        self.world.poll(worker, free=1)
        for attempt in list(self.world.attempts):
            if not attempt.claimed:
                self.world.claim(attempt)
            if attempt in self.world.attempts and attempt.output is None and steps > 1:
                self.world.work(attempt)
            if attempt in self.world.attempts and attempt.output is not None and steps > 2:
                self.world.install(attempt)

    @rule(pick=picks)
    def claim(self, pick) -> None:
        if attempt := self.attempt(pick, claimed=False, made=False):
            self.world.claim(attempt)

    @rule(pick=picks)
    def work(self, pick) -> None:
        if attempt := self.attempt(pick, claimed=True, made=False):
            self.world.work(attempt)

    @rule(pick=picks)
    def install(self, pick) -> None:
        if attempt := self.attempt(pick, claimed=True, made=True):
            self.world.install(attempt)

    @rule(pick=picks)
    def heartbeat(self, pick) -> None:
        if self.world.attempts:
            self.world.heartbeat(self.world.attempts[pick % len(self.world.attempts)])

    @rule(pick=picks)
    def fail(self, pick) -> None:
        if self.world.attempts:
            self.world.fail(self.world.attempts[pick % len(self.world.attempts)])

    @rule(seconds=st.sampled_from([1, LIMITS.lease_seconds + 1, 61, GRACE_SECONDS + 1]))
    def time_passes(self, seconds) -> None:
        self.world.now = after(self.world.now, seconds)
        oldest = after(self.world.now, -GRACE_SECONDS)
        self.world.readers = [reader for reader in self.world.readers if reader.at > oldest]

    @rule()
    def clean(self) -> None:
        self.world.clean()

    @invariant()
    def the_laws_hold(self) -> None:
        self.world.check()


TestCompactionChangesNothing = CompactionChangesNothing.TestCase
TestCompactionChangesNothing.settings = settings(max_examples=80, stateful_step_count=60, deadline=None)
