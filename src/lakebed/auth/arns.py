"""ARNs: how policies name what an action is done to.

    arn:lakefs:<service>:<region>:<account>:<resource>

Only the resource may hold wildcards, and it may hold colons. The region is not
compared. `${user}` in a policy stands for the id of the user it is applied to. A bare
`*` is everything, also what has no ARN: operations on no particular resource ask for
`*`, and only a policy on `*` allows them.
"""

import re

from lakebed.auth.wildcards import may_begin, wildcard_regex

EVERYTHING = "*"
_USER_VARIABLE = "${user}"
_FS = "arn:lakefs:fs:::"
_AUTH = "arn:lakefs:auth:::"


def repository_arn(repository: str) -> str:
    """Return the ARN of a repository."""
    return f"{_FS}repository/{repository}"


def object_arn(repository: str, path: str) -> str:
    """Return the ARN of an object, on whatever branch."""
    return f"{_FS}repository/{repository}/object/{path}"


def branch_arn(repository: str, branch: str) -> str:
    """Return the ARN of a branch."""
    return f"{_FS}repository/{repository}/branch/{branch}"


def tag_arn(repository: str, tag: str) -> str:
    """Return the ARN of a tag."""
    return f"{_FS}repository/{repository}/tag/{tag}"


def namespace_arn(namespace: str) -> str:
    """Return the ARN of a storage namespace, or of a place to import from."""
    return f"{_FS}namespace/{namespace}"


def user_arn(user: str) -> str:
    """Return the ARN of a user."""
    return f"{_AUTH}user/{user}"


def group_arn(group: str) -> str:
    """Return the ARN of a group."""
    return f"{_AUTH}group/{group}"


def policy_arn(policy: str) -> str:
    """Return the ARN of a policy."""
    return f"{_AUTH}policy/{policy}"


OWN_USER_ARN = user_arn(_USER_VARIABLE)


def is_arn(text: str) -> bool:
    """Return whether `text` has the form of an ARN."""
    return _split(text) is not None


def arn_regex(pattern: str, *, user: str) -> str | None:
    """Return the source of a regular expression for the ARNs that a policy's ARN stands for, if it is one."""
    assert not set("*?") & set(user), (
        "the id of a user holds no wildcards, or it would match the resources of others"
    )
    parts = _split(pattern)
    if parts is None:
        return None
    service, account, resource = parts
    wanted = wildcard_regex(resource.replace(_USER_VARIABLE, user))
    return rf"arn:lakefs:{re.escape(service)}:[^:]*:{re.escape(account)}:(?=(?s:.)){wanted}"


def arn_may_begin(pattern: str, prefix: str, *, user: str) -> bool:
    """Return whether a policy's ARN may stand for one that begins with `prefix`."""
    parts, asked = _split(pattern), _split(prefix)
    if parts is None or asked is None:
        return False
    resource = parts[2].replace(_USER_VARIABLE, user)
    return parts[:2] == asked[:2] and may_begin(resource, asked[2])


def _split(text: str) -> tuple[str, str, str] | None:
    parts = text.split(":", 5)
    if len(parts) < 6 or parts[:2] != ["arn", "lakefs"]:
        return None
    _, _, service, _region, account, resource = parts
    return (service, account, resource) if service and resource else None
