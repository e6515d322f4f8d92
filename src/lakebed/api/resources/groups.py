"""Groups: members, policies, ACLs."""

from typing import Annotated, Literal

import msgspec

from lakebed.api.arns import EVERYTHING, GROUP, on
from lakebed.api.auth_bodies import (
    GroupBody,
    PolicyBody,
    UserBody,
    auth_page,
    group_body,
    policy_body,
    user_body,
)
from lakebed.api.call import Call
from lakebed.api.operation import Operations
from lakebed.api.pages import PageOf, PageQuery, wanted
from lakebed.api.reply import empty_reply, json_reply
from lakebed.auth.actions import Action
from lakebed.http.reply import Reply
from lakebed.limits import GROUP_DESCRIPTION_LENGTH_MAX
from lakebed.model.auth import ALL_REPOSITORIES, Acl, AclPermission

operations = Operations("auth")


class GroupCreation(msgspec.Struct):
    """A new group."""

    id: str
    description: Annotated[str, msgspec.Meta(max_length=GROUP_DESCRIPTION_LENGTH_MAX)] = ""


class AclBody(msgspec.Struct, omit_defaults=True):
    """One word for what a group may do; without repositories, to all of them."""

    permission: Literal["Read", "Write", "Super", "Admin"]
    repositories: list[str] | None = None


@operations.add(
    "GET",
    "/auth/groups",
    "listGroups",
    query=PageQuery,
    replies={200: PageOf[GroupBody]},
    permissions=on(EVERYTHING, Action.LIST_GROUPS),
)
async def list_groups(call: Call) -> Reply:
    """List groups."""
    query = call.query(PageQuery)
    found = await call.session.groups.list(
        prefix=query.prefix, after=query.after, amount=wanted(query.amount)
    )
    return json_reply(200, auth_page(found, group_body, lambda group: group.id))


@operations.add(
    "POST",
    "/auth/groups",
    "createGroup",
    body=GroupCreation,
    replies={201: GroupBody},
    permissions=on("arn:lakefs:auth:::group/{body.id}", Action.CREATE_GROUP),
)
async def create_group(call: Call) -> Reply:
    """Create a group without members and policies."""
    body = call.body(GroupCreation)
    return json_reply(
        201, group_body(await call.session.groups.create(body.id, description=body.description))
    )


@operations.add(
    "GET",
    "/auth/groups/{groupId}",
    "getGroup",
    replies={200: GroupBody},
    permissions=on(GROUP, Action.READ_GROUP),
)
async def get_group(call: Call) -> Reply:
    """Get a group."""
    return json_reply(200, group_body(await call.session.groups.get(call.path["groupId"])))


@operations.add(
    "DELETE",
    "/auth/groups/{groupId}",
    "deleteGroup",
    replies={204: None},
    permissions=on(GROUP, Action.DELETE_GROUP),
)
async def delete_group(call: Call) -> Reply:
    """Delete a group; its members stay."""
    await call.session.groups.delete(call.path["groupId"])
    return empty_reply(204)


@operations.add(
    "GET",
    "/auth/groups/{groupId}/members",
    "listGroupMembers",
    query=PageQuery,
    replies={200: PageOf[UserBody]},
    permissions=on(GROUP, Action.READ_GROUP),
)
async def list_members(call: Call) -> Reply:
    """List the users in a group."""
    query = call.query(PageQuery)
    found = await call.session.groups.members(
        call.path["groupId"], prefix=query.prefix, after=query.after, amount=wanted(query.amount)
    )
    return json_reply(200, auth_page(found, user_body, lambda user: user.id))


@operations.add(
    "PUT",
    "/auth/groups/{groupId}/members/{userId}",
    "addGroupMembership",
    replies={201: None},
    permissions=on(GROUP, Action.ADD_GROUP_MEMBER),
)
async def add_member(call: Call) -> Reply:
    """Put a user into a group."""
    await call.session.groups.add_member(call.path["groupId"], call.path["userId"])
    return empty_reply(201)


@operations.add(
    "DELETE",
    "/auth/groups/{groupId}/members/{userId}",
    "deleteGroupMembership",
    replies={204: None},
    permissions=on(GROUP, Action.REMOVE_GROUP_MEMBER),
)
async def remove_member(call: Call) -> Reply:
    """Take a user out of a group."""
    await call.session.groups.remove_member(call.path["groupId"], call.path["userId"])
    return empty_reply(204)


@operations.add(
    "GET",
    "/auth/groups/{groupId}/policies",
    "listGroupPolicies",
    query=PageQuery,
    replies={200: PageOf[PolicyBody]},
    permissions=on(GROUP, Action.READ_GROUP),
)
async def list_group_policies(call: Call) -> Reply:
    """List the policies attached to a group."""
    query = call.query(PageQuery)
    found = await call.session.groups.policies(
        call.path["groupId"], prefix=query.prefix, after=query.after, amount=wanted(query.amount)
    )
    return json_reply(200, auth_page(found, policy_body, lambda policy: policy.id))


@operations.add(
    "PUT",
    "/auth/groups/{groupId}/policies/{policyId}",
    "attachPolicyToGroup",
    replies={201: None},
    permissions=on(GROUP, Action.ATTACH_POLICY),
)
async def attach_policy(call: Call) -> Reply:
    """Let a policy count for the members of a group."""
    await call.session.groups.attach(call.path["groupId"], call.path["policyId"])
    return empty_reply(201)


@operations.add(
    "DELETE",
    "/auth/groups/{groupId}/policies/{policyId}",
    "detachPolicyFromGroup",
    replies={204: None},
    permissions=on(GROUP, Action.DETACH_POLICY),
)
async def detach_policy(call: Call) -> Reply:
    """Let a policy no longer count for the members of a group."""
    await call.session.groups.detach(call.path["groupId"], call.path["policyId"])
    return empty_reply(204)


@operations.add(
    "GET",
    "/auth/groups/{groupId}/acl",
    "getGroupACL",
    replies={200: AclBody},
    permissions=on(GROUP, Action.READ_GROUP),
)
async def get_acl(call: Call) -> Reply:
    """Get a group's ACL."""
    acl = await call.session.groups.acl(call.path["groupId"])
    repositories = None if acl.repositories == ALL_REPOSITORIES else list(acl.repositories)
    return json_reply(200, AclBody(acl.permission.value, repositories))


@operations.add(
    "POST",
    "/auth/groups/{groupId}/acl",
    "setGroupACL",
    body=AclBody,
    replies={201: None},
    permissions=on(GROUP, Action.ATTACH_POLICY, Action.DETACH_POLICY),
)
async def set_acl(call: Call) -> Reply:
    """Replace a group's policies by those of an ACL."""
    body = call.body(AclBody)
    acl = Acl(
        permission=AclPermission(body.permission),
        repositories=ALL_REPOSITORIES if body.repositories is None else tuple(body.repositories),
    )
    await call.session.groups.set_acl(call.path["groupId"], acl)
    return empty_reply(201)
