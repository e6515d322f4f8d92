"""`GcWatch`: tells how far every run of a collector has got, and what befalls it. It judges nothing.

A run has two sides: the job, in one process, and the server that it asks, in another. A step of the job that the server
carries out (the lease, a page, the mark that counts) is a step of both: either may die there.
"""

from collections.abc import Sequence

from lakebed.errors import ErrorKind, LakebedError
from lakebed.format.gc import QUARANTINE_FOLDER, run_folder, state_key
from lakebed.format.gc_state import decode_gc_state
from lakebed.format.layout import DATA_FOLDER, RANGES_FOLDER
from lakebed.kv.port import Row
from lakebed.model.gc import GcState, Lease, RunKind
from lakebed.model.repository import Repository
from lakebed.refs.keys import COMMITS_PREFIX, GC_STATE_KEY, PINS_PREFIX
from lakebed.testing.simulation.gc_model import TREE_FOLDERS
from lakebed.testing.simulation.history import Op
from lakebed.testing.simulation.network import Delivery
from lakebed.testing.simulation.world import World

COLLECTING = frozenset({"collect", "restore_run"})
"""Kinds of calls that collect garbage."""

_REFUSALS = {"the clock of": "clocks apart", "--allow-large": "too large a share"}
"""Words by which the rails are told apart."""
_PAGES, _COMMITS = "gc prepare_uncommitted", "gc prepare_commits"


class GcWatch:
    """A `Watcher` of the database and an `Observer` of the network, for one repository."""

    def __init__(self, world: World, repo: Repository) -> None:
        self._world = world
        self._steps = world.steps
        self._repo = repo
        self._state = GcState()
        self._runs: dict[int, tuple[str, str]] = {}
        """The run that each call is at: protocol and name."""
        world.database.watch(self)
        world.network.observers.append(self)

    def over(self, op: Op) -> None:
        """A call has come to its end, whatever became of its run."""
        if op.kind_of_error is ErrorKind.GC_UNSAFE:
            for words, refusal in _REFUSALS.items():
                self._world.met[refusal] += words in str(op.error)
        found = self._runs.pop(op.number, None)
        if found is not None:
            self._end(*found)

    def swapped(self, partition: str, key: bytes, value: bytes) -> None:
        if partition != self._repo.partition:
            return
        if key == GC_STATE_KEY:
            before, self._state = self._state, decode_gc_state(value)
            self._changed(before, self._state)
        elif key.startswith(PINS_PREFIX) and (found := self._current()) is not None:
            self._steps.end(_PAGES, found[1])
            self._steps.reach(_PAGES, found[1], "pin")

    def rows_set(self, partition: str, rows: Sequence[Row]) -> None:
        concerned = partition == self._repo.partition and rows[0].key.startswith(COMMITS_PREFIX)
        if concerned and self._current() is not None:
            self._both(_COMMITS, "condemn", "condemn")

    def removing(self, partition: str, key: bytes) -> None:
        """Records of refs that go are no step of a collection."""

    def deleting(self, partition: str, keys: Sequence[bytes]) -> None:
        """Nothing that a collector does."""

    def arrived(self, delivery: Delivery, what: str, *, write: bool, error: LakebedError | None) -> None:
        found = self._current()
        if error is not None or found is None:
            return
        verb, *keys = what.split(" ")
        protocol, run = found
        if protocol == "gc mark":
            self._marking(run, verb, keys[0] if keys else "", write=write)
        elif keys:
            self._sweeping(protocol, verb, keys)

    def _marking(self, run: str, verb: str, key: str, *, write: bool) -> None:
        folder = run_folder(run)
        if verb == "list" and key.startswith(DATA_FOLDER):
            self._job("list")
        elif verb == "read" and key.startswith(RANGES_FOLDER):
            if self._steps.is_at("gc mark", run, "commits"):
                self._job("read")
        elif not write or not key.startswith(folder):
            return
        elif key == f"{folder}clock":
            self._job("clock")
        elif key.startswith(f"{folder}uncommitted/"):
            self._both(_PAGES, "page", "uncommitted")
        elif key.startswith(f"{folder}commits/"):
            self._steps.reach(_COMMITS, run, "roots" if key.endswith("/roots.json") else "list")
        elif key.startswith((f"{folder}state/", f"{folder}marked/")):
            self._job("lists")
        elif key == state_key(run):
            self._job("state")
        else:
            self._job("report")

    def _sweeping(self, protocol: str, verb: str, keys: Sequence[str]) -> None:
        restores, met = protocol == "gc restore", self._world.met
        if verb == "read" and keys[0].endswith("/summary.json"):
            self._job("look")
        elif verb == "copy":
            self._job("put back" if restores else "aside")
            met["put back" if restores else "put aside"] += 1
        elif verb == "delete" and restores:
            self._job("drop copies")
        elif verb == "delete" and keys[0].startswith((DATA_FOLDER, *TREE_FOLDERS)):
            self._job("delete")
        elif verb == "delete" and keys[0].startswith(QUARANTINE_FOLDER):
            met["quarantine over"] += 1
        elif verb == "put" and "/deleted/" in keys[0]:
            self._job("record")
        elif verb == "put" and keys[0].endswith("/summary.json"):
            self._job("report")

    def _changed(self, before: GcState, now: GcState) -> None:
        lease, held = now.lease, before.lease
        if lease is not None and (held is None or held.run != lease.run):
            self._begun(lease, held)
        elif lease is not None and held is not None and self._current() is not None:
            if lease.attempt != held.attempt:
                self._steps.end(_COMMITS, lease.run)
                self._steps.reach(_COMMITS, lease.run, "attempt")
            if lease.prepared and lease.prepared != held.prepared:
                self._both(_COMMITS, "prepared", "commits")
        if {mark.run for mark in now.marks} - {mark.run for mark in before.marks} and self._current():
            self._job("publish")
        if before.marks and not now.marks:
            self._world.met["marks discarded"] += 1
        if lease is None and held is not None:
            for protocol in ("gc mark", "gc sweep", "gc restore"):
                self._end(protocol, held.run)

    def _begun(self, lease: Lease, held: Lease | None) -> None:
        op = self._world.network.delivering.op
        if held is not None:
            lives = held.expires_at > self._world.clock.now()
            self._world.met["lease taken from the living" if lives else "lease taken over"] += 1
        if op is None or op.end is not None or op.kind not in COLLECTING:
            return
        protocol = "gc mark" if lease.kind is RunKind.MARK else "gc sweep"
        self._runs[op.number] = ("gc restore" if op.kind == "restore_run" else protocol, lease.run)
        self._job("lease")

    def _current(self) -> tuple[str, str] | None:
        """Return the protocol and name of the run that the request of this moment belongs to."""
        op = self._world.network.delivering.op
        return self._runs.get(op.number) if op is not None and op.end is None else None

    def _job(self, step: str) -> None:
        op, found = self._world.network.delivering.op, self._current()
        assert op is not None
        assert found is not None
        # Whatever the server was asked for before, it has answered.
        for protocol in (_PAGES, _COMMITS):
            self._steps.end(protocol, found[1])
        self._steps.reach(*found, step, of=op.process)

    def _both(self, protocol: str, step: str, job_step: str) -> None:
        found, op = self._current(), self._world.network.delivering.op
        assert found is not None
        assert op is not None
        self._steps.reach(protocol, found[1], step)
        if found[0] == "gc mark":
            self._steps.reach(*found, job_step, of=op.process)

    def _end(self, protocol: str, run: str) -> None:
        for each in (protocol, _PAGES, _COMMITS):
            self._steps.end(each, run)
