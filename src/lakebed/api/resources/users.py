"""Users, their groups, policies and access keys."""

import msgspec

from lakebed.api.arns import EVERYTHING, USER, on
from lakebed.api.auth_bodies import (
    CredentialsBody,
    CredentialsWithSecret,
    GroupBody,
    PolicyBody,
    UserBody,
    auth_page,
    credentials_body,
    group_body,
    policy_body,
    secret_body,
    user_body,
)
from lakebed.api.call import Call
from lakebed.api.operation import Operations
from lakebed.api.pages import PageOf, PageQuery, wanted
from lakebed.api.reply import empty_reply, json_reply
from lakebed.auth.actions import Action
from lakebed.http.reply import Reply

operations = Operations("auth")


class CurrentUser(msgspec.Struct):
    """Who is calling."""

    user: UserBody


class UserCreation(msgspec.Struct):
    """A new user."""

    id: str


class UserPoliciesQuery(PageQuery):
    """`effective` includes the policies of the user's groups."""

    effective: bool = False


@operations.add("GET", "/user", "getCurrentUser", replies={200: CurrentUser})
async def get_current_user(call: Call) -> Reply:
    """Get the calling user."""
    return json_reply(200, CurrentUser(user_body(await call.session.users.current())))


@operations.add(
    "GET",
    "/auth/users",
    "listUsers",
    query=PageQuery,
    replies={200: PageOf[UserBody]},
    permissions=on(EVERYTHING, Action.LIST_USERS),
)
async def list_users(call: Call) -> Reply:
    """List users."""
    query = call.query(PageQuery)
    found = await call.session.users.list(prefix=query.prefix, after=query.after, amount=wanted(query.amount))
    return json_reply(200, auth_page(found, user_body, lambda user: user.id))


@operations.add(
    "POST",
    "/auth/users",
    "createUser",
    body=UserCreation,
    replies={201: UserBody},
    permissions=on("arn:lakefs:auth:::user/{body.id}", Action.CREATE_USER),
)
async def create_user(call: Call) -> Reply:
    """Create a user who can do nothing yet."""
    return json_reply(201, user_body(await call.session.users.create(call.body(UserCreation).id)))


@operations.add(
    "GET",
    "/auth/users/{userId}",
    "getUser",
    replies={200: UserBody},
    permissions=on(USER, Action.READ_USER),
)
async def get_user(call: Call) -> Reply:
    """Get a user."""
    return json_reply(200, user_body(await call.session.users.get(call.path["userId"])))


@operations.add(
    "DELETE",
    "/auth/users/{userId}",
    "deleteUser",
    replies={204: None},
    permissions=on(USER, Action.DELETE_USER),
)
async def delete_user(call: Call) -> Reply:
    """Delete a user and all access keys."""
    await call.session.users.delete(call.path["userId"])
    return empty_reply(204)


@operations.add(
    "GET",
    "/auth/users/{userId}/groups",
    "listUserGroups",
    query=PageQuery,
    replies={200: PageOf[GroupBody]},
    permissions=on(USER, Action.READ_USER),
)
async def list_user_groups(call: Call) -> Reply:
    """List the groups that a user is in."""
    query = call.query(PageQuery)
    found = await call.session.users.groups(
        call.path["userId"], prefix=query.prefix, after=query.after, amount=wanted(query.amount)
    )
    return json_reply(200, auth_page(found, group_body, lambda group: group.id))


@operations.add(
    "GET",
    "/auth/users/{userId}/policies",
    "listUserPolicies",
    query=UserPoliciesQuery,
    replies={200: PageOf[PolicyBody]},
    permissions=on(USER, Action.READ_USER),
)
async def list_user_policies(call: Call) -> Reply:
    """List the policies of a user."""
    query = call.query(UserPoliciesQuery)
    found = await call.session.users.policies(
        call.path["userId"],
        effective=query.effective,
        prefix=query.prefix,
        after=query.after,
        amount=wanted(query.amount),
    )
    return json_reply(200, auth_page(found, policy_body, lambda policy: policy.id))


@operations.add(
    "PUT",
    "/auth/users/{userId}/policies/{policyId}",
    "attachPolicyToUser",
    replies={201: None},
    permissions=on(USER, Action.ATTACH_POLICY),
)
async def attach_policy(call: Call) -> Reply:
    """Let a policy count for a user."""
    await call.session.users.attach(call.path["userId"], call.path["policyId"])
    return empty_reply(201)


@operations.add(
    "DELETE",
    "/auth/users/{userId}/policies/{policyId}",
    "detachPolicyFromUser",
    replies={204: None},
    permissions=on(USER, Action.DETACH_POLICY),
)
async def detach_policy(call: Call) -> Reply:
    """Let a policy no longer count for a user."""
    await call.session.users.detach(call.path["userId"], call.path["policyId"])
    return empty_reply(204)


@operations.add(
    "GET",
    "/auth/users/{userId}/credentials",
    "listUserCredentials",
    query=PageQuery,
    replies={200: PageOf[CredentialsBody]},
    permissions=on(USER, Action.LIST_CREDENTIALS),
)
async def list_credentials(call: Call) -> Reply:
    """List a user's access keys."""
    query = call.query(PageQuery)
    found = await call.session.credentials.list(
        call.path["userId"], prefix=query.prefix, after=query.after, amount=wanted(query.amount)
    )
    return json_reply(200, auth_page(found, credentials_body, lambda key: key.id))


@operations.add(
    "POST",
    "/auth/users/{userId}/credentials",
    "createCredentials",
    replies={201: CredentialsWithSecret},
    permissions=on(USER, Action.CREATE_CREDENTIALS),
)
async def create_credentials(call: Call) -> Reply:
    """Give a user a new access key."""
    return json_reply(201, secret_body(await call.session.credentials.create(call.path["userId"])))


@operations.add(
    "GET",
    "/auth/users/{userId}/credentials/{accessKeyId}",
    "getCredentials",
    replies={200: CredentialsBody},
    permissions=on(USER, Action.READ_CREDENTIALS),
)
async def get_credentials(call: Call) -> Reply:
    """Get an access key, without its secret."""
    key = await call.session.credentials.get(call.path["userId"], call.path["accessKeyId"])
    return json_reply(200, credentials_body(key))


@operations.add(
    "DELETE",
    "/auth/users/{userId}/credentials/{accessKeyId}",
    "deleteCredentials",
    replies={204: None},
    permissions=on(USER, Action.DELETE_CREDENTIALS),
)
async def delete_credentials(call: Call) -> Reply:
    """Revoke an access key."""
    await call.session.credentials.delete(call.path["userId"], call.path["accessKeyId"])
    return empty_reply(204)
