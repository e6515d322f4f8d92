"""ACLs: one word for what a group may do, kept as a policy of the group's own.

Setting an ACL takes all other policies off the group: whoever says "Read" means that,
not "Read beside what was there". The policy's name has brackets, which nobody can
choose, so it never meets a policy that somebody wrote.
"""

from dataclasses import replace

from lakebed.auth.keys import group_key, policy_key
from lakebed.auth.lookup import find_policy, policies_at, require_group
from lakebed.auth.records import AuthRecords, Change, View
from lakebed.auth.roles import USUAL_ACLS, acl_statements
from lakebed.env.ids import IdSource
from lakebed.errors import ErrorKind, NotFoundError
from lakebed.format.auth_records import encode_group, encode_policy
from lakebed.model.auth import Acl, Incarnation, Link, Policy, acl_policy_id, parse_group_id


class Acls:
    """The ACLs of groups."""

    def __init__(self, records: AuthRecords, *, ids: IdSource) -> None:
        self._records = records
        self._ids = ids

    async def get(self, group: str) -> Acl:
        """Return the ACL of a group; one of the usual groups has one without anybody having set it.

        Raises:
            NotFoundError: `GROUP_NOT_FOUND`; `ACL_NOT_FOUND`: its policies are not those of an ACL.
        """
        group_id = parse_group_id(group)

        async def work(view: View) -> list[Policy]:
            return await policies_at(view, (await require_group(view, group_id)).policies)

        policies, _ = await self._records.read(work)
        if len(policies) == 1 and policies[0].acl is not None:
            return policies[0].acl
        usual = USUAL_ACLS.get(frozenset(policy.id for policy in policies))
        if usual is None:
            raise NotFoundError(
                ErrorKind.ACL_NOT_FOUND, f"group {group!r} has no ACL: look at its policies instead"
            )
        return Acl(permission=usual)

    async def set(self, group: str, acl: Acl) -> None:
        """Let the members of a group do what the ACL says, and nothing else by way of that group.

        Raises:
            NotFoundError: `GROUP_NOT_FOUND`.
            InvalidInputError: `INVALID_ACL`.
        """
        group_id = parse_group_id(group)
        statements = acl_statements(acl)
        policy_id = acl_policy_id(group_id)
        now = await self._records.kv.now()
        incarnation = Incarnation(self._ids.token())

        async def work(change: Change) -> None:
            found = await require_group(change, group_id)
            previous = await find_policy(change, policy_id)
            policy = Policy(
                id=policy_id,
                incarnation=incarnation,
                created_at=previous.created_at if previous is not None else now,
                statements=statements,
                acl=acl,
            )
            change.put(policy_key(policy_id), encode_policy(policy))
            change.put(
                group_key(group_id), encode_group(replace(found, policies=(Link(policy_id, incarnation),)))
            )

        await self._records.change(work)
