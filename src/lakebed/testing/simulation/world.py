"""`World`: one seed, one database, some processes, and everything that is watched."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from lakebed.compaction.keys import SCHEDULE_KEY
from lakebed.compaction.limits import CompactionLimits
from lakebed.compaction.update import next_epoch
from lakebed.format.compaction_records import decode_schedule, encode_schedule
from lakebed.format.segments import decode_footer
from lakebed.kv.port import Expect
from lakebed.model.compaction import Schedule
from lakebed.model.layers import SegmentLayer, layer_name
from lakebed.model.repository import Repository
from lakebed.model.segments import era_at, segment_key
from lakebed.objects.drivers.memory import MemoryBucket
from lakebed.refs.keys import compaction_partition
from lakebed.testing.simulation.answers import Answers
from lakebed.testing.simulation.chance import Chance
from lakebed.testing.simulation.clock import SimClock
from lakebed.testing.simulation.database import Backup, Database
from lakebed.testing.simulation.history import History, Op
from lakebed.testing.simulation.laws import Laws
from lakebed.testing.simulation.ledger import Ledger
from lakebed.testing.simulation.loop import WORLD, SimLoop
from lakebed.testing.simulation.network import Delivery, Fate, Network
from lakebed.testing.simulation.process import SimProcess, Toxin
from lakebed.testing.simulation.shared_files import SharedFiles
from lakebed.testing.simulation.sightings import Sightings
from lakebed.testing.simulation.steps import Steps
from lakebed.testing.simulation.trace import Trace
from lakebed.testing.simulation.truth import Truth
from lakebed.testing.simulation.watch import Watch


class World:
    """Everything of one run."""

    def __init__(
        self,
        seed: str,
        *,
        fences: bool = True,
        segments: bool = False,
        compaction: bool = False,
        limits: CompactionLimits | None = None,
        keep_trace: bool = False,
    ) -> None:
        self.chance = Chance(seed)
        self.loop = SimLoop(self.chance.fork("loop"))
        self.trace = Trace(self.loop.time, keep=keep_trace)
        self.met: Counter[str] = Counter()
        """How often something worth meeting was met: what tells a test that it reached the interesting part."""
        self.clock = SimClock(self.loop)
        self.network = Network(self.loop, self.chance.fork("network"), self.trace, self.met)
        self.database = Database(self.clock, fences=fences)
        self.buckets: dict[str, MemoryBucket] = {}
        self.history = History()
        self.truth = Truth(self.buckets)
        ledger = Ledger(self.truth, self.history, self.network, self.clock, self.met)
        self.steps = Steps(self.network, self.met)
        self.sightings = Sightings(ledger, self.steps)
        self._watch = Watch(ledger, self.steps, self.sightings)
        self.laws = Laws(ledger)
        self.answers = Answers(self.truth, self.laws)
        self._shared_files = SharedFiles(self.buckets, self.met)
        self.network.observers += [self._watch, self.laws.files, self._shared_files]
        # Before the laws: they bring the truth up to date.
        self.database.watch(self._watch)
        self.database.watch(self.laws)
        self.database.watch(self._shared_files)
        self.processes: list[SimProcess] = []
        self.toil: dict[str, Callable[..., float]] = {}
        """How many seconds a function takes in another thread, by its name and its arguments; none, unless it is here."""
        self.temp = TemporaryDirectory(prefix="simulation-")
        self.toxins: dict[str, Toxin] = {}
        """Layers, by name, that workers cannot read."""
        self.tasted: Counter[str] = Counter()
        """How often workers have tried to read each of them, since the job documents were last lost."""
        self._segments = segments
        self._compaction = compaction
        self._limits = limits
        self._started = 0

    def start_process(self, database: Database | None = None) -> SimProcess:
        """Return a new process, on the database or on another one, of which the laws know nothing."""
        self._started += 1
        process = SimProcess(
            f"p{self._started}",
            loop=self.loop,
            chance=self.chance.fork(f"process {self._started}"),
            network=self.network,
            database=database or self.database,
            buckets=self.buckets,
            clock=self.clock,
            die=self.kill,
            toxins=self.toxins,
            tasted=self.tasted,
            toil=self.toil,
            temp=Path(self.temp.name),
            segments=self._segments,
            compaction=self._compaction,
            limits=self._limits,
        )
        self.processes.append(process)
        self.sightings.started(
            process.name,
            process.limits,
            skew_seconds=process.skew_seconds,
            works=process.compactor is not None,
        )
        return process

    def kill(self, process: SimProcess) -> None:
        """Let nothing of a process ever run again."""
        if process.alive:
            self.trace.note(f"{process.name} dies")
            process.kill()
            self.steps.died(process.name)
            self.sightings.died(process.name)
            self._shared_files.died(process.name)

    def pause(self, process: SimProcess, seconds: float, *, is_asleep: bool) -> None:
        """Let nothing of a process run for so long; asleep, it does not notice."""
        self.trace.note(f"{process.name} {'sleeps' if is_asleep else 'stands still'} for {seconds} s")
        process.pause(seconds, is_asleep=is_asleep)
        self.loop.call_later(seconds, self._wake, process, seconds, context=WORLD)

    def _wake(self, process: SimProcess, seconds: float) -> None:
        if process.alive:
            self.sightings.woke(process.name, seconds)

    def set_clock(self, skew_seconds: float) -> None:
        """The database fails over, and its new machine has another time."""
        self.trace.note(f"the database's clock is {skew_seconds} s ahead")
        self.sightings.clock_set(skew_seconds - self.clock.skew_seconds)
        self.clock.set(skew_seconds)

    def forget_jobs(self) -> None:
        """Lose the job documents."""
        self._act_as_operator("the job documents are lost")
        for repo in self.truth.live_repositories():
            self.database.delete_rows(compaction_partition(repo.partition), [SCHEDULE_KEY])
        self.tasted.clear()
        self.met["job documents lost"] += 1

    def damage(self, repo: Repository, layer: SegmentLayer) -> Callable[[], None]:
        """Damage the rows of a segment where they are stored; return what puts them right."""
        objects, key = self.buckets[repo.namespace].objects, segment_key(layer.id)
        whole = objects[key]
        dataset = decode_footer(whole.data, size=len(whole.data)).datasets[layer.dataset]
        middle = (dataset.start + dataset.stop) // 2
        flipped = bytes([whole.data[middle] ^ 0xFF])
        objects[key] = replace(whole, data=whole.data[:middle] + flipped + whole.data[middle + 1 :])
        self.trace.note(f"the file of {layer_name(layer)} is damaged")
        self.history.damaged = True
        self.sightings.damaged({layer_name(layer)})

        def repair() -> None:
            self.trace.note(f"the file of {layer_name(layer)} is whole again")
            if key in objects:
                objects[key] = whole

        return repair

    def restore(self, backup: Backup, rows: Mapping[str, Mapping[bytes, bytes]]) -> None:
        """Put the database back to what it was, and do what operators are told to do then: raise the epoch."""
        self._act_as_operator("the database is restored")
        self.network.cut()
        self.database.restore(backup)
        self.truth.restore(rows, self.history.tick())
        self.laws.restored()
        for repo in self.truth.live_repositories():
            partition = compaction_partition(repo.partition)
            value = self.truth.partitions.get(partition, {}).get(SCHEDULE_KEY)
            found = Schedule() if value is None else decode_schedule(value)
            schedule = next_epoch(found, era=era_at(self.clock.now()), update="restored")
            self.database.swap(
                partition, SCHEDULE_KEY, encode_schedule(schedule), expected=Expect.ANY, names=(), fence=None
            )
        self.sightings.restored()

    def _act_as_operator(self, what: str) -> None:
        self.trace.note(what)
        self.network.delivering = Delivery(None, Fate.DELIVERED, "operator")

    async def ask(
        self,
        process: SimProcess,
        kind: str,
        call: Callable[[], Awaitable[Any]],
        *,
        repo: str,
        branch: str = "",
        give_up_after: float | None = None,
        **args: Any,
    ) -> Op:
        """Make one call as a client of `process`, and judge the answer."""
        op = self.history.begin(kind, process=process.name, repo=repo, branch=branch, **args)
        return await self.finish(op, call, give_up_after=give_up_after)

    async def finish(
        self, op: Op, call: Callable[[], Awaitable[Any]], *, give_up_after: float | None = None
    ) -> Op:
        """Make the call of an op that was taken down before, and judge the answer."""
        began = self.loop.time()
        await self.history.run(op, call, give_up_after=give_up_after)
        op.seconds = self.loop.time() - began
        self.trace.note(str(op))
        self.met[f"{op.kind} {op.outcome}"] += 1
        if op.error is not None:
            self.met[f"{op.kind} {op.error.kind}"] += 1
        self._watch.answered(op)
        self.answers.check(op)
        return op

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def close(self) -> None:
        """Let nothing of the run stay behind."""
        self.network.closed = True
        self.loop.abandon()
        self.temp.cleanup()
