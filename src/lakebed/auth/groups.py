"""Groups and who is in them.

Membership is in the users' records, so members are found by going through the users: an
installation has thousands of those, not millions.
"""

from dataclasses import replace

from lakebed.auth.keys import GROUPS_PREFIX, USERS_PREFIX, group_key, policy_key, user_key
from lakebed.auth.links import with_link, without_link
from lakebed.auth.listing import list_records
from lakebed.auth.lookup import find_group, find_policy, require_group, require_user
from lakebed.auth.records import AuthRecords, Change, View
from lakebed.env.ids import IdSource
from lakebed.errors import AlreadyExistsError, ErrorKind, quoted
from lakebed.format.auth_records import decode_group, decode_user, encode_group, encode_policy, encode_user
from lakebed.limits import LIST_PAGE_DEFAULT
from lakebed.model.auth import (
    Gone,
    Group,
    Incarnation,
    Link,
    User,
    acl_policy_id,
    parse_group_id,
    parse_user_id,
)
from lakebed.refs.listing import Listing


class Groups:
    """The groups of an installation."""

    def __init__(self, records: AuthRecords, *, ids: IdSource) -> None:
        self._records = records
        self._ids = ids

    async def create(self, group: str, *, description: str = "") -> Group:
        """Create a group without members and policies.

        Raises:
            AlreadyExistsError: `GROUP_EXISTS`.
        """
        new = Group(
            id=parse_group_id(group),
            incarnation=Incarnation(self._ids.token()),
            created_at=await self._records.kv.now(),
            description=description,
        )

        async def work(change: Change) -> Group:
            if await find_group(change, new.id) is not None:
                raise AlreadyExistsError(ErrorKind.GROUP_EXISTS, f"group {quoted(group)} exists already")
            change.put(group_key(new.id), encode_group(new))
            return new

        return await self._records.change(work)

    async def get(self, group: str) -> Group:
        """Return a group, or raise `NotFoundError`."""
        group_id = parse_group_id(group)

        async def work(view: View) -> Group:
            return await require_group(view, group_id)

        return (await self._records.read(work))[0]

    async def delete(self, group: str) -> None:
        """Delete a group: from here on nobody is in it, also not in one of the same name.

        Raises:
            NotFoundError: `GROUP_NOT_FOUND`.
        """
        group_id = parse_group_id(group)

        async def work(change: Change) -> None:
            await require_group(change, group_id)
            change.put(group_key(group_id), encode_group(Gone()))
            if await find_policy(change, acl_policy_id(group_id)) is not None:
                change.put(policy_key(acl_policy_id(group_id)), encode_policy(Gone()))

        await self._records.change(work)

    async def list(
        self, *, prefix: str = "", after: str = "", amount: int = LIST_PAGE_DEFAULT
    ) -> Listing[Group]:
        """Return one page of groups by id."""
        return await list_records(
            self._records.kv, GROUPS_PREFIX, decode_group, prefix=prefix, after=after, amount=amount
        )

    async def members(
        self, group: str, *, prefix: str = "", after: str = "", amount: int = LIST_PAGE_DEFAULT
    ) -> Listing[User]:
        """Return one page of the users in a group, by id."""
        found = await self.get(group)
        link = Link(found.id, found.incarnation)
        return await list_records(
            self._records.kv,
            USERS_PREFIX,
            decode_user,
            prefix=prefix,
            after=after,
            amount=amount,
            keep=lambda user: link in user.groups,
        )

    async def add_member(self, group: str, user: str) -> None:
        """Put a user into a group.

        Raises:
            NotFoundError: `GROUP_NOT_FOUND`, `USER_NOT_FOUND`.
            AlreadyExistsError: `MEMBERSHIP_EXISTS`.
        """
        group_id, user_id = parse_group_id(group), parse_user_id(user)

        async def work(change: Change) -> None:
            found = await require_group(change, group_id)
            member = await require_user(change, user_id)
            groups = with_link(
                member.groups,
                Link(found.id, found.incarnation),
                exists=ErrorKind.MEMBERSHIP_EXISTS,
                message=f"user {quoted(user)} is in group {quoted(group)} already",
            )
            change.put(user_key(user_id), encode_user(replace(member, groups=groups)))

        await self._records.change(work)

    async def remove_member(self, group: str, user: str) -> None:
        """Take a user out of a group.

        Raises:
            NotFoundError: `GROUP_NOT_FOUND`, `USER_NOT_FOUND`, `MEMBERSHIP_NOT_FOUND`.
        """
        group_id, user_id = parse_group_id(group), parse_user_id(user)

        async def work(change: Change) -> None:
            found = await require_group(change, group_id)
            member = await require_user(change, user_id)
            groups = without_link(
                member.groups,
                Link(found.id, found.incarnation),
                missing=ErrorKind.MEMBERSHIP_NOT_FOUND,
                message=f"user {quoted(user)} is not in group {quoted(group)}",
            )
            change.put(user_key(user_id), encode_user(replace(member, groups=groups)))

        await self._records.change(work)
