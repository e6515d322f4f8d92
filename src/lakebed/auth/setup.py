"""Set-up: the first administrator, the usual groups and policies, once in an installation's life.

All of it is one change, so it is there entirely or not at all, and of several processes
that try at the same time one wins and the others are told.
"""

import hmac

from lakebed.auth.credentials import Credentials, check_pair, new_pair
from lakebed.auth.keyring import Keyring
from lakebed.auth.keys import INSTALLATION_KEY, group_key, policy_key
from lakebed.auth.records import AuthRecords, Change, View
from lakebed.auth.roles import ADMINS, USUAL_GROUPS, USUAL_POLICIES
from lakebed.env.clock import Instant
from lakebed.env.ids import IdSource
from lakebed.errors import AlreadyExistsError, ErrorKind, InvalidInputError
from lakebed.format.auth_records import (
    decode_installation,
    encode_group,
    encode_installation,
    encode_policy,
)
from lakebed.model.auth import (
    Group,
    GroupId,
    Incarnation,
    Installation,
    IssuedKey,
    KeyPair,
    Link,
    Policy,
    PolicyId,
    User,
    UserId,
    parse_user_id,
)


class Setup:
    """Sets an installation up, and knows whether it is."""

    def __init__(
        self, records: AuthRecords, keyring: Keyring, credentials: Credentials, *, ids: IdSource
    ) -> None:
        self._records = records
        self._keyring = keyring
        self._credentials = credentials
        self._ids = ids

    async def installation(self) -> Installation | None:
        """Return what is known of the installation; None before it is set up."""
        return (await self._records.read(_installation))[0]

    async def is_set_up(self) -> bool:
        """Return whether the installation was set up."""
        return await self.installation() is not None

    async def require_key(self) -> None:
        """Raise `InvalidInputError` (`INVALID_CONFIG`) if this is not the key that the installation was set up with."""
        found = await self.installation()
        if found is not None and not hmac.compare_digest(found.key_check, self._keyring.check):
            raise InvalidInputError(
                ErrorKind.INVALID_CONFIG,
                "the installation was set up with another key, and no access key would work with this one: "
                "give it the key it was set up with",
            )

    async def set_up(
        self, username: str, *, pair: KeyPair | None = None, friendly_name: str = "", email: str = ""
    ) -> IssuedKey:
        """Create the usual policies and groups and an administrator with one access key.

        Raises:
            AlreadyExistsError: `ALREADY_SET_UP`.
        """
        user_id = parse_user_id(username)
        chosen = check_pair(pair) if pair is not None else new_pair(self._ids)
        now = await self._records.kv.now()

        async def work(change: Change) -> IssuedKey:
            if await _installation(change) is not None:
                raise AlreadyExistsError(ErrorKind.ALREADY_SET_UP, "this installation is already set up")
            groups = self._put_groups(change, self._put_policies(change, now=now), now=now)
            admin = User(
                id=UserId(user_id),
                incarnation=Incarnation(self._ids.token()),
                created_at=now,
                friendly_name=friendly_name,
                email=email,
                groups=(groups[ADMINS],),
            )
            change.put(
                INSTALLATION_KEY,
                encode_installation(
                    Installation(id=self._ids.token(), set_up_at=now, key_check=self._keyring.check)
                ),
            )
            return await self._credentials.put(change, admin, chosen, now=now)

        return await self._records.change(work)

    def _put_policies(self, change: Change, *, now: Instant) -> dict[str, Link]:
        policies = [
            Policy(
                id=PolicyId(name),
                incarnation=Incarnation(self._ids.token()),
                created_at=now,
                statements=statements,
            )
            for name, statements in USUAL_POLICIES.items()
        ]
        for policy in policies:
            change.put(policy_key(policy.id), encode_policy(policy))
        return {policy.id: Link(policy.id, policy.incarnation) for policy in policies}

    def _put_groups(self, change: Change, policies: dict[str, Link], *, now: Instant) -> dict[str, Link]:
        groups = [
            Group(
                id=GroupId(name),
                incarnation=Incarnation(self._ids.token()),
                created_at=now,
                policies=tuple(policies[each] for each in attached),
            )
            for name, attached in USUAL_GROUPS.items()
        ]
        for group in groups:
            change.put(group_key(group.id), encode_group(group))
        return {group.id: Link(group.id, group.incarnation) for group in groups}


async def _installation(view: View) -> Installation | None:
    (data,) = await view.get([INSTALLATION_KEY])
    return decode_installation(data) if data is not None else None
