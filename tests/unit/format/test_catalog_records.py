"""Golden bytes in tests/golden/catalog hold version 1 of links, retention rules, segment calls and tasks for ever, one file a value."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from lakebed.env.clock import Instant
from lakebed.errors import CorruptError, ErrorKind
from lakebed.format.gc_rules import decode_gc_rules, encode_gc_rules
from lakebed.format.links import decode_link, encode_link
from lakebed.format.segment_calls import decode_segment_call, encode_segment_call
from lakebed.format.shared_settings import decode_shared, encode_shared
from lakebed.format.tasks import decode_task, encode_task
from lakebed.model.gc_rules import GcRules
from lakebed.model.ids import Nonce
from lakebed.model.links import LinkToken
from lakebed.model.segment_calls import SegmentCall
from lakebed.model.tasks import Task, TaskState

GOLDEN = Path(__file__).parents[2] / "golden" / "catalog"

SHARED: Any = (encode_shared, decode_shared)
GC_RULES: Any = (encode_gc_rules, decode_gc_rules)
LINK: Any = (encode_link, decode_link)
SEGMENT_CALL: Any = (encode_segment_call, decode_segment_call)
TASK: Any = (encode_task, decode_task)

VALUES: dict[str, tuple[Any, Any]] = {
    "gc-rules": (GC_RULES, GcRules(default_days=7, branches={"dev": 0, "main": 30})),
    "gc-rules-unset": (GC_RULES, None),
    "link-open": (LINK, LinkToken(branch="main", path="a/é", expires_at=Instant(1 << 50))),
    "link-used": (
        LINK,
        LinkToken(branch="main", path="a/é", expires_at=Instant(1 << 50), checksum="abc", used_at=Instant(5)),
    ),
    "link-upload": (
        LINK,
        LinkToken(branch="main", path="a/é", expires_at=Instant(1 << 50), upload="upload-1"),
    ),
    "shared-settings": (SHARED, {"compactor.lease_seconds": 15.0, "grace_seconds": 900.5}),
    "link-claimed": (
        LINK,
        LinkToken(
            branch="main",
            path="a/é",
            expires_at=Instant(1 << 50),
            checksum="abc",
            used_at=Instant(5),
            upload="upload-1",
            claimed_by="n1",
        ),
    ),
    "segment-call-noted": (SEGMENT_CALL, SegmentCall(owner=Nonce("n1"), noted_at=Instant(1 << 50))),
    "segment-call-marked": (
        SEGMENT_CALL,
        SegmentCall(
            owner=Nonce("n1"), noted_at=Instant(1 << 50), segment="0000001-n1", entries=3, tombstones=1
        ),
    ),
    "task-running": (
        TASK,
        Task(
            id=Nonce("t1"),
            kind="import",
            state=TaskState.RUNNING,
            started_at=Instant(5),
            updated_at=Instant(6),
            progress=7,
        ),
    ),
    "task-of-a-branch": (
        TASK,
        Task(
            id=Nonce("t1"),
            kind="import",
            state=TaskState.DONE,
            started_at=Instant(5),
            updated_at=Instant(6),
            branch="main",
        ),
    ),
    "task-failed": (
        TASK,
        Task(
            id=Nonce("t1"),
            kind="dump",
            state=TaskState.FAILED,
            started_at=Instant(5),
            updated_at=Instant(1 << 50),
            result={"commits": "é"},
            error="no changes",
            error_kind="no-changes",
            cancel=True,
        ),
    ),
}


@pytest.mark.parametrize("name", VALUES)
def test_version_1_bytes_never_change(name: str) -> None:
    (encode, decode), value = VALUES[name]
    golden = bytes.fromhex((GOLDEN / f"{name}.v1.hex").read_text())
    assert encode(value) == golden
    assert decode(golden) == value


def test_every_golden_file_is_tested() -> None:
    assert {path.name for path in GOLDEN.glob("*.hex")} == {f"{name}.v1.hex" for name in VALUES}


def test_the_order_in_which_rules_are_given_does_not_show() -> None:
    one, other = {"main": 30, "dev": 0}, {"dev": 0, "main": 30}
    assert encode_gc_rules(GcRules(default_days=7, branches=one)) == encode_gc_rules(
        GcRules(default_days=7, branches=other)
    )


@pytest.mark.parametrize("name", VALUES)
def test_a_newer_version_is_refused_with_the_remedy(name: str) -> None:
    (encode, decode), value = VALUES[name]
    with pytest.raises(CorruptError, match="upgrade lakebed") as caught:
        decode(b"\x02" + encode(value)[1:])
    assert caught.value.kind is ErrorKind.NEWER_VERSION


@pytest.mark.parametrize("name", VALUES)
def test_a_record_cut_short_anywhere_is_corrupt(name: str) -> None:
    (encode, decode), value = VALUES[name]
    data = encode(value)
    for end in range(len(data)):
        with pytest.raises(CorruptError):
            decode(data[:end])


# Some leave their last field out; a field added later comes behind that.
WITHOUT_LAST = {"link-open", "link-used", "link-upload", "task-running", "task-failed"}


@pytest.mark.parametrize("name", sorted(VALUES.keys() - WITHOUT_LAST))
def test_a_field_added_later_is_skipped(name: str) -> None:
    (encode, decode), value = VALUES[name]
    fields = msgspec.msgpack.decode(encode(value)[1:])
    more = b"\x01" + msgspec.msgpack.encode([*fields, {"added": ["later"]}])
    assert decode(more) == value
