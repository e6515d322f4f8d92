"""Where each record lives in the `auth` partition.

generation   installation   users/<id>   groups/<id>   policies/<id>   keys/<access key id>
sessions/<user id>
"""

from typing import Final

from lakebed.model.auth import AccessKeyId, GroupId, PolicyId, UserId

AUTH_PARTITION: Final = "auth"

GENERATION_KEY: Final = b"generation"
INSTALLATION_KEY: Final = b"installation"

USERS_PREFIX: Final = b"users/"
GROUPS_PREFIX: Final = b"groups/"
POLICIES_PREFIX: Final = b"policies/"
_ACCESS_KEYS_PREFIX: Final = b"keys/"
_SESSIONS_PREFIX: Final = b"sessions/"


def user_key(user: UserId) -> bytes:
    """Return the key of a user's record."""
    return USERS_PREFIX + user.encode()


def group_key(group: GroupId) -> bytes:
    """Return the key of a group's record."""
    return GROUPS_PREFIX + group.encode()


def policy_key(policy: PolicyId) -> bytes:
    """Return the key of a policy's record."""
    return POLICIES_PREFIX + policy.encode()


def access_key_key(access_key: AccessKeyId) -> bytes:
    """Return the key of an access key's record."""
    return _ACCESS_KEYS_PREFIX + access_key.encode()


def sessions_key(user: UserId) -> bytes:
    """Return the key of the record of a user's ended sessions."""
    return _SESSIONS_PREFIX + user.encode()
