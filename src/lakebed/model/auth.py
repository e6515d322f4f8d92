"""Who may do what: users, groups, policies, access keys.

A link (a user's group, an attached policy, the owner of a key) names its target
together with the target's *incarnation*. A user, group or policy that is deleted
and created again has a new one, so a namesake never inherits what the old one had,
and deleting something is one write, however many links lead to it.
"""

import re
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NewType

from lakebed.env.clock import Instant
from lakebed.errors import ErrorKind, InvalidInputError, quoted
from lakebed.limits import AUTH_ID_LENGTH_MAX

UserId = NewType("UserId", str)
GroupId = NewType("GroupId", str)
PolicyId = NewType("PolicyId", str)
AccessKeyId = NewType("AccessKeyId", str)
Incarnation = NewType("Incarnation", str)
"""Random, one for each creation of a user, group or policy."""

# No '/', which ends an id in a KV key, an ARN and a URL; no ':', which ends a name in Basic authentication.
_ID = re.compile(rf"[\w+=.,@-]{{1,{AUTH_ID_LENGTH_MAX}}}", re.ASCII)


class Effect(StrEnum):
    """What a statement does to the requests it matches."""

    ALLOW = "allow"
    DENY = "deny"


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """Requests whose action and resource match are allowed or denied.

    `resource` is the text as the author wrote it: an ARN, `*`, or a list of those.
    """

    effect: Effect
    actions: tuple[str, ...]
    resource: str


class AclPermission(StrEnum):
    """What the members of a group may do to its repositories."""

    READ = "Read"
    WRITE = "Write"
    SUPER = "Super"
    ADMIN = "Admin"


ALL_REPOSITORIES = ("*",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Acl:
    """The simple way to say what a group may do; stored as a policy."""

    permission: AclPermission
    repositories: tuple[str, ...] = ALL_REPOSITORIES


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Statements under a name. `acl` is set if they were derived from one."""

    id: PolicyId
    incarnation: Incarnation
    created_at: Instant
    statements: tuple[Statement, ...]
    acl: Acl | None = None


@dataclass(frozen=True, slots=True)
class Link:
    """A group or policy, this creation of it and no later one."""

    id: str
    incarnation: Incarnation


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Users who share policies. The members are in the users' records."""

    id: GroupId
    incarnation: Incarnation
    created_at: Instant
    description: str = ""
    policies: tuple[Link, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    """Everything about a user but the secrets of the access keys."""

    id: UserId
    incarnation: Incarnation
    created_at: Instant
    friendly_name: str = ""
    email: str = ""
    source: str = "internal"
    external_id: str = ""
    groups: tuple[Link, ...] = ()
    policies: tuple[Link, ...] = ()
    keys: tuple[AccessKeyId, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessKey:
    """A key of one incarnation of a user, its secret encrypted."""

    id: AccessKeyId
    user: UserId
    incarnation: Incarnation
    created_at: Instant
    sealed_secret: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyPair:
    """An access key that somebody chose, with its secret in clear."""

    access_key_id: str
    secret_access_key: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class IssuedKey:
    """A new access key with its secret in clear: shown once, when it is made."""

    id: AccessKeyId
    user: UserId
    created_at: Instant
    secret_access_key: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Gone:
    """What stays of a deleted user, group, policy or key: a few bytes, because rows are only ever replaced."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """That this installation was set up, and a check of the key it was set up with."""

    id: str
    set_up_at: Instant
    key_check: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """How many changes there were, and the nonces of the last ones, newest first."""

    count: int = 0
    recent: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedSession:
    """A session that was ended before its token expired."""

    id: str
    issued_at: Instant
    expires_at: Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedSessions:
    """The sessions of one user that were ended, oldest first."""

    incarnation: Incarnation
    sessions: tuple[EndedSession, ...] = ()
    issued_before: Instant = Instant(0)
    """Sessions that were opened no later have ended too."""


def parse_user_id(text: str) -> UserId:
    """Return `text` as a user's id, or raise `InvalidInputError`."""
    return UserId(_parse(text, "user"))


def parse_group_id(text: str) -> GroupId:
    """Return `text` as a group's id, or raise `InvalidInputError`."""
    return GroupId(_parse(text, "group"))


def parse_policy_id(text: str) -> PolicyId:
    """Return `text` as a policy's id, or raise `InvalidInputError`."""
    return PolicyId(_parse(text, "policy"))


def acl_policy_id(group: GroupId) -> PolicyId:
    """Return the id of the policy that holds a group's ACL: one that `parse_policy_id` gives to nobody."""
    return PolicyId(f"ACL({group})")


def parse_existing_policy_id(text: str) -> PolicyId:
    """Return `text` as the id of a policy that may be there, an ACL's too, or raise `InvalidInputError`."""
    if text.startswith("ACL(") and text.endswith(")"):
        return acl_policy_id(parse_group_id(text[4:-1]))
    return parse_policy_id(text)


def parse_access_key_id(text: str) -> AccessKeyId:
    """Return `text` as an access key's id, or raise `InvalidInputError`. The text is not repeated in the message."""
    if not is_auth_id(text):
        raise InvalidInputError(ErrorKind.INVALID_AUTH_ID, f"access key id must be {_RULE}")
    return AccessKeyId(text)


def is_auth_id(text: str) -> bool:
    """Return whether `text` has the form of an id."""
    return _ID.fullmatch(text) is not None


_RULE = f"1 to {AUTH_ID_LENGTH_MAX} letters, digits and characters of _+=.,@-"


def _parse(text: str, noun: str) -> str:
    if not is_auth_id(text):
        raise InvalidInputError(ErrorKind.INVALID_AUTH_ID, f"{noun} id {quoted(text)} must be {_RULE}")
    return text
