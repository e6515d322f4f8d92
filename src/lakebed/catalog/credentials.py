"""Access keys of users: made, listed, revoked."""

from lakebed.auth.actions import Action
from lakebed.auth.arns import user_arn
from lakebed.auth.auth import Auth
from lakebed.auth.caller import Caller
from lakebed.limits import LIST_PAGE_DEFAULT
from lakebed.model.auth import AccessKey, IssuedKey
from lakebed.refs.listing import Listing


class Credentials:
    """Use cases on access keys."""

    def __init__(self, auth: Auth, caller: Caller) -> None:
        self._auth = auth
        self._caller = caller

    async def create(self, user: str) -> IssuedKey:
        """Give a user a new access key; its secret is shown this once."""
        self._caller.require(Action.CREATE_CREDENTIALS, user_arn(user))
        return await self._auth.credentials.create(user)

    async def get(self, user: str, access_key: str) -> AccessKey:
        """Return a key of a user."""
        self._caller.require(Action.READ_CREDENTIALS, user_arn(user))
        return await self._auth.credentials.get(user, access_key)

    async def delete(self, user: str, access_key: str) -> None:
        """Revoke a key of a user."""
        self._caller.require(Action.DELETE_CREDENTIALS, user_arn(user))
        await self._auth.credentials.delete(user, access_key)

    async def list(
        self, user: str, *, prefix: str = "", after: str = "", amount: int = LIST_PAGE_DEFAULT
    ) -> Listing[AccessKey]:
        """Return one page of a user's keys."""
        self._caller.require(Action.LIST_CREDENTIALS, user_arn(user))
        return await self._auth.credentials.list(user, prefix=prefix, after=after, amount=amount)
