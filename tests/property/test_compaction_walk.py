"""Long random walks through the world of compaction: far more of it than a search by examples reaches.

Same seed, same walk. What never happened was not tested, so the walks together are held to have
met every kind of install, refusal and failure.
"""

from collections import Counter

import numpy as np
import pytest
from tests.property.compaction_world import LIMITS, WORKERS, Attempt, World

from lakebed.compaction.guard import Refusal, install_refusals
from lakebed.env.clock import after
from lakebed.limits import GRACE_SECONDS
from lakebed.model.compaction import JobKind, JobState

SEEDS = 16
STEPS = 600
STEP_WEIGHTS = {
    "write": 20,
    "begin_commit": 1.5,
    "build_commit": 5,
    "finish_commit": 4,
    "renew_commit": 1,
    "abandon_commit": 0.5,
    "undo": 0.5,
    "reset": 0.5,
    "delete_and_create": 0.3,
    "lose_schedule": 1,
    "open_reader": 3,
    "poll": 20,
    "claim": 20,
    "work": 20,
    "install": 14,
    "heartbeat": 6,
    "fail": 5,
    "vanish": 1,
    "time_passes": 5,
    "clean": 6,
}
KEYS = "abcde"
VALUES = (None, None, "1", "2")


class Walk:
    """One world and the chance that drives it."""

    def __init__(self, seed: int) -> None:
        self.world = World()
        self.random = np.random.default_rng(seed)
        self.met: Counter[str] = Counter()
        names = [*STEP_WEIGHTS]
        weights = np.array([STEP_WEIGHTS[name] for name in names])
        self.steps = [names[i] for i in self.random.choice(len(names), STEPS, p=weights / weights.sum())]

    def run(self) -> None:
        for step in self.steps:
            getattr(self, step)()
            self.world.check()
            self.met.update(f"job {job.state}" for job in self.world.schedule.jobs)
        self.met.update(f"installed {kind}" for kind in self.world.installed)
        self.met.update(f"refused {refusal.name}" for refusal in self.world.refused)
        self.settle()

    def settle(self) -> None:
        """With no more writes and one healthy worker, everything ends up in the tree, and no file is left over."""
        world = self.world
        world.attempts, world.readers, world.operation = [], [], None
        world.reports = {worker: [] for worker in WORKERS}
        for _ in range(60):
            world.now = after(world.now, 61)
            world.poll("w1", free=2)
            for attempt in list(world.attempts):
                for step in (world.claim, world.work, world.install):
                    if attempt in world.attempts:
                        step(attempt)
            world.check()
        parked = any(job.state is JobState.PARKED for job in world.schedule.jobs) or world.schedule.held
        assert parked or not world.branch.sealed, "J8: layers of a quiet branch were never compacted"
        world.now = after(world.now, GRACE_SECONDS + 1)
        world.clean()
        world.check()
        token = [world.branch.staging_token] if world.branch.staging_token is not None else []
        left = {*world.layers} | {*world.trees}
        assert left == world.referenced() | {*token}, "G2: something is left that nothing refers to"
        self.met["settled"] += not parked

    def pick(self, *, claimed: bool, made: bool) -> Attempt | None:
        found = [a for a in self.world.attempts if a.claimed is claimed and (a.output is not None) is made]
        return found[int(self.random.integers(len(found)))] if found else None

    def any_attempt(self) -> Attempt | None:
        attempts = self.world.attempts
        return attempts[int(self.random.integers(len(attempts)))] if attempts else None

    def write(self) -> None:
        keys = self.random.choice(list(KEYS), size=int(self.random.integers(1, 4)), replace=False)
        changes = {str(key): VALUES[int(self.random.integers(len(VALUES)))] for key in keys}
        self.world.write(changes, as_segment=bool(self.random.integers(2)))

    def undo(self) -> None:
        """Write back what is committed, so that the layers change nothing."""
        world = self.world
        keys = {*KEYS, *world.committed}
        world.write({key: world.committed.get(key) for key in sorted(keys)}, as_segment=False)

    def begin_commit(self) -> None:
        if self.world.operation is None:
            self.world.begin_commit()

    def build_commit(self) -> None:
        if self.world.operation is not None:
            self.world.build_commit()

    def finish_commit(self) -> None:
        before = len(self.world.commits)
        if self.world.operation is not None:
            self.world.finish_commit()
            self.met["commit"] += len(self.world.commits) > before

    def renew_commit(self) -> None:
        if self.world.operation is not None:
            self.world.renew_commit()

    def abandon_commit(self) -> None:
        if self.world.operation is not None:
            self.world.abandon_commit()

    def reset(self) -> None:
        self.world.reset()

    def delete_and_create(self) -> None:
        self.world.delete_and_create()

    def lose_schedule(self) -> None:
        self.world.lose_schedule()

    def open_reader(self) -> None:
        self.world.open_reader()

    def poll(self) -> None:
        worker = WORKERS[int(self.random.integers(2))]
        lost = self.random.random() < 0.1
        clock = int(self.random.choice([0, 0, 0, 0, -3600, 3]))
        self.world.poll(worker, free=int(self.random.integers(1, 3)), reply_lost=lost, clock=clock)

    def claim(self) -> None:
        if attempt := self.pick(claimed=False, made=False):
            self.world.claim(attempt)

    def work(self) -> None:
        if attempt := self.pick(claimed=True, made=False):
            self.world.work(attempt)

    def install(self) -> None:
        if attempt := self.pick(claimed=True, made=True):
            self.world.install(attempt)

    def heartbeat(self) -> None:
        if attempt := self.any_attempt():
            self.world.heartbeat(attempt)

    def fail(self) -> None:
        if attempt := self.any_attempt():
            self.world.fail(attempt)

    def vanish(self) -> None:
        if attempt := self.any_attempt():
            self.world.attempts.remove(attempt)

    def time_passes(self) -> None:
        seconds = float(self.random.choice([1, 5, LIMITS.lease_seconds + 1, 61, GRACE_SECONDS / 2]))
        self.world.now = after(self.world.now, seconds)
        oldest = after(self.world.now, -GRACE_SECONDS)
        self.world.readers = [reader for reader in self.world.readers if reader.at > oldest]

    def clean(self) -> None:
        self.world.clean()


def walk_all(seeds: int) -> Counter[str]:
    met: Counter[str] = Counter()
    for seed in range(seeds):
        walk = Walk(seed)
        walk.run()
        met += walk.met
    return met


def test_walks_break_no_law_and_meet_everything():
    met = walk_all(SEEDS)

    expected = {f"installed {kind}" for kind in JobKind} | {f"job {state}" for state in JobState}
    expected |= {f"refused {name}" for name in ("INCARNATION", "TOKEN", "SOURCES", "PENDING")}
    assert expected | {"commit", "settled"} <= met.keys(), met


def test_the_same_seed_is_the_same_walk():
    one, two = Walk(7), Walk(7)
    one.run()
    two.run()

    assert (one.world.record, one.world.schedule, one.met) == (two.world.record, two.world.schedule, two.met)


@pytest.mark.parametrize("part", [Refusal.TOKEN, Refusal.SOURCES, Refusal.PENDING])
def test_without_a_part_of_the_guard_a_law_is_broken(part, monkeypatch):
    """The other parts are implied by these as long as no name is used twice; `test_guard` holds each of them."""

    def install_refusal(record, spec, *, token, now):
        found = install_refusals(record, spec, token=token, now=now)
        return next((refusal for refusal in found if refusal is not part), None)

    monkeypatch.setattr("lakebed.compaction.install.install_refusal", install_refusal)
    with pytest.raises((AssertionError, KeyError)):
        walk_all(40)
