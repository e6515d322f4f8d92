"""The groups and policies that every installation begins with, and what an ACL stands for.

Names and actions are those that lakeFS documents, so that its users find their way.
Two things differ: pull requests have policies of their own here, attached to all four
groups, and an ACL on some repositories also covers what is in them.
"""

from collections.abc import Mapping
from typing import Final

from lakebed.auth.actions import Action
from lakebed.auth.arns import EVERYTHING, OWN_USER_ARN, repository_arn
from lakebed.errors import ErrorKind, InvalidInputError
from lakebed.model.auth import ALL_REPOSITORIES, Acl, AclPermission, Effect, Statement
from lakebed.model.ids import parse_repo_name

_READ: Final = ("fs:List*", "fs:Read*")
_READ_WRITE: Final = (
    *_READ,
    Action.WRITE_OBJECT.value,
    Action.DELETE_OBJECT.value,
    Action.REVERT_BRANCH.value,
    Action.CREATE_BRANCH.value,
    Action.CREATE_TAG.value,
    Action.DELETE_BRANCH.value,
    Action.DELETE_TAG.value,
    Action.CREATE_COMMIT.value,
    Action.CREATE_META_RANGE.value,
)
_FULL: Final = ("fs:*",)
_MANAGE: Final = ("ci:*", "retention:*", "branches:*", "compaction:*", Action.READ_CONFIG.value)
_MANAGE_READ: Final = (
    "ci:Read*",
    "retention:Get*",
    "branches:Get*",
    "compaction:Read*",
    Action.READ_CONFIG.value,
)
_PULLS: Final = ("pr:*",)
_PULLS_READ: Final = ("pr:Read*", "pr:List*")
_OWN_CREDENTIALS: Final = (
    Action.CREATE_CREDENTIALS.value,
    Action.DELETE_CREDENTIALS.value,
    Action.LIST_CREDENTIALS.value,
    Action.READ_CREDENTIALS.value,
)


def _allow(actions: tuple[str, ...], resource: str = EVERYTHING) -> tuple[Statement, ...]:
    return (Statement(effect=Effect.ALLOW, actions=actions, resource=resource),)


USUAL_POLICIES: Final[Mapping[str, tuple[Statement, ...]]] = {
    "FSFullAccess": _allow(_FULL),
    "FSReadWriteAll": _allow(_READ_WRITE),
    "FSReadAll": _allow(_READ),
    "RepoManagementFullAccess": _allow(_MANAGE),
    "RepoManagementReadAll": _allow(_MANAGE_READ),
    "PRReadWriteAll": _allow(_PULLS),
    "PRReadAll": _allow(_PULLS_READ),
    "AuthFullAccess": _allow(("auth:*",)),
    "AuthManageOwnCredentials": _allow(_OWN_CREDENTIALS, OWN_USER_ARN),
}

ADMINS: Final = "Admins"

USUAL_GROUPS: Final[Mapping[str, tuple[str, ...]]] = {
    ADMINS: ("AuthFullAccess", "FSFullAccess", "PRReadWriteAll", "RepoManagementFullAccess"),
    "SuperUsers": ("AuthManageOwnCredentials", "FSFullAccess", "PRReadWriteAll", "RepoManagementReadAll"),
    "Developers": ("AuthManageOwnCredentials", "FSReadWriteAll", "PRReadWriteAll", "RepoManagementReadAll"),
    "Viewers": ("AuthManageOwnCredentials", "FSReadAll", "PRReadAll"),
}

USUAL_ACLS: Final[Mapping[frozenset[str], AclPermission]] = {
    frozenset(USUAL_GROUPS[ADMINS]): AclPermission.ADMIN,
    frozenset(USUAL_GROUPS["SuperUsers"]): AclPermission.SUPER,
    frozenset(USUAL_GROUPS["Developers"]): AclPermission.WRITE,
    frozenset(USUAL_GROUPS["Viewers"]): AclPermission.READ,
}
"""The ACL that a group with exactly these of the usual policies has in effect."""

_ACL_ACTIONS: Final[Mapping[AclPermission, tuple[str, ...]]] = {
    AclPermission.READ: (*_READ, *_PULLS_READ),
    AclPermission.WRITE: (*_READ_WRITE, *_PULLS, *_MANAGE_READ),
    AclPermission.SUPER: (*_FULL, *_PULLS, *_MANAGE_READ),
    AclPermission.ADMIN: (*_FULL, "auth:*", *_MANAGE, *_PULLS),
}


def acl_statements(acl: Acl) -> tuple[Statement, ...]:
    """Return what the members of a group with that ACL may do.

    Raises:
        InvalidInputError: `INVALID_ACL`: no repositories, or Admin of some only.
    """
    actions = _ACL_ACTIONS[acl.permission]
    if acl.repositories == ALL_REPOSITORIES:
        data = _allow(actions)
    elif acl.permission is AclPermission.ADMIN:
        raise InvalidInputError(
            ErrorKind.INVALID_ACL,
            "repositories: Admin is for all repositories: leave them out, or choose Super",
        )
    elif not acl.repositories:
        raise InvalidInputError(ErrorKind.INVALID_ACL, "repositories: name some, or leave them out for all")
    else:
        data = tuple(
            statement
            for name in map(parse_repo_name, acl.repositories)
            for arn in (repository_arn(name), f"{repository_arn(name)}/*")
            for statement in _allow(actions, arn)
        )
    if acl.permission is AclPermission.ADMIN:
        return data
    # Every client asks for the configuration first, and it belongs to no repository.
    return (*data, *_allow((Action.READ_CONFIG.value,)), *_allow(_OWN_CREDENTIALS, OWN_USER_ARN))
