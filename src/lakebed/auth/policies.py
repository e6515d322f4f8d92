"""Policies: written, changed, deleted, listed."""

from collections.abc import Sequence
from dataclasses import replace

from lakebed.auth.keys import POLICIES_PREFIX, policy_key
from lakebed.auth.listing import list_records
from lakebed.auth.lookup import find_policy, require_policy
from lakebed.auth.records import AuthRecords, Change, View
from lakebed.auth.statements import StatementDocument, parse_statements
from lakebed.env.ids import IdSource
from lakebed.errors import AlreadyExistsError, ErrorKind
from lakebed.format.auth_records import decode_policy, encode_policy
from lakebed.limits import LIST_PAGE_DEFAULT
from lakebed.model.auth import Gone, Incarnation, Policy, parse_existing_policy_id, parse_policy_id
from lakebed.refs.listing import Listing


class Policies:
    """The policies of an installation. An existing one is named as it is, since ACLs have names of their own."""

    def __init__(self, records: AuthRecords, *, ids: IdSource) -> None:
        self._records = records
        self._ids = ids

    async def create(self, policy: str, statements: Sequence[StatementDocument]) -> Policy:
        """Create a policy that is attached to nobody.

        Raises:
            InvalidInputError: `INVALID_POLICY`: the message names the field.
            AlreadyExistsError: `POLICY_EXISTS`.
        """
        new = Policy(
            id=parse_policy_id(policy),
            incarnation=Incarnation(self._ids.token()),
            created_at=await self._records.kv.now(),
            statements=parse_statements(statements),
        )

        async def work(change: Change) -> Policy:
            if await find_policy(change, new.id) is not None:
                raise AlreadyExistsError(ErrorKind.POLICY_EXISTS, f"policy {policy!r} exists already")
            change.put(policy_key(new.id), encode_policy(new))
            return new

        return await self._records.change(work)

    async def get(self, policy: str) -> Policy:
        """Return a policy, or raise `NotFoundError`."""

        async def work(view: View) -> Policy:
            return await require_policy(view, parse_existing_policy_id(policy))

        return (await self._records.read(work))[0]

    async def update(self, policy: str, statements: Sequence[StatementDocument]) -> Policy:
        """Replace the statements of a policy; it stays attached where it is, and is no ACL any more.

        Raises:
            InvalidInputError: `INVALID_POLICY`: the message names the field.
            NotFoundError: `POLICY_NOT_FOUND`.
        """
        parsed = parse_statements(statements)

        async def work(change: Change) -> Policy:
            changed = replace(
                await require_policy(change, parse_existing_policy_id(policy)), statements=parsed, acl=None
            )
            change.put(policy_key(changed.id), encode_policy(changed))
            return changed

        return await self._records.change(work)

    async def delete(self, policy: str) -> None:
        """Delete a policy: from here on it counts for nobody, also not if one of the same name is created.

        Raises:
            NotFoundError: `POLICY_NOT_FOUND`.
        """

        async def work(change: Change) -> None:
            found = await require_policy(change, parse_existing_policy_id(policy))
            change.put(policy_key(found.id), encode_policy(Gone()))

        await self._records.change(work)

    async def list(
        self, *, prefix: str = "", after: str = "", amount: int = LIST_PAGE_DEFAULT
    ) -> Listing[Policy]:
        """Return one page of policies by id."""
        return await list_records(
            self._records.kv, POLICIES_PREFIX, decode_policy, prefix=prefix, after=after, amount=amount
        )
