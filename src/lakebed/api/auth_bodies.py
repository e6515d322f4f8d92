"""Users, groups, policies and access keys on the wire."""

from collections.abc import Callable, Sequence
from typing import TypeVar

import msgspec

from lakebed.api.pages import PageOf, page_of
from lakebed.env.clock import SECOND
from lakebed.model.auth import AccessKey, Group, IssuedKey, Policy, User
from lakebed.refs.listing import Listing

B = TypeVar("B")
V = TypeVar("V")


class UserBody(msgspec.Struct):
    """A user."""

    id: str
    creation_date: int
    friendly_name: str = ""
    email: str = ""


class GroupBody(msgspec.Struct):
    """A group; `name` is its id once more."""

    id: str
    name: str
    description: str
    creation_date: int


class StatementBody(msgspec.Struct, omit_defaults=True):
    """What a policy allows or denies."""

    effect: str
    resource: str
    action: Sequence[str]
    condition: dict[str, dict[str, list[str]]] | None = None


class PolicyBody(msgspec.Struct, omit_defaults=True):
    """A policy."""

    id: str
    statement: Sequence[StatementBody]
    creation_date: int | None = None


class CredentialsBody(msgspec.Struct):
    """An access key, without its secret."""

    access_key_id: str
    creation_date: int


class CredentialsWithSecret(msgspec.Struct):
    """A new access key: its secret is shown this once."""

    access_key_id: str
    secret_access_key: str
    creation_date: int


def user_body(user: User) -> UserBody:
    """Return a user as clients see it."""
    return UserBody(user.id, user.created_at // SECOND, user.friendly_name, user.email)


def group_body(group: Group) -> GroupBody:
    """Return a group as clients see it."""
    return GroupBody(group.id, group.id, group.description, group.created_at // SECOND)


def policy_body(policy: Policy) -> PolicyBody:
    """Return a policy as clients see it."""
    statements = [StatementBody(each.effect.value, each.resource, each.actions) for each in policy.statements]
    return PolicyBody(policy.id, statements, policy.created_at // SECOND)


def credentials_body(key: AccessKey) -> CredentialsBody:
    """Return an access key as clients see it."""
    return CredentialsBody(key.id, key.created_at // SECOND)


def secret_body(key: IssuedKey) -> CredentialsWithSecret:
    """Return a new access key with its secret."""
    return CredentialsWithSecret(key.id, key.secret_access_key, key.created_at // SECOND)


def auth_page(found: Listing[V], body: Callable[[V], B], name: Callable[[V], str]) -> PageOf[B]:
    """Return a page; lists of this resource say 0 where others say how long a page can be."""
    last = name(found.results[-1]) if found.results else ""
    return page_of([body(each) for each in found.results], has_more=found.has_more, last=last, max_per_page=0)
