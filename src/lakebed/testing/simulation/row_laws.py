"""What holds of rows in a branch's staging token, and of changes in a segment: each is somebody's, applied once, on its condition."""

from collections.abc import Mapping, Sequence

from lakebed.format.rows import ROW_PREFIX
from lakebed.kv.port import Row
from lakebed.model.branch import Branch
from lakebed.model.ids import Nonce
from lakebed.staging.conditions import IfAbsent, IfChecksum
from lakebed.testing.simulation.history import Op, Outcome
from lakebed.testing.simulation.ledger import Ledger, difference
from lakebed.testing.simulation.record_laws import LawBrokenError
from lakebed.testing.simulation.truth import Changes, Moment, View, put

UNDO_KINDS = frozenset({"reset_path", "reset_prefix"})


class RowLaws:
    """Judges batches of staged rows."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._truth = ledger.truth
        self._nonces: set[Nonce] = set()
        """The batches of writes that were applied."""
        self.tombstones: dict[tuple[str, str, str], list[int]] = {}
        """When a path (partition, branch, path) was deleted."""
        self._appended: dict[tuple[str, str], list[tuple[int, frozenset[str]]]] = {}
        """When segments were laid over a branch, and which paths they held."""

    def check(self, place: tuple[str, str], token: str, rows: Sequence[Row]) -> None:
        """Rows were written to the staging token of the branch at `place` (repository's partition, name)."""
        op, timeline = self._ledger.op, self._truth.timeline(*place)
        record = self._truth.branch(*place)
        assert isinstance(record, Branch)
        undoing = op if op is not None and op.kind in UNDO_KINDS else None
        view = dict(timeline.last.view or {})
        writes: dict[Op, set[str]] = {}
        for row in rows:
            self._truth.write(token, row.key, row.value)
            if not row.key.startswith(ROW_PREFIX):
                continue
            path = row.key[len(ROW_PREFIX) :].decode()
            checksum = self._truth.row(row.key, row.value)[0]
            if undoing is not None:
                self._check_undone(undoing, place[0], record, path, checksum)
            elif checksum is None:
                self.tombstones.setdefault((*place, path), []).append(self._ledger.history.step)
            else:
                write = self._check_written(place, view.get(path), path, checksum)
                writes.setdefault(write, set()).add(path)
            put(view, path, checksum)
        if undoing is not None:
            self._ledger.effect(undoing, "undone", token)
        else:
            self._check_batch(rows, writes)
        shown = self._truth.view(place[0], record)
        if shown != view:
            raise LawBrokenError(f"rows changed {difference(view, shown)} which they did not name")
        timeline.add(Moment(self._ledger.history.step, record.commit_id, shown))

    def check_segment(self, place: tuple[str, str], before: View, changes: Changes) -> None:
        """A segment was laid over the branch at `place`, which showed `before`.

        It holds one change of a path, the last of its batch. So what it overwrites may be of a call in that very batch.
        """
        step = self._ledger.history.step
        writes: dict[Op, set[str]] = {}
        for path, checksum in changes.items():
            joined = self._joined(place, path)
            if checksum is not None:
                write = self._check_written(place, before.get(path), path, checksum, joined=joined)
                writes.setdefault(write, set()).add(path)
            if checksum is None or any(op.kind == "delete" for op in joined):
                self.tombstones.setdefault((*place, path), []).append(step)
        for op, paths in writes.items():
            if not set(op.args["contents"]) <= changes.keys():
                raise LawBrokenError(f"{op}: only {sorted(paths)} were written")
            self._ledger.meet("written by segment")
            self._ledger.effect(op, "written")
        self._appended.setdefault(place, []).append((step, frozenset(changes)))

    def was_overwritten(self, op: Op) -> bool:
        """Return whether a segment may have held a call's changes until others of its batch took their places."""
        assert op.end is not None
        return any(
            op.start < step < op.end and paths >= set(op.args["contents"])
            for step, paths in self._appended.get((op.repo, op.branch), [])
        )

    def _joined(self, place: tuple[str, str], path: str) -> list[Op]:
        """Return the calls of the process that writes which may be in its batch with a change of the path."""
        writer = self._ledger.op
        return [
            op
            for op in self._ledger.history.ops
            if (op.repo, op.branch) == place
            and (op.end is None or op.outcome is Outcome.UNKNOWN)
            and not op.effects
            and (writer is None or op.process == writer.process)
            and (path in op.args.get("contents", ()) or path in op.args.get("paths", ()))
            and op.kind in {"write", "delete"}
        ]

    def _check_batch(self, rows: Sequence[Row], writes: Mapping[Op, set[str]]) -> None:
        """A batch is applied once, and each write in it whole."""
        for nonce in {
            self._truth.row(row.key, row.value)[1] for row in rows if row.key.startswith(ROW_PREFIX)
        }:
            if nonce in self._nonces:
                raise LawBrokenError(f"a batch of writes was applied twice: {self._ledger.op}")
            self._nonces.add(nonce)
        for op, paths in writes.items():
            if paths != set(op.args["contents"]):
                raise LawBrokenError(f"{op}: only {sorted(paths)} were written")
            self._ledger.meet("written")
            self._ledger.effect(op, "written")

    def _check_written(
        self,
        place: tuple[str, str],
        current: str | None,
        path: str,
        checksum: str,
        *,
        joined: Sequence[Op] = (),
    ) -> Op:
        """Return whose write it is, which must have been meant for this place, and whose condition must hold."""
        op = self._ledger.history.by_checksum[checksum]
        if (op.repo, op.branch, op.args["contents"].get(path)) != (*place, checksum):
            raise LawBrokenError(f"{op} was written to {place[1]} {path}")
        match op.args.get("condition"):
            case _ if any(other is not op for other in joined):
                pass
            case IfAbsent() if current is not None:
                raise LawBrokenError(f"{op} replaced {self._ledger.history.by_checksum[current]}")
            case IfChecksum(checksum=expected) if current != expected:
                raise LawBrokenError(f"{op} replaced {current}")
        return op

    def _check_undone(self, op: Op, partition: str, record: Branch, path: str, checksum: str | None) -> None:
        committed = self._truth.content(partition, record.commit_id).get(path)
        if checksum != committed:
            raise LawBrokenError(f"{op} set {path} to {checksum}, committed is {committed}")
        if not path.startswith(op.args["prefix"]):
            raise LawBrokenError(f"{op} touched {path}")
