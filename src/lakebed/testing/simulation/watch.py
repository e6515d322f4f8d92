"""`Watch`: tells what the writes and requests of a run are: which step of which protocol.

It stands where they are applied, before the laws, so that the truth is still that of the moment before.
What it finds it tells `Steps` (crash points) and `Sightings` (the scenarios of the design); it judges nothing.
"""

from collections.abc import Sequence

from lakebed.committed.names import METARANGES_FOLDER, RANGES_FOLDER
from lakebed.compaction.keys import LEASES_PREFIX, SCHEDULE_KEY
from lakebed.errors import ConflictError, LakebedError
from lakebed.format.compaction_records import decode_schedule
from lakebed.format.records import decode_branch, decode_repository
from lakebed.format.rows import ROW_PREFIX
from lakebed.kv.port import Row
from lakebed.model.branch import Branch, BranchRecord
from lakebed.model.compaction import Schedule
from lakebed.model.layers import TokenLayer, layer_name
from lakebed.model.repository import DeletingRepository, GoneRepository
from lakebed.model.segments import SEGMENTS_FOLDER
from lakebed.refs.keys import (
    BRANCHES_PREFIX,
    CLEANUP_PARTITION,
    COMMITS_PREFIX,
    REPOS_PREFIX,
    REPOSITORIES_PARTITION,
    TODO_PARTITION,
)
from lakebed.testing.simulation.head_laws import HEAD_KINDS
from lakebed.testing.simulation.history import Op, Outcome
from lakebed.testing.simulation.ledger import Ledger
from lakebed.testing.simulation.network import Delivery
from lakebed.testing.simulation.record_laws import is_fold
from lakebed.testing.simulation.sightings import Sightings
from lakebed.testing.simulation.steps import Steps

_PROTOCOLS = {
    "write": "writer",
    "delete": "writer",
    **dict.fromkeys(HEAD_KINDS, "commit"),
    "reset_branch": "reset",
    "delete_repository": "repository delete",
}
_ATTEMPT = "attempt "


def attempt_part(incarnation: str, token: int) -> str:
    """Return the part of a process that carries out an attempt."""
    return f"{_ATTEMPT}{incarnation} {token}"


class Watch:
    """A `Watcher` of the database and an `Observer` of the network."""

    def __init__(self, ledger: Ledger, steps: Steps, sightings: Sightings) -> None:
        self._ledger = ledger
        self._truth = ledger.truth
        self._steps = steps
        self._sightings = sightings
        self._dropping: dict[str, tuple[str, int]] = {}
        """Tokens that a commit or reset has retired, by whose: protocol and number of the call."""
        self._uids: dict[str, str] = {}
        """Partitions of repositories that are being deleted, by uid."""

    def answered(self, op: Op) -> None:
        """A client has its answer."""
        protocol = _PROTOCOLS.get(op.kind)
        if protocol == "writer" and op.outcome is Outcome.DONE:
            self._steps.acknowledge(protocol, op.number, op.process)
        elif protocol is not None and op.outcome is Outcome.REFUSED:
            self._steps.end(protocol, op.number)
        self._sightings.answered(op)

    def arrived(self, delivery: Delivery, what: str, *, write: bool, error: LakebedError | None) -> None:
        verb, _, rest = what.partition(" ")
        if error is not None:
            if verb == "swap" and isinstance(error, ConflictError):
                self._sightings.swap_lost(delivery, rest)
            return
        if delivery.op is not None:
            self._client_asked(delivery.op, verb, rest)
        elif delivery.part.startswith(_ATTEMPT):
            self._worker_asked(delivery, verb, rest, write=write)
        elif verb == "get" and rest.startswith("compaction-"):
            self._steps.reach("coordinator", delivery.process, "prepare")
            self._sightings.polled(delivery.process, rest.split(" ")[0])
        if verb == "delete":
            if delivery.part == "cleaner" or (delivery.op is not None and delivery.op.kind == "clean"):
                self._steps.reach("cleaner", delivery.process, "delete")
            self._sightings.files_deleted(rest.split(" "))
        elif verb == "put":
            self._sightings.file_put(rest)

    def swapped(self, partition: str, key: bytes, value: bytes) -> None:
        before = self._truth.partitions.get(partition, {}).get(key)
        self._sightings.swap_won(f"{partition} {key.decode()}")
        if key.startswith(BRANCHES_PREFIX):
            old = decode_branch(before) if before is not None else None
            self._branch_swapped(partition, old, decode_branch(value))
        elif key == SCHEDULE_KEY:
            old_schedule = decode_schedule(before) if before is not None else Schedule()
            self._schedule_swapped(partition, old_schedule, decode_schedule(value))
        elif key.startswith(COMMITS_PREFIX) and (op := self._ledger.op) is not None and op.kind in HEAD_KINDS:
            self._steps.reach("commit", op.number, "commit object")
        elif partition == CLEANUP_PARTITION and b"/token/" in key:
            self._steps.reach("cleaner", self._process, "queue write")
        elif partition == REPOSITORIES_PARTITION and key.startswith(REPOS_PREFIX):
            self._repository_swapped(value)

    def rows_set(self, partition: str, rows: Sequence[Row]) -> None:
        op = self._ledger.op
        if op is not None and _PROTOCOLS.get(op.kind) == "writer" and ":" in partition:
            self._steps.reach("writer", op.number, "swap")
        if rows[0].key.startswith(LEASES_PREFIX):
            self._steps.reach("coordinator", self._process, "respond")
        paths = {row.key[len(ROW_PREFIX) :].decode() for row in rows if row.key.startswith(ROW_PREFIX)}
        self._sightings.written_to_token(partition, paths)

    def removing(self, partition: str, key: bytes) -> None:
        if partition == REPOSITORIES_PARTITION and key.startswith(REPOS_PREFIX):
            old = decode_repository(self._truth.partitions[partition][key])
            if isinstance(old, DeletingRepository):
                self._steps.reach("repository delete", old.uid, "record")
                self._sightings.repository_swapped(GoneRepository(name=old.name))
        elif partition == TODO_PARTITION:
            self._steps.reach("cleaner", self._process, "strike")

    def deleting(self, partition: str, keys: Sequence[bytes]) -> None:
        if partition == CLEANUP_PARTITION:
            for key in keys:
                _, what, name = key.decode().split("/", 2)
                if what == "token":
                    self._steps.reach("cleaner", self._process, "dequeue")
                else:
                    self._steps.reach("repository delete", name, "entry")
            return
        if partition in self._dropping:
            self._steps.reach(*self._dropping[partition], "drop")
        if partition.removeprefix("compaction-") in self._uids:
            uid = self._uids[partition.removeprefix("compaction-")]
            self._steps.reach("repository delete", uid, "each partition")
        elif ":" in partition:
            self._steps.reach("cleaner", self._process, "delete")
            self._sightings.rows_dropped()

    @property
    def _process(self) -> str:
        return self._ledger.network.delivering.process

    def _client_asked(self, op: Op, verb: str, rest: str) -> None:
        protocol = _PROTOCOLS.get(op.kind)
        if protocol is None or op.end is not None:
            return
        which = op.args["uid"] if protocol == "repository delete" else op.number
        self._steps.reach(protocol, which, "begin")
        if verb == "put" and protocol == "writer":
            self._steps.reach(protocol, which, "upload")
        if protocol != "commit":
            return
        if verb == "put" and rest.startswith(RANGES_FOLDER):
            self._steps.reach(protocol, which, "upload ranges")
        elif verb == "put" and rest.startswith(METARANGES_FOLDER):
            self._steps.reach(protocol, which, "metarange")
        elif verb in {"scan", "read"} and self._steps.is_at(protocol, which, "seal"):
            self._steps.reach(protocol, which, "read")

    def _worker_asked(self, delivery: Delivery, verb: str, rest: str, *, write: bool) -> None:
        incarnation, token = delivery.part.removeprefix(_ATTEMPT).split(" ")
        which = (incarnation, int(token))
        self._sightings.asked(which)
        if not write:
            self._steps.reach("worker", which, "read")
        elif verb == "put" and rest.startswith(RANGES_FOLDER):
            self._steps.reach("worker", which, "upload part")
        elif verb == "put" and rest.startswith((METARANGES_FOLDER, SEGMENTS_FOLDER)):
            self._steps.reach("worker", which, "upload part")
            self._steps.reach("worker", which, "upload all")
            self._sightings.uploaded(which)

    def _branch_swapped(self, partition: str, old: BranchRecord | None, new: BranchRecord) -> None:
        op, process = self._ledger.op, self._process
        if isinstance(old, Branch) and isinstance(new, Branch):
            self._record_swapped(partition, old, new, op)
        if old is not None and (new.min_era > old.min_era or len(new.retired) < len(old.retired)):
            self._steps.reach("cleaner", process, "mark")
        if old is not None and old.indexed and not new.indexed:
            self._steps.notice("cleaner", "idle")
        self._sightings.branch_swapped(partition, old, new, op)

    def _record_swapped(self, partition: str, old: Branch, new: Branch, op: Op | None) -> None:
        for was, now in ((old.fold_slot, new.fold_slot), (old.l2_slot, new.l2_slot)):
            if now is not None and now != was:
                self._steps.reach("worker", (new.incarnation, now.token), "claim")
            elif was is not None and now is None and _is_install(old, new):
                self._steps.reach("worker", (new.incarnation, was.token), "install")
        if op is None:
            return
        names = set(map(layer_name, old.sealed))
        if _PROTOCOLS.get(op.kind) == "writer" and any(
            not isinstance(layer, TokenLayer) and layer_name(layer) not in names for layer in new.sealed
        ):
            self._steps.reach("writer", op.number, "swap")
        if op.kind in HEAD_KINDS and set(new.pending) - set(old.pending):
            self._steps.reach("commit", op.number, "seal")
        if op.kind in HEAD_KINDS and new.commit_id != old.commit_id:
            self._steps.reach("commit", op.number, "swap")
            self._will_drop("commit", op, old, new)
        if op.kind == "reset_branch" and new.staging_token != old.staging_token and not new.sealed:
            self._steps.reach("reset", op.number, "swap")
            self._will_drop("reset", op, old, new)

    def _will_drop(self, protocol: str, op: Op, old: Branch, new: Branch) -> None:
        for retired in new.retired[len(old.retired) :]:
            if isinstance(retired.layer, TokenLayer):
                self._dropping[retired.layer.token] = (protocol, op.number)

    def _schedule_swapped(self, partition: str, old: Schedule, new: Schedule) -> None:
        self._steps.reach("coordinator", self._process, "swap")
        left = {(job.id, job.token) for job in new.jobs}
        for job in old.jobs:
            if job.token and (job.id, job.token) not in left:
                self._steps.reach("worker", (job.spec.incarnation, job.token), "report")
        self._sightings.schedule_swapped(partition.removeprefix("compaction-"), old, new)

    def _repository_swapped(self, value: bytes) -> None:
        new = decode_repository(value)
        if isinstance(new, DeletingRepository):
            self._uids[f"{new.name}-{new.uid}"] = new.uid
            self._steps.reach("repository delete", new.uid, "mark")
        self._sightings.repository_swapped(new)


def _is_install(old: Branch, new: Branch) -> bool:
    """Return whether a record is another's with the result of a job in it."""
    if new.commit_id != old.commit_id or new.sealed == old.sealed:
        return False
    return any(is_fold(layer) and layer not in old.sealed for layer in new.sealed) or (
        new.l2_slot is None and old.l2_slot is not None and new.staging_token == old.staging_token
    )
