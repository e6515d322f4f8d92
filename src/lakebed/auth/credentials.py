"""Access keys: made, listed, revoked. The secret is returned once, and only ever stored encrypted."""

from dataclasses import replace

from lakebed.auth.chance import new_access_key_id, new_secret
from lakebed.auth.keyring import Keyring
from lakebed.auth.keys import access_key_key, user_key
from lakebed.auth.listing import list_values
from lakebed.auth.lookup import find_access_key, require_user
from lakebed.auth.records import AuthRecords, Change, View
from lakebed.env.clock import Instant
from lakebed.env.ids import IdSource
from lakebed.errors import AlreadyExistsError, ErrorKind, InvalidInputError, NotFoundError, quoted
from lakebed.format.auth_records import decode_access_key, encode_access_key, encode_user
from lakebed.limits import AUTH_LINKS_MAX, LIST_PAGE_DEFAULT, SECRET_LENGTH_MAX
from lakebed.model.auth import (
    AccessKey,
    AccessKeyId,
    Gone,
    IssuedKey,
    KeyPair,
    User,
    parse_access_key_id,
    parse_user_id,
)
from lakebed.refs.listing import Listing


class Credentials:
    """The access keys of all users."""

    def __init__(self, records: AuthRecords, keyring: Keyring, *, ids: IdSource) -> None:
        self._records = records
        self._keyring = keyring
        self._ids = ids

    async def create(self, user: str, *, pair: KeyPair | None = None) -> IssuedKey:
        """Give a user a new access key: a random one, or the given pair.

        Raises:
            NotFoundError: `USER_NOT_FOUND`.
            AlreadyExistsError: `ACCESS_KEY_EXISTS`.
            InvalidInputError: `INVALID_AUTH_ID`, `INVALID_ARGUMENT` (the secret); `TOO_LARGE`: too many keys.
        """
        user_id = parse_user_id(user)
        chosen = check_pair(pair) if pair is not None else new_pair(self._ids)
        now = await self._records.kv.now()

        async def work(change: Change) -> IssuedKey:
            return await self.put(change, await require_user(change, user_id), chosen, now=now)

        return await self._records.change(work)

    async def put(self, change: Change, owner: User, pair: KeyPair, *, now: Instant) -> IssuedKey:
        """Write the records of a new key and its owner as part of a change."""
        key_id = AccessKeyId(pair.access_key_id)
        if await find_access_key(change, key_id) is not None:
            raise AlreadyExistsError(
                ErrorKind.ACCESS_KEY_EXISTS, f"access key {quoted(key_id)} exists already: choose another"
            )
        if len(owner.keys) >= AUTH_LINKS_MAX:
            raise InvalidInputError(
                ErrorKind.TOO_LARGE, f"user {owner.id!r} has {AUTH_LINKS_MAX} access keys: delete some first"
            )
        key = AccessKey(
            id=key_id,
            user=owner.id,
            incarnation=owner.incarnation,
            created_at=now,
            sealed_secret=self._keyring.seal(pair.secret_access_key, key_id, owner.incarnation),
        )
        change.put(access_key_key(key_id), encode_access_key(key))
        change.put(user_key(owner.id), encode_user(replace(owner, keys=(*owner.keys, key_id))))
        return IssuedKey(id=key_id, user=owner.id, created_at=now, secret_access_key=pair.secret_access_key)

    async def get(self, user: str, access_key: str) -> AccessKey:
        """Return a key of a user.

        Raises:
            NotFoundError: `USER_NOT_FOUND`, `ACCESS_KEY_NOT_FOUND`.
        """
        user_id, key_id = parse_user_id(user), parse_access_key_id(access_key)

        async def work(view: View) -> AccessKey:
            _require_key(await require_user(view, user_id), key_id)
            found = await find_access_key(view, key_id)
            assert found is not None, "a user's record names only keys that exist"
            return found

        return (await self._records.read(work))[0]

    async def list(
        self, user: str, *, prefix: str = "", after: str = "", amount: int = LIST_PAGE_DEFAULT
    ) -> Listing[AccessKey]:
        """Return one page of a user's keys, by id."""
        user_id = parse_user_id(user)

        async def work(view: View) -> list[AccessKey]:
            owner = await require_user(view, user_id)
            found = await view.get([access_key_key(key) for key in owner.keys])
            keys = [decode_access_key(data) for data in found if data is not None]
            return [key for key in keys if isinstance(key, AccessKey)]

        keys, _ = await self._records.read(work)
        return list_values(keys, lambda key: key.id, prefix=prefix, after=after, amount=amount)

    async def delete(self, user: str, access_key: str) -> None:
        """Revoke a key, and the sessions that were opened with it: the next request fails.

        Raises:
            NotFoundError: `USER_NOT_FOUND`, `ACCESS_KEY_NOT_FOUND`.
        """
        user_id, key_id = parse_user_id(user), parse_access_key_id(access_key)

        async def work(change: Change) -> None:
            owner = await require_user(change, user_id)
            _require_key(owner, key_id)
            kept = tuple(key for key in owner.keys if key != key_id)
            change.put(access_key_key(key_id), encode_access_key(Gone()))
            change.put(user_key(user_id), encode_user(replace(owner, keys=kept)))

        await self._records.change(work)


def new_pair(ids: IdSource) -> KeyPair:
    """Return a random key pair."""
    return KeyPair(access_key_id=new_access_key_id(ids), secret_access_key=new_secret(ids))


def check_pair(pair: KeyPair) -> KeyPair:
    """Return a pair that somebody chose, or raise `InvalidInputError` in words that do not repeat the secret."""
    parse_access_key_id(pair.access_key_id)
    secret = pair.secret_access_key
    if not 0 < len(secret) <= SECRET_LENGTH_MAX or not secret.isascii() or not secret.isprintable():
        raise InvalidInputError(
            ErrorKind.INVALID_ARGUMENT,
            f"secret access key must be 1 to {SECRET_LENGTH_MAX} printable ASCII characters",
        )
    return pair


def _require_key(owner: User, key: AccessKeyId) -> None:
    if key not in owner.keys:
        raise NotFoundError(
            ErrorKind.ACCESS_KEY_NOT_FOUND, f"user {owner.id!r} has no access key {quoted(key)}"
        )
