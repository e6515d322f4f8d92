"""How long a change of HEAD may take, whatever others do: a few of its own durations for each that shares the branch.

What it takes alone is measured first, in the same world. Whoever is quick must not wait for the whole of what takes
long, and what takes long must come to an end among many that are quick.
"""

from lakebed.testing.simulation.history import Op, Outcome
from lakebed.testing.simulation.record_laws import LawBrokenError

# So many of its own durations, for each that changes HEAD at the same time.
FEW = 5.0


class Fairness:
    """Judges how long calls took, apart by how much there is to do."""

    def __init__(self, *, sharing: int) -> None:
        self._sharing = sharing
        self._alone: dict[str, float] = {}

    def alone(self, size: str, op: Op) -> None:
        """Take down how long it takes if nobody else is there."""
        assert op.outcome is Outcome.DONE, str(op)
        self._alone[size] = max(op.seconds, self._alone.get(size, 0.0))

    def check(self, size: str, op: Op, *, sharing: int | None = None) -> None:
        """Raise `LawBrokenError` if a call took too long, or came to nothing."""
        if op.outcome is not Outcome.DONE:
            raise LawBrokenError(f"{op}, a {size} one, was told that there are too many")
        alone, others = self._alone[size], sharing if sharing is not None else self._sharing
        if op.seconds > FEW * alone * others:
            raise LawBrokenError(
                f"{op}, a {size} one, waited too long: {op.seconds:.3f} s, alone it takes {alone:.3f} s"
            )
