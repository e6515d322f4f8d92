"""Identities of users in other systems: known to clients, not supported."""

import msgspec

from lakebed.api.arns import EVERYTHING, USER, on
from lakebed.api.call import Call
from lakebed.api.operation import Operations
from lakebed.api.pages import PageOf, PageQuery
from lakebed.auth.actions import Action
from lakebed.http.reply import Reply

operations = Operations("auth")


class PrincipalQuery(msgspec.Struct, rename={"principal_id": "principalId"}):
    """Which identity."""

    principal_id: str


class PrincipalCreation(msgspec.Struct):
    """What is known of an identity."""

    settings: list[dict[str, str]] = []


class ExternalPrincipal(msgspec.Struct):
    """A user's identity in another system."""

    id: str
    user_id: str


@operations.add(
    "POST",
    "/auth/users/{userId}/external/principals",
    "createUserExternalPrincipal",
    query=PrincipalQuery,
    body=PrincipalCreation,
    body_required=False,
    replies={201: None},
    permissions=on(USER, Action.CREATE_USER_EXTERNAL_PRINCIPAL),
)
async def create_principal(call: Call) -> Reply:
    """Give a user an identity in another system: not supported."""
    call.session.planned.create_principal(call.path["userId"])


@operations.add(
    "DELETE",
    "/auth/users/{userId}/external/principals",
    "deleteUserExternalPrincipal",
    query=PrincipalQuery,
    replies={204: None},
    permissions=on(USER, Action.DELETE_USER_EXTERNAL_PRINCIPAL),
)
async def delete_principal(call: Call) -> Reply:
    """Take an identity in another system from a user: not supported."""
    call.session.planned.delete_principal(call.path["userId"])


@operations.add(
    "GET",
    "/auth/users/{userId}/external/principals/ls",
    "listUserExternalPrincipals",
    query=PageQuery,
    replies={200: PageOf[ExternalPrincipal]},
    permissions=on(USER, Action.READ_EXTERNAL_PRINCIPAL),
)
async def list_principals(call: Call) -> Reply:
    """List a user's identities in other systems: not supported."""
    call.session.planned.list_principals(call.path["userId"])


@operations.add(
    "GET",
    "/auth/external/principals",
    "getExternalPrincipal",
    query=PrincipalQuery,
    replies={200: ExternalPrincipal},
    permissions=on(EVERYTHING, Action.READ_EXTERNAL_PRINCIPAL),
)
async def get_principal(call: Call) -> Reply:
    """Find the user of an identity in another system: not supported."""
    call.session.planned.read_principal()
