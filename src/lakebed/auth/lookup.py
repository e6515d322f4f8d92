"""Users, groups and policies by id and by link, in one view.

A link whose target was deleted leads nowhere, even if something of the same name was
created since.
"""

from collections.abc import Iterable, Sequence

from lakebed.auth.keys import access_key_key, group_key, policy_key, sessions_key, user_key
from lakebed.auth.records import View
from lakebed.errors import ErrorKind, NotFoundError, quoted
from lakebed.format.auth_records import (
    decode_access_key,
    decode_ended_sessions,
    decode_group,
    decode_policy,
    decode_user,
)
from lakebed.model.auth import (
    AccessKey,
    AccessKeyId,
    EndedSessions,
    Gone,
    Group,
    GroupId,
    Link,
    Policy,
    PolicyId,
    User,
    UserId,
)


async def find_user(view: View, user: UserId) -> User | None:
    """Return a user, if there is one."""
    (data,) = await view.get([user_key(user)])
    record = decode_user(data) if data is not None else Gone()
    return record if isinstance(record, User) else None


async def find_group(view: View, group: GroupId) -> Group | None:
    """Return a group, if there is one."""
    (data,) = await view.get([group_key(group)])
    record = decode_group(data) if data is not None else Gone()
    return record if isinstance(record, Group) else None


async def find_policy(view: View, policy: PolicyId) -> Policy | None:
    """Return a policy, if there is one."""
    (data,) = await view.get([policy_key(policy)])
    record = decode_policy(data) if data is not None else Gone()
    return record if isinstance(record, Policy) else None


async def find_access_key(view: View, access_key: AccessKeyId) -> AccessKey | None:
    """Return an access key, if there is one. Whether its user still has it is another question."""
    (data,) = await view.get([access_key_key(access_key)])
    record = decode_access_key(data) if data is not None else Gone()
    return record if isinstance(record, AccessKey) else None


async def find_ended_sessions(view: View, user: UserId) -> EndedSessions | None:
    """Return which sessions of a user were ended; None if none ever was."""
    (data,) = await view.get([sessions_key(user)])
    return decode_ended_sessions(data) if data is not None else None


async def require_user(view: View, user: UserId) -> User:
    """Return a user, or raise `NotFoundError`."""
    found = await find_user(view, user)
    if found is None:
        raise NotFoundError(ErrorKind.USER_NOT_FOUND, f"user {quoted(user)} not found")
    return found


async def require_group(view: View, group: GroupId) -> Group:
    """Return a group, or raise `NotFoundError`."""
    found = await find_group(view, group)
    if found is None:
        raise NotFoundError(ErrorKind.GROUP_NOT_FOUND, f"group {quoted(group)} not found")
    return found


async def require_policy(view: View, policy: PolicyId) -> Policy:
    """Return a policy, or raise `NotFoundError`."""
    found = await find_policy(view, policy)
    if found is None:
        raise NotFoundError(ErrorKind.POLICY_NOT_FOUND, f"policy {quoted(policy)} not found")
    return found


async def groups_of(view: View, user: User) -> list[Group]:
    """Return the groups a user is in, by id."""
    links = _by_id(user.groups)
    found = [
        decode_group(data)
        for data in await view.get([group_key(GroupId(k)) for k in links])
        if data is not None
    ]
    return [g for g in found if isinstance(g, Group) and links[g.id] == g.incarnation]


async def policies_at(view: View, links: Sequence[Link]) -> list[Policy]:
    """Return the policies that links lead to, by id, each once."""
    wanted = set(links)
    keys = [policy_key(PolicyId(each)) for each in sorted({link.id for link in wanted})]
    found = [decode_policy(data) for data in await view.get(keys) if data is not None]
    return [p for p in found if isinstance(p, Policy) and Link(p.id, p.incarnation) in wanted]


async def effective_policies(view: View, user: User) -> list[Policy]:
    """Return the policies that count for a user: their own and those of their groups, by id, each once."""
    groups = await groups_of(view, user)
    return await policies_at(view, [*user.policies, *(link for group in groups for link in group.policies)])


def _by_id(links: Iterable[Link]) -> dict[str, str]:
    return {link.id: link.incarnation for link in sorted(links, key=lambda link: link.id)}
