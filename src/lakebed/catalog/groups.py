"""Groups: members, policies, ACLs."""

from lakebed.auth.actions import Action
from lakebed.auth.arns import EVERYTHING, group_arn
from lakebed.auth.auth import Auth
from lakebed.auth.caller import Caller
from lakebed.limits import LIST_PAGE_DEFAULT
from lakebed.model.auth import Acl, Group, Policy, User
from lakebed.refs.listing import Listing


class Groups:
    """Use cases on groups."""

    def __init__(self, auth: Auth, caller: Caller) -> None:
        self._auth = auth
        self._caller = caller

    async def get(self, group: str) -> Group:
        """Return a group."""
        self._caller.require(Action.READ_GROUP, group_arn(group))
        return await self._auth.groups.get(group)

    async def create(self, group: str, *, description: str = "") -> Group:
        """Create a group without members and policies."""
        self._caller.require(Action.CREATE_GROUP, group_arn(group))
        return await self._auth.groups.create(group, description=description)

    async def delete(self, group: str) -> None:
        """Delete a group; its members stay."""
        self._caller.require(Action.DELETE_GROUP, group_arn(group))
        await self._auth.groups.delete(group)

    async def list(
        self, *, prefix: str = "", after: str = "", amount: int = LIST_PAGE_DEFAULT
    ) -> Listing[Group]:
        """Return one page of groups by id."""
        self._caller.require(Action.LIST_GROUPS, EVERYTHING)
        return await self._auth.groups.list(prefix=prefix, after=after, amount=amount)

    async def members(
        self, group: str, *, prefix: str = "", after: str = "", amount: int = LIST_PAGE_DEFAULT
    ) -> Listing[User]:
        """Return one page of the users in a group."""
        self._caller.require(Action.READ_GROUP, group_arn(group))
        return await self._auth.groups.members(group, prefix=prefix, after=after, amount=amount)

    async def add_member(self, group: str, user: str) -> None:
        """Put a user into a group."""
        self._caller.require(Action.ADD_GROUP_MEMBER, group_arn(group))
        await self._auth.groups.add_member(group, user)

    async def remove_member(self, group: str, user: str) -> None:
        """Take a user out of a group."""
        self._caller.require(Action.REMOVE_GROUP_MEMBER, group_arn(group))
        await self._auth.groups.remove_member(group, user)

    async def policies(
        self, group: str, *, prefix: str = "", after: str = "", amount: int = LIST_PAGE_DEFAULT
    ) -> Listing[Policy]:
        """Return one page of the policies attached to a group."""
        self._caller.require(Action.READ_GROUP, group_arn(group))
        return await self._auth.attachments.of_group(group, prefix=prefix, after=after, amount=amount)

    async def attach(self, group: str, policy: str) -> None:
        """Let a policy count for the members of a group."""
        self._caller.require(Action.ATTACH_POLICY, group_arn(group))
        await self._auth.attachments.attach_to_group(group, policy)

    async def detach(self, group: str, policy: str) -> None:
        """Let a policy no longer count for the members of a group."""
        self._caller.require(Action.DETACH_POLICY, group_arn(group))
        await self._auth.attachments.detach_from_group(group, policy)

    async def acl(self, group: str) -> Acl:
        """Return a group's ACL."""
        self._caller.require(Action.READ_GROUP, group_arn(group))
        return await self._auth.acls.get(group)

    async def set_acl(self, group: str, acl: Acl) -> None:
        """Replace a group's policies by those of an ACL: it takes what attaching and detaching take."""
        self._caller.require(Action.ATTACH_POLICY, group_arn(group))
        self._caller.require(Action.DETACH_POLICY, group_arn(group))
        await self._auth.acls.set(group, acl)
