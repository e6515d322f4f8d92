"""Golden bytes in tests/golden/auth hold version 1 of every record for ever, one file a value."""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.env.clock import Instant
from lakebed.errors import CorruptError, ErrorKind
from lakebed.format import auth_records
from lakebed.model.auth import (
    AccessKey,
    AccessKeyId,
    Acl,
    AclPermission,
    Effect,
    EndedSession,
    EndedSessions,
    Generation,
    Gone,
    Group,
    GroupId,
    Incarnation,
    Installation,
    Link,
    Policy,
    PolicyId,
    Statement,
    User,
    UserId,
)

GOLDEN = Path(__file__).parents[2] / "golden" / "auth"
LINK = Link("Admins", Incarnation("i1"))

VALUES: dict[str, tuple[str, Any]] = {
    "user-minimal": ("user", User(id=UserId("ann"), incarnation=Incarnation("i"), created_at=Instant(5))),
    "user-full": (
        "user",
        User(
            id=UserId("ann@example.com"),
            incarnation=Incarnation("i"),
            created_at=Instant(1 << 50),
            friendly_name="Ann é",
            email="ann@example.com",
            source="saml",
            external_id="x",
            groups=(LINK,),
            policies=(Link("P", Incarnation("i2")),),
            keys=(AccessKeyId("AKIA1"), AccessKeyId("AKIA2")),
        ),
    ),
    "user-gone": ("user", Gone()),
    "group": (
        "group",
        Group(
            id=GroupId("Admins"),
            incarnation=Incarnation("i1"),
            created_at=Instant(5),
            description="d",
            policies=(LINK,),
        ),
    ),
    "group-gone": ("group", Gone()),
    "policy": (
        "policy",
        Policy(
            id=PolicyId("P"),
            incarnation=Incarnation("i2"),
            created_at=Instant(5),
            statements=(
                Statement(effect=Effect.ALLOW, actions=("fs:*",), resource="*"),
                Statement(effect=Effect.DENY, actions=("auth:*", "ci:*"), resource="arn:lakefs:fs:::x"),
            ),
        ),
    ),
    "policy-acl": (
        "policy",
        Policy(
            id=PolicyId("ACL(g)"),
            incarnation=Incarnation("i2"),
            created_at=Instant(5),
            statements=(),
            acl=Acl(permission=AclPermission.WRITE, repositories=("lake",)),
        ),
    ),
    "policy-gone": ("policy", Gone()),
    "access-key": (
        "access_key",
        AccessKey(
            id=AccessKeyId("AKIA1"),
            user=UserId("ann"),
            incarnation=Incarnation("i"),
            created_at=Instant(5),
            sealed_secret=bytes(range(40)),
        ),
    ),
    "access-key-gone": ("access_key", Gone()),
    "installation": ("installation", Installation(id="id", set_up_at=Instant(5), key_check=b"\0" * 16)),
    "ended-sessions": (
        "ended_sessions",
        EndedSessions(
            incarnation=Incarnation("i"),
            sessions=(EndedSession(id="j1", issued_at=Instant(5), expires_at=Instant(1 << 50)),),
            issued_before=Instant(3),
        ),
    ),
    "ended-sessions-none": ("ended_sessions", EndedSessions(incarnation=Incarnation("i"))),
    "generation": ("generation", Generation(count=7, recent=("n7", "n6"))),
}


def codec(kind: str) -> tuple[Callable[[Any], bytes], Callable[[bytes], Any]]:
    return getattr(auth_records, f"encode_{kind}"), getattr(auth_records, f"decode_{kind}")


@pytest.mark.parametrize("name", VALUES)
def test_version_1_bytes_never_change(name: str) -> None:
    kind, value = VALUES[name]
    encode, decode = codec(kind)
    golden = bytes.fromhex((GOLDEN / f"{name}.v1.hex").read_text())
    assert encode(value) == golden
    assert decode(golden) == value


def test_every_codec_and_every_golden_file_is_tested() -> None:
    kinds = {
        name.removeprefix("encode_")
        for name, _ in inspect.getmembers(auth_records)
        if name.startswith("encode_")
    }
    assert kinds == {kind for kind, _ in VALUES.values()}
    assert {path.name for path in GOLDEN.glob("*.hex")} == {f"{name}.v1.hex" for name in VALUES}


@pytest.mark.parametrize("name", VALUES)
def test_a_newer_version_is_refused_with_the_remedy(name: str) -> None:
    encode, decode = codec(VALUES[name][0])
    with pytest.raises(CorruptError, match="upgrade lakebed") as caught:
        decode(b"\x02" + encode(VALUES[name][1])[1:])
    assert caught.value.kind is ErrorKind.NEWER_VERSION


@pytest.mark.parametrize("name", VALUES)
def test_a_record_cut_short_anywhere_is_corrupt(name: str) -> None:
    encode, decode = codec(VALUES[name][0])
    data = encode(VALUES[name][1])
    for end in range(len(data)):
        with pytest.raises(CorruptError):
            decode(data[:end])


@pytest.mark.parametrize("name", VALUES)
def test_a_field_added_later_is_skipped(name: str) -> None:
    encode, decode = codec(VALUES[name][0])
    fields = msgspec.msgpack.decode(encode(VALUES[name][1])[1:])
    more = b"\x01" + msgspec.msgpack.encode([*fields, {"added": ["later"]}])
    assert decode(more) == VALUES[name][1]


@given(st.sampled_from(sorted(VALUES)), st.data())
def test_a_damaged_record_decodes_or_is_corrupt(name: str, data: st.DataObject) -> None:
    encode, decode = codec(VALUES[name][0])
    damaged = bytearray(encode(VALUES[name][1]))
    damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    try:
        decode(bytes(damaged))
    except CorruptError:
        return
