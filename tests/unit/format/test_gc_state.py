"""Golden bytes in tests/golden/gc_state hold version 1 of the run record for ever."""

from dataclasses import replace
from pathlib import Path

import pytest

from lakebed.env.clock import Instant
from lakebed.errors import CorruptError, ErrorKind
from lakebed.format.gc_state import decode_gc_state, encode_gc_state
from lakebed.model.gc import GcState, Lease, Mark, MarkKind, Run, RunKind

GOLDEN = Path(__file__).parents[2] / "golden" / "gc_state"

VALUES = {
    "empty": GcState(),
    "full": GcState(
        lease=Lease(
            run="v0123456789abcdefghi",
            token=7,
            kind=RunKind.MARK,
            holder="a job",
            started_at=Instant(1_700_000_000_000_000),
            expires_at=Instant(1_700_000_060_000_000),
            grace_seconds=86400.0,
            attempt="v1123456789abcdefghi",
            prepared="v1123456789abcdefghi",
        ),
        last_token=7,
        last_started_at=Instant(1_700_000_000_000_000),
        marks=(
            Mark(
                run="v2123456789abcdefghi",
                condemner="v3123456789abcdefghi",
                kind=MarkKind.OPTIMIZED,
                started_at=Instant(1),
                marked_at=Instant(2),
                optimized_since_clean=3,
                counts={"marked": 4},
            ),
        ),
        settled_at=Instant(5),
        runs=(
            Run(
                id="v2123456789abcdefghi",
                kind=RunKind.SWEEP,
                holder="another",
                started_at=Instant(1),
                ended_at=Instant(9),
                outcome="done",
                counts={"deleted": 6},
            ),
            Run(id="v4", kind=RunKind.MARK, holder="", started_at=Instant(1)),
        ),
    ),
}


@pytest.mark.parametrize("name", VALUES)
def test_version_1_bytes_never_change(name: str) -> None:
    golden = bytes.fromhex((GOLDEN / f"{name}.v1.hex").read_text())
    assert encode_gc_state(VALUES[name]) == golden
    assert decode_gc_state(golden) == VALUES[name]


def test_runs_that_do_not_say_what_they_did_are_read_for_ever() -> None:
    golden = bytes.fromhex((GOLDEN / "older" / "full.v1.hex").read_text())
    full = VALUES["full"]
    assert decode_gc_state(golden) == replace(full, runs=tuple(replace(run, counts={}) for run in full.runs))


def test_every_golden_file_is_tested() -> None:
    assert {path.name for path in GOLDEN.glob("*.hex")} == {f"{name}.v1.hex" for name in VALUES}


def test_a_newer_version_is_refused_with_the_remedy() -> None:
    data = encode_gc_state(GcState())
    with pytest.raises(CorruptError, match="upgrade lakebed") as caught:
        decode_gc_state(b"\x02" + data[1:])
    assert caught.value.kind is ErrorKind.NEWER_VERSION


@pytest.mark.parametrize("cut", [0, 1, 5])
def test_a_damaged_record_is_corrupt(cut: int) -> None:
    with pytest.raises(CorruptError):
        decode_gc_state(encode_gc_state(VALUES["full"])[:cut])
