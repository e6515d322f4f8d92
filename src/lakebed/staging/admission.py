"""Whether a branch takes another write, or its writers are to wait until what is sealed has shrunk. Pure.

Back-pressure, never loss: who is refused has written nothing, and a commit, a seal, a pop and an install, which make
room or are about to, are never asked. Everything comes from the branch record that a writer has at hand.

A branch that compaction has given up on (`Branch.parked`) does not shrink while its writers wait, so they may go on for
longer.
"""

from lakebed.errors import ErrorKind, UnavailableError
from lakebed.limits import MIB, SEALED_BYTES_SLOWDOWN, SEALED_LAYERS_SLOWDOWN, SEALED_PARKED_FACTOR
from lakebed.model.branch import Branch
from lakebed.model.layers import SegmentLayer


def require_admission(branch: Branch) -> None:
    """Raise `UnavailableError` (`TOO_MANY_LAYERS`) if writers are to wait."""
    layers = len(branch.sealed)
    size = sum(layer.bytes for layer in branch.sealed if isinstance(layer, SegmentLayer))
    factor = SEALED_PARKED_FACTOR if branch.parked else 1
    if layers >= SEALED_LAYERS_SLOWDOWN * factor or size >= SEALED_BYTES_SLOWDOWN * factor:
        raise UnavailableError(
            ErrorKind.TOO_MANY_LAYERS,
            f"branch {branch.name} has {layers} layers of uncommitted changes, {size // MIB} MiB: commit, reset or wait",
        )
