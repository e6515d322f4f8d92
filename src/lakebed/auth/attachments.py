"""Which policies count for which users and groups."""

from dataclasses import replace

from lakebed.auth.keys import group_key, user_key
from lakebed.auth.links import with_link, without_link
from lakebed.auth.listing import list_values
from lakebed.auth.lookup import effective_policies, policies_at, require_group, require_policy, require_user
from lakebed.auth.records import AuthRecords, Change, View
from lakebed.errors import ErrorKind
from lakebed.format.auth_records import encode_group, encode_user
from lakebed.limits import LIST_PAGE_DEFAULT
from lakebed.model.auth import Link, Policy, parse_existing_policy_id, parse_group_id, parse_user_id
from lakebed.refs.listing import Listing


class Attachments:
    """Policies attached to users and groups.

    Attaching raises `AlreadyExistsError` (`ATTACHMENT_EXISTS`) if it was attached,
    detaching `NotFoundError` (`ATTACHMENT_NOT_FOUND`) if it was not; both and the lists
    raise `NotFoundError` if the user, group or policy does not exist.
    """

    def __init__(self, records: AuthRecords) -> None:
        self._records = records

    async def attach_to_user(self, user: str, policy: str) -> None:
        """Let a policy count for a user."""
        user_id = parse_user_id(user)

        async def work(change: Change) -> None:
            found = await require_user(change, user_id)
            policies = with_link(
                found.policies,
                await _link(change, policy),
                exists=ErrorKind.ATTACHMENT_EXISTS,
                message=f"policy {policy!r} is attached to user {user!r} already",
            )
            change.put(user_key(user_id), encode_user(replace(found, policies=policies)))

        await self._records.change(work)

    async def detach_from_user(self, user: str, policy: str) -> None:
        """Let a policy no longer count for a user, except by way of a group."""
        user_id = parse_user_id(user)

        async def work(change: Change) -> None:
            found = await require_user(change, user_id)
            policies = without_link(
                found.policies,
                await _link(change, policy),
                missing=ErrorKind.ATTACHMENT_NOT_FOUND,
                message=f"policy {policy!r} is not attached to user {user!r}",
            )
            change.put(user_key(user_id), encode_user(replace(found, policies=policies)))

        await self._records.change(work)

    async def attach_to_group(self, group: str, policy: str) -> None:
        """Let a policy count for the members of a group."""
        group_id = parse_group_id(group)

        async def work(change: Change) -> None:
            found = await require_group(change, group_id)
            policies = with_link(
                found.policies,
                await _link(change, policy),
                exists=ErrorKind.ATTACHMENT_EXISTS,
                message=f"policy {policy!r} is attached to group {group!r} already",
            )
            change.put(group_key(group_id), encode_group(replace(found, policies=policies)))

        await self._records.change(work)

    async def detach_from_group(self, group: str, policy: str) -> None:
        """Let a policy no longer count for the members of a group."""
        group_id = parse_group_id(group)

        async def work(change: Change) -> None:
            found = await require_group(change, group_id)
            policies = without_link(
                found.policies,
                await _link(change, policy),
                missing=ErrorKind.ATTACHMENT_NOT_FOUND,
                message=f"policy {policy!r} is not attached to group {group!r}",
            )
            change.put(group_key(group_id), encode_group(replace(found, policies=policies)))

        await self._records.change(work)

    async def of_user(
        self,
        user: str,
        *,
        effective: bool = False,
        prefix: str = "",
        after: str = "",
        amount: int = LIST_PAGE_DEFAULT,
    ) -> Listing[Policy]:
        """Return one page of the policies attached to a user; with `effective`, also to the user's groups."""
        user_id = parse_user_id(user)

        async def work(view: View) -> list[Policy]:
            found = await require_user(view, user_id)
            return await (effective_policies(view, found) if effective else policies_at(view, found.policies))

        policies, _ = await self._records.read(work)
        return list_values(policies, _name, prefix=prefix, after=after, amount=amount)

    async def of_group(
        self, group: str, *, prefix: str = "", after: str = "", amount: int = LIST_PAGE_DEFAULT
    ) -> Listing[Policy]:
        """Return one page of the policies attached to a group."""
        group_id = parse_group_id(group)

        async def work(view: View) -> list[Policy]:
            return await policies_at(view, (await require_group(view, group_id)).policies)

        policies, _ = await self._records.read(work)
        return list_values(policies, _name, prefix=prefix, after=after, amount=amount)


async def _link(view: View, policy: str) -> Link:
    found = await require_policy(view, parse_existing_policy_id(policy))
    return Link(found.id, found.incarnation)


def _name(policy: Policy) -> str:
    return policy.id
