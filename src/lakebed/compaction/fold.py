"""The work of a fold: change blocks of adjacent layers become one segment. Pure.

Tombstones stay: what they hide may lie in older layers or in the tree, which a fold does not see.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from lakebed.format.merge import newest_wins
from lakebed.format.segments import decode_footer, encode_segment
from lakebed.model.compaction import FoldOutput, Spec
from lakebed.model.segments import SegmentName


@dataclass(frozen=True, slots=True, kw_only=True)
class Folded:
    """What to store under `output.layer.id` before it is installed; nothing if the layers held nothing."""

    output: FoldOutput
    data: bytes = b""


def fold(runs: Sequence[pa.Table], spec: Spec, *, level: int, era: int, token: int) -> Folded:
    """Merge the change blocks of a spec's sources, newest first; `level` is the highest among them."""
    assert len(runs) == len(spec.sources), "a block for each source"
    block = newest_wins(runs)
    if block.num_rows == 0:
        return Folded(output=FoldOutput(layer=None))
    data = encode_segment({spec.incarnation: block}, level=level + 1)
    dataset = decode_footer(data, size=len(data)).datasets[spec.incarnation]
    name = str(SegmentName(era, spec.incarnation, token))
    return Folded(output=FoldOutput(layer=dataset.layer(name, seq=spec.sources[0].seq)), data=data)
