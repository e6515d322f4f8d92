"""`Caller`: on whose behalf something is done.

Use cases take one and ask it, so no edge can forget to.
"""

from dataclasses import dataclass, field
from typing import Final

from lakebed.auth.arns import EVERYTHING
from lakebed.auth.decisions import Permissions
from lakebed.env.clock import Instant
from lakebed.errors import DeniedError, ErrorKind, InvalidInputError
from lakebed.limits import RESOURCE_CHARACTERS_MAX
from lakebed.model.auth import Effect, Incarnation, Policy, PolicyId, Statement

# Clients compare these texts: the first sends a person to the login page, the second does not.
UNAUTHENTICATED_TEXT: Final = "error authenticating request"
DENIED_TEXT: Final = "insufficient permissions"


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """A user who has been recognised, with the policies that counted at that moment."""

    id: str
    permissions: Permissions = field(repr=False, compare=False)
    friendly_name: str = ""
    email: str = ""

    @property
    def committer(self) -> str:
        """The name under which this caller's commits are recorded."""
        return self.email or self.id

    def may(self, action: str, resource: str) -> bool:
        """Return whether the caller may do `action` to `resource` (an ARN, or `*` for none in particular)."""
        return self.permissions.may(action, resource)

    def require(self, action: str, resource: str) -> None:
        """Raise `DeniedError` (`PERMISSION_DENIED`) unless the caller may do `action` to `resource`."""
        if not self.permissions.may(action, resource):
            raise DeniedError(ErrorKind.PERMISSION_DENIED, DENIED_TEXT)

    def require_not_denied(self, action: str, resource: str) -> None:
        """Raise `DeniedError` if a policy denies `action` to `resource`.

        For operations that a permission on the branch allows: they need no other, but a denial counts.
        """
        if self.permissions.denies(action, resource):
            raise DeniedError(ErrorKind.PERMISSION_DENIED, DENIED_TEXT)

    def require_none_denied(self, action: str, prefix: str) -> None:
        """As `require_not_denied`, for everything whose ARN begins with `prefix`; errors as for `require_all`."""
        _require_short(prefix)
        if self.permissions.denies_any(action, prefix):
            raise DeniedError(ErrorKind.PERMISSION_DENIED, DENIED_TEXT)

    def require_all(self, action: str, prefix: str) -> None:
        """Raise `DeniedError` unless the caller may do `action` to everything whose ARN begins with `prefix`.

        Raises:
            InvalidInputError: `TOO_LARGE`: nothing has so long a name.
        """
        _require_short(prefix)
        if not self.permissions.may_all(action, prefix):
            raise DeniedError(ErrorKind.PERMISSION_DENIED, DENIED_TEXT)


def _require_short(prefix: str) -> None:
    """Refuse what no path or address can begin with. Wildcards take a step in Python for each character of a prefix."""
    if len(prefix) > RESOURCE_CHARACTERS_MAX:
        raise InvalidInputError(
            ErrorKind.TOO_LARGE, f"a prefix of {len(prefix)} characters is longer than any path or address"
        )


def unauthenticated() -> DeniedError:
    """Return the one error for a credential that is wrong, unknown, revoked, expired or missing."""
    return DeniedError(ErrorKind.UNAUTHENTICATED, UNAUTHENTICATED_TEXT)


SYSTEM: Final = Caller(
    id="system",
    permissions=Permissions(
        [
            Policy(
                id=PolicyId("system"),
                incarnation=Incarnation("system"),
                created_at=Instant(0),
                statements=(Statement(effect=Effect.ALLOW, actions=("*",), resource=EVERYTHING),),
            )
        ],
        user="system",
    ),
)
"""The installation itself, which may do everything. No credential leads here."""
