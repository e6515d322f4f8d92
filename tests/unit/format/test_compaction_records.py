"""Golden bytes in tests/golden/compaction hold version 1 of job documents for ever, one file a value."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.env.clock import Instant
from lakebed.errors import CorruptError, ErrorKind
from lakebed.format.compaction_records import decode_lease, decode_schedule, encode_lease, encode_schedule
from lakebed.model.compaction import Held, Job, JobKind, JobState, Lease, Schedule, Source, Spec
from lakebed.model.ids import BranchName, CommitId, MetarangeId, Nonce

GOLDEN = Path(__file__).parents[2] / "golden" / "compaction"

SCHEDULE: Any = (encode_schedule, decode_schedule)
LEASE: Any = (encode_lease, decode_lease)

SPEC = Spec(
    branch=BranchName("main"),
    incarnation=Nonce("i"),
    kind=JobKind.L2,
    sources=(Source(4, "00000001-n/i"), Source(2, "lake-main:t")),
    commit_id=CommitId("1" * 64),
    compacted=MetarangeId("aa-bb"),
    reason="1000000 tombstones",
)
FOLD = Spec(
    branch=BranchName("dev"),
    incarnation=Nonce("j"),
    kind=JobKind.FOLD,
    sources=(Source(7, "lake-dev:u"),),
    commit_id=CommitId("2" * 64),
    compacted=None,
    reason="",
)
VALUES: dict[str, tuple[Any, Any]] = {
    "schedule-empty": (SCHEDULE, Schedule()),
    "schedule-full": (
        SCHEDULE,
        Schedule(
            version=9,
            epoch=1,
            last_token=(1 << 40) + 5,
            now=Instant(1_700_000_000_000_000),
            jobs=(
                Job(
                    spec=SPEC,
                    number=3,
                    added_at=Instant(5),
                    state=JobState.RUNNING,
                    failures=1,
                    silences=2,
                    token=(1 << 40) + 5,
                    worker="w1",
                    lease_expires_at=Instant(1_700_000_015_000_000),
                ),
                Job(spec=FOLD, number=4, added_at=Instant(6), state=JobState.PARKED, error="é"),
            ),
            held=(Held(incarnation=Nonce("k"), source=Source(1, "x/y"), until=Instant(7)),),
            next_number=5,
            paused=True,
            update="p1",
            flushed_bytes=1 << 50,
            written_bytes=9,
        ),
    ),
    "schedule-halved": (
        SCHEDULE,
        Schedule(
            jobs=(
                Job(
                    spec=FOLD,
                    number=4,
                    added_at=Instant(6),
                    failures=3,
                    suspects=(Source(9, "y"), Source(8, "x")),
                ),
            ),
        ),
    ),
    "lease": (LEASE, Lease(job=SPEC.id, token=1 << 41, worker="w1", renewed_at=Instant(8))),
}


@pytest.mark.parametrize("name", VALUES)
def test_version_1_bytes_never_change(name):
    (encode, decode), value = VALUES[name]
    golden = bytes.fromhex((GOLDEN / f"{name}.v1.hex").read_text())

    assert encode(value) == golden
    assert decode(golden) == value


def test_every_golden_file_is_tested():
    assert {path.name for path in GOLDEN.iterdir()} == {f"{name}.v1.hex" for name in VALUES}


@pytest.mark.parametrize("name", VALUES)
def test_a_newer_version_is_refused_with_the_remedy(name):
    (encode, decode), value = VALUES[name]

    with pytest.raises(CorruptError, match="upgrade lakebed") as caught:
        decode(b"\x02" + encode(value)[1:])
    assert caught.value.kind is ErrorKind.NEWER_VERSION


@pytest.mark.parametrize("name", VALUES)
def test_a_field_added_later_is_skipped(name):
    (encode, decode), value = VALUES[name]
    fields = msgspec.msgpack.decode(encode(value)[1:])

    assert decode(b"\x01" + msgspec.msgpack.encode([*fields, {"added": ["later"]}])) == value


def test_a_schedule_from_before_bytes_were_counted_has_none():
    (encode, decode), value = VALUES["schedule-full"]
    fields = msgspec.msgpack.decode(encode(value)[1:])

    assert decode(b"\x01" + msgspec.msgpack.encode(fields[:-2])) == replace(
        value, flushed_bytes=0, written_bytes=0
    )


@given(st.sampled_from(sorted(VALUES)), st.data())
def test_a_damaged_document_decodes_or_is_corrupt(name, data):
    (encode, decode), value = VALUES[name]
    damaged = bytearray(encode(value))
    damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    try:
        decode(bytes(damaged))
    except CorruptError:
        return


def test_the_name_of_a_job_never_changes():
    assert (SPEC.id, FOLD.id) == ("888189c76fc429ff4d6b", "f67df319c8a8e024a099")
