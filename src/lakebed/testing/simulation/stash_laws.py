"""What holds of stashes: the changes are on a branch or in the stash, never in both or neither."""

from lakebed.format.records import decode_stash
from lakebed.model.branch import Branch
from lakebed.model.ids import Nonce
from lakebed.model.layers import layer_name
from lakebed.model.stash import Stash, StashState
from lakebed.testing.simulation.head_laws import dropped_layers
from lakebed.testing.simulation.ledger import Ledger, difference
from lakebed.testing.simulation.record_laws import LawBrokenError
from lakebed.testing.simulation.truth import Changes, View, laid_over

_KEPT = frozenset({StashState.STANDING, StashState.POPPING})
_HELPERS = frozenset({"pop", "drop_stash", "sweep", "list_stashes"})


class StashLaws:
    """Follows every stash from its making to its end."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._truth = ledger.truth
        self.stashed: dict[Nonce, tuple[Stash, Changes]] = {}
        """What each stash that counts has put aside."""
        self.home: dict[Nonce, str] = {}
        """The repository of each of them."""
        self.standing: set[Nonce] = set()
        """Stashes that no longer depend on their branch."""
        self.claimed: set[Nonce] = set()
        """Stashes that somebody has begun to pop."""
        self.popped: set[Nonce] = set()
        """Stashes that were laid over a branch."""
        self.dropped: set[Nonce] = set()
        """Stashes that a user gave up."""

    def of_layer(self, name: str) -> Nonce | None:
        """Return the stash that counts and has this layer."""
        return next((nonce for nonce, (stash, _) in self.stashed.items() if name in _names(stash)), None)

    def check_named(self, partition: str, old: Branch, new: Branch, named: set[Nonce]) -> None:
        """A branch names a stash: from here it counts, and must hold what left the branch."""
        op = self._ledger.op
        if op is None or op.kind != "stash" or len(named) != 1:
            raise LawBrokenError(f"stashes {named} were named by {op}")
        (nonce,) = named
        stash = next((s for s in self._truth.stashes(partition) if s.id == nonce), None)
        if stash is None:
            raise LawBrokenError(f"{op}: the branch names a stash that has no record")
        base = self._truth.content(partition, old.commit_id)
        changes = self._changes(partition, stash)
        saved = laid_over(base, [changes])
        dropped = [self._truth.changes(partition, layer) for layer in dropped_layers(old, new)]
        shown = laid_over(self._truth.base(partition, old), reversed(dropped))
        if saved != shown:
            raise LawBrokenError(f"{op}: the stash is not what was shown: {difference(shown, saved)}")
        self.stashed[nonce] = (stash, changes)
        self.home[nonce] = partition
        self._ledger.meet("stashed")
        self._ledger.effect(op, "stashed", nonce)

    def check_popped(self, partition: str, branch: Branch, before: View, now: View, stash: Nonce) -> None:
        """A stash became a layer of a branch."""
        op = self._ledger.op
        record, changes = self.stashed[stash]
        if op is None or op.kind not in _HELPERS:
            raise LawBrokenError(f"stash {stash} was popped by {op}")
        if stash in self.popped:
            raise LawBrokenError(f"{op}: stash {stash} was popped before")
        if stash in self.dropped:
            raise LawBrokenError(f"{op}: stash {stash} was dropped before it was popped")
        if self._changes(self.home[stash], record) != changes:
            raise LawBrokenError(f"{op}: the rows of stash {stash} have changed")
        if now != laid_over(before, [changes]):
            raise LawBrokenError(
                f"{op} changed {difference(laid_over(before, [changes]), now)} beside the stash"
            )
        self.popped.add(stash)
        self._ledger.meet("popped")
        if op.kind == "pop" and op.branch == branch.name:  # Otherwise it has helped somebody else.
            self._ledger.effect(op, "popped", stash)

    def record_swapped(self, partition: str, before: bytes | None, value: bytes) -> None:
        """A stash goes to its next state."""
        stash = decode_stash(value)
        if before is not None and stash.id in self.stashed:
            if _names(decode_stash(before)) != _names(stash):
                raise LawBrokenError(f"stash {stash.id} that counts was given other layers")
            # One that was never seen to stand goes with a branch that is deleted, like all that was staged there.
            kept = stash.id in self.standing or self._is_named(partition, stash)
            op = self._ledger.op
            if stash.state is StashState.DROPPED and op is not None and op.kind == "drop_stash":
                self._check_dropped(stash)
            elif stash.state is StashState.DROPPED and kept:
                raise LawBrokenError(f"stash {stash.id} that counts was dropped")
        if stash.state is StashState.DROPPED:
            self._ledger.meet("stash given up")
        if stash.state is StashState.STANDING and stash.id in self.claimed:
            self._ledger.meet("stash given back")
        if stash.state is StashState.STANDING:
            self.standing.add(stash.id)
        if stash.state in {StashState.POPPING, StashState.POPPED}:
            self.claimed.add(stash.id)

    def _check_dropped(self, stash: Stash) -> None:
        """A user gives up a stash that counts."""
        if stash.id in self.popped:
            raise LawBrokenError(f"stash {stash.id} was dropped, and its layers are on a branch")
        self.dropped.add(stash.id)
        self._ledger.meet("stash dropped")

    def check_deletable(self, partition: str, stash: Stash) -> None:
        """A record is about to go."""
        if self._is_kept(partition, stash):
            raise LawBrokenError(f"the record of stash {stash.id} was deleted, and it counts")

    def check_droppable(self, partition: str, token: str) -> None:
        """A token's rows are about to go."""
        for stash in self._truth.stashes(partition):
            if token in _names(stash) and self._is_kept(partition, stash):
                raise LawBrokenError(
                    f"rows of {token} were dropped, kept by stash {stash.id}: {self._ledger.op}"
                )

    def _changes(self, partition: str, stash: Stash) -> Changes:
        return {
            path: checksum
            for layer in stash.layers
            for path, checksum in self._truth.changes(partition, layer).items()
        }

    def _is_kept(self, partition: str, stash: Stash) -> bool:
        named = self._is_named(partition, stash)
        over = stash.state is StashState.POPPED or stash.id in self.dropped
        return stash.state in _KEPT or (named and not over)

    def _is_named(self, partition: str, stash: Stash) -> bool:
        records = self._truth.branches(partition)
        return any(stash.id in record.stashes for record in records if isinstance(record, Branch))


def _names(stash: Stash) -> list[str]:
    return [layer_name(layer) for layer in stash.layers]
