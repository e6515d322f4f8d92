"""Users: created, deleted, listed.

Deleting a user is one atomic step (see `records`): the user's record, which holds the
memberships and attachments, and the records of all access keys are replaced together.
Before it everything works, after it nothing does; a crash leaves one of the two. What
else names the user (a session, a copy in a cache) carries the incarnation that is gone.
"""

from lakebed.auth.keys import USERS_PREFIX, access_key_key, user_key
from lakebed.auth.listing import list_records, list_values
from lakebed.auth.lookup import find_user, groups_of, require_user
from lakebed.auth.records import AuthRecords, Change, View
from lakebed.env.ids import IdSource
from lakebed.errors import AlreadyExistsError, ErrorKind, quoted
from lakebed.format.auth_records import decode_user, encode_access_key, encode_user
from lakebed.limits import LIST_PAGE_DEFAULT
from lakebed.model.auth import Gone, Group, Incarnation, User, parse_user_id
from lakebed.refs.listing import Listing


class Users:
    """The users of an installation."""

    def __init__(self, records: AuthRecords, *, ids: IdSource) -> None:
        self._records = records
        self._ids = ids

    async def create(
        self,
        user: str,
        *,
        friendly_name: str = "",
        email: str = "",
        source: str = "internal",
        external_id: str = "",
    ) -> User:
        """Create a user who can do nothing yet.

        Raises:
            AlreadyExistsError: `USER_EXISTS`.
        """
        new = User(
            id=parse_user_id(user),
            incarnation=Incarnation(self._ids.token()),
            created_at=await self._records.kv.now(),
            friendly_name=friendly_name,
            email=email,
            source=source,
            external_id=external_id,
        )

        async def work(change: Change) -> User:
            if await find_user(change, new.id) is not None:
                raise AlreadyExistsError(ErrorKind.USER_EXISTS, f"user {quoted(user)} exists already")
            change.put(user_key(new.id), encode_user(new))
            return new

        return await self._records.change(work)

    async def get(self, user: str) -> User:
        """Return a user, or raise `NotFoundError`."""
        user_id = parse_user_id(user)

        async def work(view: View) -> User:
            return await require_user(view, user_id)

        return (await self._records.read(work))[0]

    async def delete(self, user: str) -> None:
        """Delete a user with all access keys; whoever uses one fails at the next request.

        Raises:
            NotFoundError: `USER_NOT_FOUND`.
        """
        user_id = parse_user_id(user)

        async def work(change: Change) -> None:
            found = await require_user(change, user_id)
            change.put(user_key(user_id), encode_user(Gone()))
            for key in found.keys:
                change.put(access_key_key(key), encode_access_key(Gone()))

        await self._records.change(work)

    async def list(
        self, *, prefix: str = "", after: str = "", amount: int = LIST_PAGE_DEFAULT
    ) -> Listing[User]:
        """Return one page of users by id."""
        return await list_records(
            self._records.kv, USERS_PREFIX, decode_user, prefix=prefix, after=after, amount=amount
        )

    async def groups(
        self, user: str, *, prefix: str = "", after: str = "", amount: int = LIST_PAGE_DEFAULT
    ) -> Listing[Group]:
        """Return one page of the groups that a user is in."""
        user_id = parse_user_id(user)

        async def work(view: View) -> list[Group]:
            return await groups_of(view, await require_user(view, user_id))

        groups, _ = await self._records.read(work)
        return list_values(groups, lambda group: group.id, prefix=prefix, after=after, amount=amount)
