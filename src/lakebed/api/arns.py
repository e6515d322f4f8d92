"""Templates of the ARNs that operations name in the table."""

from typing import Final

from lakebed.api.operation import Permission
from lakebed.auth.actions import Action

REPOSITORY: Final = "arn:lakefs:fs:::repository/{repository}"
BRANCH: Final = "arn:lakefs:fs:::repository/{repository}/branch/{branch}"
TAG: Final = "arn:lakefs:fs:::repository/{repository}/tag/{tag}"
OBJECT: Final = "arn:lakefs:fs:::repository/{repository}/object/{path}"
USER: Final = "arn:lakefs:auth:::user/{userId}"
GROUP: Final = "arn:lakefs:auth:::group/{groupId}"
POLICY: Final = "arn:lakefs:auth:::policy/{policyId}"
EVERYTHING: Final = "*"


def on_repository(*actions: Action) -> tuple[Permission, ...]:
    """Return permissions on the repository of the path."""
    return tuple(Permission(action=action, resource=REPOSITORY) for action in actions)


def on_branch(*actions: Action) -> tuple[Permission, ...]:
    """Return permissions on the branch of the path."""
    return tuple(Permission(action=action, resource=BRANCH) for action in actions)


def on_object(*actions: Action) -> tuple[Permission, ...]:
    """Return permissions on the object that the query names."""
    return tuple(Permission(action=action, resource=OBJECT) for action in actions)


def on(resource: str, *actions: Action) -> tuple[Permission, ...]:
    """Return permissions on whatever the template `resource` names."""
    return tuple(Permission(action=action, resource=resource) for action in actions)
