"""Users, and what is known of them: groups, policies."""

from lakebed.auth.actions import Action
from lakebed.auth.arns import EVERYTHING, user_arn
from lakebed.auth.auth import Auth
from lakebed.auth.caller import Caller
from lakebed.limits import LIST_PAGE_DEFAULT
from lakebed.model.auth import Group, Policy, User
from lakebed.refs.listing import Listing


class Users:
    """Use cases on users."""

    def __init__(self, auth: Auth, caller: Caller) -> None:
        self._auth = auth
        self._caller = caller

    async def current(self) -> User:
        """Return the caller."""
        return await self._auth.users.get(self._caller.id)

    async def get(self, user: str) -> User:
        """Return a user."""
        self._caller.require(Action.READ_USER, user_arn(user))
        return await self._auth.users.get(user)

    async def create(self, user: str) -> User:
        """Create a user who can do nothing yet."""
        self._caller.require(Action.CREATE_USER, user_arn(user))
        return await self._auth.users.create(user)

    async def delete(self, user: str) -> None:
        """Delete a user and all access keys."""
        self._caller.require(Action.DELETE_USER, user_arn(user))
        await self._auth.users.delete(user)

    async def list(
        self, *, prefix: str = "", after: str = "", amount: int = LIST_PAGE_DEFAULT
    ) -> Listing[User]:
        """Return one page of users by id."""
        self._caller.require(Action.LIST_USERS, EVERYTHING)
        return await self._auth.users.list(prefix=prefix, after=after, amount=amount)

    async def groups(
        self, user: str, *, prefix: str = "", after: str = "", amount: int = LIST_PAGE_DEFAULT
    ) -> Listing[Group]:
        """Return one page of the groups that a user is in."""
        self._caller.require(Action.READ_USER, user_arn(user))
        return await self._auth.users.groups(user, prefix=prefix, after=after, amount=amount)

    async def policies(
        self,
        user: str,
        *,
        effective: bool = False,
        prefix: str = "",
        after: str = "",
        amount: int = LIST_PAGE_DEFAULT,
    ) -> Listing[Policy]:
        """Return one page of a user's policies; with `effective`, also those of the user's groups."""
        self._caller.require(Action.READ_USER, user_arn(user))
        return await self._auth.attachments.of_user(
            user, effective=effective, prefix=prefix, after=after, amount=amount
        )

    async def attach(self, user: str, policy: str) -> None:
        """Let a policy count for a user."""
        self._caller.require(Action.ATTACH_POLICY, user_arn(user))
        await self._auth.attachments.attach_to_user(user, policy)

    async def detach(self, user: str, policy: str) -> None:
        """Let a policy no longer count for a user."""
        self._caller.require(Action.DETACH_POLICY, user_arn(user))
        await self._auth.attachments.detach_from_user(user, policy)
