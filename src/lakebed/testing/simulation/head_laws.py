"""What a change of HEAD must do: take along exactly what was staged, or nothing that was; lose no commit."""

from lakebed.model.branch import Branch
from lakebed.model.diffs import MergeStrategy
from lakebed.model.ids import CommitId, Nonce
from lakebed.model.layers import Layer, layer_name
from lakebed.testing.simulation.history import Op
from lakebed.testing.simulation.ledger import Ledger, difference
from lakebed.testing.simulation.record_laws import LawBrokenError
from lakebed.testing.simulation.truth import View, laid_over, live_layers, live_names, three_way

HEAD_KINDS = frozenset({"commit", "commit_tree", "merge", "revert", "cherry_pick", "hard_reset", "import"})


class HeadLaws:
    """Judges records whose commit is another."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._truth = ledger.truth
        self._made: set[CommitId] = set()
        """Commits that became some branch's HEAD by being made."""
        self._begun: dict[int, set[Nonce]] = {}
        """The entries in `pending` of each call, by its number."""

    def note_begun(self, old: Branch, new: Branch) -> None:
        """A record replaced another: whoever did it has put new entries into `pending`."""
        if self._ledger.op is not None and (begun := set(new.pending) - set(old.pending)):
            self._begun.setdefault(self._ledger.op.number, set()).update(begun)

    def check_ended(self, op: Op) -> None:
        """A call is over: unless it was unlucky, and nobody could do it, its entry in `pending` is gone."""
        begun = self._begun.pop(op.number, set())
        branch = self._truth.branch(op.repo, op.branch) if begun and not op.unlucky else None
        if isinstance(branch, Branch) and (left := begun & set(branch.pending)):
            raise LawBrokenError(f"{op} is over, and stays pending: {left}")

    def check(self, partition: str, old: Branch, new: Branch) -> None:
        op = self._ledger.op
        if op is None or op.kind not in HEAD_KINDS:
            raise LawBrokenError(f"HEAD was moved by {op}")
        if len(set(old.pending) - set(new.pending)) != 1:
            # Nothing protects the files of such a one from a collector.
            raise LawBrokenError(f"{op} moved HEAD after it had been taken for dead")
        base = self._truth.content(partition, old.commit_id)
        content = self._truth.content(partition, new.commit_id)
        dropped = [self._truth.changes(partition, layer) for layer in dropped_layers(old, new)]
        below = laid_over(self._truth.base(partition, old), reversed(dropped))
        if op.kind == "commit" and below != content:
            raise LawBrokenError(
                f"{op}: what was staged is not what was committed: {difference(below, content)}"
            )
        if op.kind != "commit" and below != base:
            raise LawBrokenError(f"{op}: uncommitted changes are gone: {difference(below, base)}")
        if op.kind != "hard_reset":
            self._check_made(partition, old, new, op)
        if op.kind in {"merge", "revert", "cherry_pick"}:
            self._check_merged(partition, op, old.commit_id, content)
        if op.kind == "commit_tree":
            self._check_content(op, self._truth.content(partition, op.args["source"]), content)
        if op.kind == "import":
            kept = {path: each for path, each in base.items() if not path.startswith(op.args["destination"])}
            self._check_content(op, {**kept, **op.args["imported"]}, content)
        self._ledger.meet(f"head moved by {op.kind}")
        self._ledger.meet("head moved")
        if old.compacted is not None:
            self._ledger.meet("head moved with a compacted tree")
        if new.compacted is not None:
            raise LawBrokenError(f"{op}: the compacted tree of an older HEAD hides the new one")
        if live_layers(new):
            self._ledger.meet("head moved under new layers")
        self._ledger.effect(op, "head", new.commit_id)

    def merge_bases(self, partition: str, left: CommitId, right: CommitId) -> list[CommitId]:
        """Return the common ancestors of two commits that no other one descends from."""
        common = self._ancestors(partition, left) & self._ancestors(partition, right)
        below: set[CommitId] = set()
        for commit_id in common:
            below |= self._ancestors(partition, commit_id) - {commit_id}
        return sorted(common - below)

    def sides(self, partition: str, op: Op, head: CommitId) -> list[tuple[View, View]]:
        """Return the base and the source that a merge, revert or cherry-pick into `head` may work with."""
        source = op.args["source"]
        content = self._truth.content(partition, source)
        if op.kind == "merge":
            bases = self.merge_bases(partition, head, source)
            return [(self._truth.content(partition, base), content) for base in bases]
        parents = self._truth.commit(partition, source).parents
        number = max(op.args.get("parent_number", 0), 1)
        parent = self._truth.content(partition, parents[number - 1]) if parents else {}
        return [(content, parent)] if op.kind == "revert" else [(parent, content)]

    def _check_made(self, partition: str, old: Branch, new: Branch, op: Op) -> None:
        commit = self._truth.commit(partition, new.commit_id)
        if commit.parents[:1] != (old.commit_id,):
            raise LawBrokenError(f"{op} took {old.commit_id[:8]} out of the history of {new.name}")
        if commit.id in self._made:
            raise LawBrokenError(f"{op}: commit {commit.id[:8]} became HEAD twice")
        self._made.add(commit.id)

    def _check_content(self, op: Op, expected: View, content: View) -> None:
        if expected != content:
            raise LawBrokenError(f"{op}: the new HEAD has something else: {difference(expected, content)}")

    def _check_merged(self, partition: str, op: Op, head: CommitId, content: View) -> None:
        dest = self._truth.content(partition, head)
        strategy = op.args.get("strategy", MergeStrategy.NONE)
        wrong = []
        for base, source in self.sides(partition, op, head):
            merged, conflicts = three_way(base, source, dest, strategy)
            if not conflicts and merged == content:
                return
            wrong.append(f"conflicts in {conflicts}" if conflicts else difference(merged, content))
        raise LawBrokenError(f"{op}: the merge is not the model's: {wrong}")

    def _ancestors(self, partition: str, commit_id: CommitId) -> set[CommitId]:
        found, left = {commit_id}, [commit_id]
        while left:
            new = [p for p in self._truth.commit(partition, left.pop()).parents if p not in found]
            found.update(new)
            left += new
        return found


def dropped_layers(old: Branch, new: Branch) -> list[Layer]:
    """Return the layers that left a branch, newest first; they must have been its oldest."""
    before, now = live_layers(old), set(live_names(new))
    dropped = [layer for layer in before if layer_name(layer) not in now]
    if dropped != before[len(before) - len(dropped) :]:
        raise LawBrokenError(f"layers were taken out from under older ones on {new.name}")
    return dropped
