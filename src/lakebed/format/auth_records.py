"""Users, groups, policies and access keys as KV values.

    version (1) | msgpack array of the record's fields, a tag first where there are two kinds

The order of fields is on disk in every installation; see `codec` for what may change.
"""

from typing import Final

from lakebed.env.clock import Instant
from lakebed.format.codec import Codec, Stored
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


class _Gone(Stored, tag=2):
    pass


class _Link(Stored):
    id: str
    incarnation: Incarnation


class _User(Stored, tag=1):
    id: UserId
    incarnation: Incarnation
    created_at: Instant
    friendly_name: str
    email: str
    source: str
    external_id: str
    groups: tuple[_Link, ...]
    policies: tuple[_Link, ...]
    keys: tuple[AccessKeyId, ...]


class _Group(Stored, tag=1):
    id: GroupId
    incarnation: Incarnation
    created_at: Instant
    description: str
    policies: tuple[_Link, ...]


class _Statement(Stored):
    effect: Effect
    actions: tuple[str, ...]
    resource: str


class _Acl(Stored):
    permission: AclPermission
    repositories: tuple[str, ...]


class _Policy(Stored, tag=1):
    id: PolicyId
    incarnation: Incarnation
    created_at: Instant
    statements: tuple[_Statement, ...]
    acl: _Acl | None


class _AccessKey(Stored, tag=1):
    id: AccessKeyId
    user: UserId
    incarnation: Incarnation
    created_at: Instant
    sealed_secret: bytes


class _Installation(Stored):
    id: str
    set_up_at: Instant
    key_check: bytes


class _Generation(Stored):
    count: int
    recent: tuple[str, ...]


class _EndedSession(Stored):
    id: str
    issued_at: Instant
    expires_at: Instant


class _EndedSessions(Stored):
    incarnation: Incarnation
    sessions: tuple[_EndedSession, ...]
    issued_before: Instant


_USER: Final = Codec[_User | _Gone]("user", 1, _User | _Gone)
_GROUP: Final = Codec[_Group | _Gone]("group", 1, _Group | _Gone)
_POLICY: Final = Codec[_Policy | _Gone]("policy", 1, _Policy | _Gone)
_ACCESS_KEY: Final = Codec[_AccessKey | _Gone]("access key", 1, _AccessKey | _Gone)
_INSTALLATION: Final = Codec[_Installation]("installation", 1, _Installation)
_GENERATION: Final = Codec[_Generation]("generation", 1, _Generation)
_ENDED_SESSIONS: Final = Codec[_EndedSessions]("ended sessions", 1, _EndedSessions)


def encode_user(user: User | Gone) -> bytes:
    """Return a user as its KV value."""
    if isinstance(user, Gone):
        return _USER.seal(_Gone())
    return _USER.seal(
        _User(
            user.id,
            user.incarnation,
            user.created_at,
            user.friendly_name,
            user.email,
            user.source,
            user.external_id,
            _store_links(user.groups),
            _store_links(user.policies),
            user.keys,
        )
    )


def decode_user(data: bytes) -> User | Gone:
    """Return what `encode_user` was given, or raise `CorruptError`."""
    s = _USER.open(data)
    if isinstance(s, _Gone):
        return Gone()
    return User(
        id=s.id,
        incarnation=s.incarnation,
        created_at=s.created_at,
        friendly_name=s.friendly_name,
        email=s.email,
        source=s.source,
        external_id=s.external_id,
        groups=_load_links(s.groups),
        policies=_load_links(s.policies),
        keys=s.keys,
    )


def encode_group(group: Group | Gone) -> bytes:
    """Return a group as its KV value."""
    if isinstance(group, Gone):
        return _GROUP.seal(_Gone())
    return _GROUP.seal(
        _Group(group.id, group.incarnation, group.created_at, group.description, _store_links(group.policies))
    )


def decode_group(data: bytes) -> Group | Gone:
    """Return what `encode_group` was given, or raise `CorruptError`."""
    s = _GROUP.open(data)
    if isinstance(s, _Gone):
        return Gone()
    return Group(
        id=s.id,
        incarnation=s.incarnation,
        created_at=s.created_at,
        description=s.description,
        policies=_load_links(s.policies),
    )


def encode_policy(policy: Policy | Gone) -> bytes:
    """Return a policy as its KV value."""
    if isinstance(policy, Gone):
        return _POLICY.seal(_Gone())
    return _POLICY.seal(
        _Policy(
            policy.id,
            policy.incarnation,
            policy.created_at,
            tuple(_Statement(s.effect, s.actions, s.resource) for s in policy.statements),
            _Acl(policy.acl.permission, policy.acl.repositories) if policy.acl is not None else None,
        )
    )


def decode_policy(data: bytes) -> Policy | Gone:
    """Return what `encode_policy` was given, or raise `CorruptError`."""
    s = _POLICY.open(data)
    if isinstance(s, _Gone):
        return Gone()
    return Policy(
        id=s.id,
        incarnation=s.incarnation,
        created_at=s.created_at,
        statements=tuple(
            Statement(effect=each.effect, actions=each.actions, resource=each.resource)
            for each in s.statements
        ),
        acl=Acl(permission=s.acl.permission, repositories=s.acl.repositories) if s.acl is not None else None,
    )


def encode_access_key(key: AccessKey | Gone) -> bytes:
    """Return an access key as its KV value."""
    if isinstance(key, Gone):
        return _ACCESS_KEY.seal(_Gone())
    return _ACCESS_KEY.seal(_AccessKey(key.id, key.user, key.incarnation, key.created_at, key.sealed_secret))


def decode_access_key(data: bytes) -> AccessKey | Gone:
    """Return what `encode_access_key` was given, or raise `CorruptError`."""
    s = _ACCESS_KEY.open(data)
    if isinstance(s, _Gone):
        return Gone()
    return AccessKey(
        id=s.id,
        user=s.user,
        incarnation=s.incarnation,
        created_at=s.created_at,
        sealed_secret=s.sealed_secret,
    )


def encode_installation(installation: Installation) -> bytes:
    """Return the installation as its KV value."""
    return _INSTALLATION.seal(_Installation(installation.id, installation.set_up_at, installation.key_check))


def decode_installation(data: bytes) -> Installation:
    """Return what `encode_installation` was given, or raise `CorruptError`."""
    s = _INSTALLATION.open(data)
    return Installation(id=s.id, set_up_at=s.set_up_at, key_check=s.key_check)


def encode_generation(generation: Generation) -> bytes:
    """Return the generation as its KV value."""
    return _GENERATION.seal(_Generation(generation.count, generation.recent))


def decode_generation(data: bytes) -> Generation:
    """Return what `encode_generation` was given, or raise `CorruptError`."""
    s = _GENERATION.open(data)
    return Generation(count=s.count, recent=s.recent)


def encode_ended_sessions(ended: EndedSessions) -> bytes:
    """Return a user's ended sessions as their KV value."""
    sessions = tuple(_EndedSession(each.id, each.issued_at, each.expires_at) for each in ended.sessions)
    return _ENDED_SESSIONS.seal(_EndedSessions(ended.incarnation, sessions, ended.issued_before))


def decode_ended_sessions(data: bytes) -> EndedSessions:
    """Return what `encode_ended_sessions` was given, or raise `CorruptError`."""
    s = _ENDED_SESSIONS.open(data)
    return EndedSessions(
        incarnation=s.incarnation,
        sessions=tuple(
            EndedSession(id=each.id, issued_at=each.issued_at, expires_at=each.expires_at)
            for each in s.sessions
        ),
        issued_before=s.issued_before,
    )


def _store_links(links: tuple[Link, ...]) -> tuple[_Link, ...]:
    return tuple(_Link(link.id, link.incarnation) for link in links)


def _load_links(links: tuple[_Link, ...]) -> tuple[Link, ...]:
    return tuple(Link(link.id, link.incarnation) for link in links)
