"""`Ledger`: what the laws share: the truth, the calls, and the request that is being applied right now."""

from collections import Counter
from dataclasses import dataclass

from lakebed.model.ids import Nonce
from lakebed.testing.simulation.clock import SimClock
from lakebed.testing.simulation.history import History, Op, Outcome
from lakebed.testing.simulation.network import Network
from lakebed.testing.simulation.record_laws import LawBrokenError
from lakebed.testing.simulation.truth import Truth, View


@dataclass(slots=True)
class Ledger:
    """See the module's docstring."""

    truth: Truth
    history: History
    network: Network
    clock: SimClock
    met: Counter[str]

    @property
    def op(self) -> Op | None:
        """The call that the write being applied belongs to."""
        return self.network.delivering.op

    def meet(self, what: str) -> None:
        """Count something, apart by what becomes of the answer."""
        self.met[what] += 1
        self.met[f"{what}, {self.network.delivering.fate}"] += 1
        self.met[f"applied, {self.network.delivering.fate}"] += 1

    def effect(self, op: Op, word: str, detail: str | Nonce = "") -> None:
        """Take down what a call did: at most one thing, and not after it was answered."""
        if op.end is not None and op.outcome is not Outcome.UNKNOWN:
            raise LawBrokenError(f"{op}: {word} after the answer")
        op.effects.append((self.history.step, word, detail))
        if len(op.effects) > 1 and word != "undone":
            raise LawBrokenError(f"{op}: {word} a second time: {op.effects}")


def difference(expected: View, found: View) -> str:
    """Return the paths that differ: what is expected there and what is found."""
    differing = {
        path: (expected.get(path), found.get(path))
        for path in sorted({*expected, *found})
        if expected.get(path) != found.get(path)
    }
    return str(differing)
