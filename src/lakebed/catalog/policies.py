"""Policies: written, changed, deleted, listed."""

from collections.abc import Sequence

from lakebed.auth.actions import Action
from lakebed.auth.arns import EVERYTHING, policy_arn
from lakebed.auth.auth import Auth
from lakebed.auth.caller import Caller
from lakebed.auth.statements import StatementDocument
from lakebed.limits import LIST_PAGE_DEFAULT
from lakebed.model.auth import Policy
from lakebed.refs.listing import Listing


class Policies:
    """Use cases on policies."""

    def __init__(self, auth: Auth, caller: Caller) -> None:
        self._auth = auth
        self._caller = caller

    async def get(self, policy: str) -> Policy:
        """Return a policy."""
        self._caller.require(Action.READ_POLICY, policy_arn(policy))
        return await self._auth.policies.get(policy)

    async def create(self, policy: str, statements: Sequence[StatementDocument]) -> Policy:
        """Create a policy that is attached to nobody."""
        self._caller.require(Action.CREATE_POLICY, policy_arn(policy))
        return await self._auth.policies.create(policy, statements)

    async def update(self, policy: str, statements: Sequence[StatementDocument]) -> Policy:
        """Replace the statements of a policy."""
        self._caller.require(Action.UPDATE_POLICY, policy_arn(policy))
        return await self._auth.policies.update(policy, statements)

    async def delete(self, policy: str) -> None:
        """Delete a policy: it counts for nobody any more."""
        self._caller.require(Action.DELETE_POLICY, policy_arn(policy))
        await self._auth.policies.delete(policy)

    async def list(
        self, *, prefix: str = "", after: str = "", amount: int = LIST_PAGE_DEFAULT
    ) -> Listing[Policy]:
        """Return one page of policies by id."""
        self._caller.require(Action.LIST_POLICIES, EVERYTHING)
        return await self._auth.policies.list(prefix=prefix, after=after, amount=amount)
