"""From a credential to a `Caller`, in microseconds for one that was seen before.

What was recognised is remembered under a keyed digest of the credential (the credential
itself is kept nowhere) for as long as the *generation* stays what it was: every change of
users, keys, groups and policies gives it a new version, in the same step. With an
embedded store every request reads that one record, so a revoked key fails at the next
request in every process. With a store across a network it is read at most every
`AUTH_RECHECK_SECONDS`, and after each change that this process has made itself.

The order matters: the generation is read before the memory is consulted, and what goes
into the memory was read, entirely, at the generation it is filed under.

A credential that fails is never remembered, and always fails in the same words. An
unknown access key takes the same steps as a wrong secret.

A client that presents wrong secrets for one access key has to wait (`Throttle`). A session that was
ended is remembered until its token expires (`sessions`); ending one is a change like any other, so
every process hears of it by the generation.

A signature proves that somebody knows a secret without sending it, so the secrets of
access keys that sign are remembered too, in the clear, under the same rule, and nowhere
else.
"""

import binascii
import hashlib
import math
from base64 import b64decode
from dataclasses import dataclass

from lakebed.auth.caller import Caller, unauthenticated
from lakebed.auth.chance import new_secret, random_bytes
from lakebed.auth.decisions import Permissions
from lakebed.auth.keyring import Keyring
from lakebed.auth.keys import AUTH_PARTITION, GENERATION_KEY, sessions_key
from lakebed.auth.lookup import effective_policies, find_access_key, find_ended_sessions, find_user
from lakebed.auth.records import NEVER, AuthRecords, Change, View
from lakebed.auth.secret import Secret, Signer
from lakebed.auth.sessions import has_ended, with_ended
from lakebed.auth.throttle import Throttle, network_of
from lakebed.auth.tokens import Session, Tokens
from lakebed.env.clock import Clock, Instant
from lakebed.env.ids import IdSource
from lakebed.errors import DeniedError
from lakebed.format.auth_records import decode_access_key, encode_access_key, encode_ended_sessions
from lakebed.kv.port import Version
from lakebed.limits import AUTH_CACHE_ITEMS, AUTH_RECHECK_SECONDS
from lakebed.model.auth import AccessKey, AccessKeyId, Gone, Incarnation, User, UserId, is_auth_id

# An id that nobody has, to look for when what was presented cannot be one: it costs the same.
_NOBODYS_KEY = AccessKeyId("-")
_NOBODY = Incarnation("-")


class Authenticator:
    """Recognises callers by access key, token or cookie."""

    def __init__(
        self, records: AuthRecords, keyring: Keyring, tokens: Tokens, *, clock: Clock, ids: IdSource
    ) -> None:
        self._records = records
        self._keyring = keyring
        self._tokens = tokens
        self._clock = clock
        self._throttle = Throttle(clock)
        # Apart from logins: a tool with a wrong secret does not keep its user from logging in.
        self._signatures = Throttle(clock, tries="signatures")
        self._embedded = not records.kv.capabilities.engine_time
        self._keyed = hashlib.blake2b(digest_size=32, key=random_bytes(ids, 64))
        self._decoy = encode_access_key(_new_decoy(keyring, ids))
        self._known: dict[bytes, _Known] = {}
        self._signers: dict[str, Signer] = {}
        self._generation = NEVER
        self._checked_at = -math.inf
        self._own_changes = records.own_changes

    async def caller_for(
        self, *, authorization: str | None, cookie: str | None, client: str = ""
    ) -> Caller | None:
        """Return who a request comes from; None if it carries no credential at all.

        `authorization` is the header of that name, `cookie` the value of the login cookie,
        which counts only without a header. `client` is the address it comes from; without
        one, failures are not counted.

        Raises:
            DeniedError: `UNAUTHENTICATED`: there is a credential, and it is not good.
            UnavailableError: `TOO_MANY_LOGINS`: too many wrong secrets came from there.
        """
        if authorization:
            presented = b"header\0" + authorization.encode("utf-8", "surrogatepass")
        elif cookie:
            presented = b"cookie\0" + cookie.encode("utf-8", "surrogatepass")
        else:
            return None
        digest = self._digest(presented)
        known = await self._recall(digest)
        if known is not None:
            return known
        if not authorization:
            return await self._learn_bearer(digest, cookie or "")
        scheme, _, credential = authorization.partition(" ")
        match scheme.lower():
            case "basic":
                access_key, secret = _split_basic(credential)
                return (await self._tried(digest, access_key, secret, client)).caller
            case "bearer":
                return await self._learn_bearer(digest, credential.strip())
            case _:
                raise unauthenticated()

    async def basic(self, access_key: str, secret: str) -> Caller:
        """Return the owner of an access key who knows its secret.

        Raises:
            DeniedError: `UNAUTHENTICATED`.
        """
        presented = f"basic\0{access_key}\0{secret}".encode("utf-8", "surrogatepass")
        digest = self._digest(presented)
        known = await self._recall(digest)
        return known if known is not None else (await self._learn_basic(digest, access_key, secret)).caller

    async def bearer(self, token: str) -> Caller:
        """Return the user of a session.

        Raises:
            DeniedError: `UNAUTHENTICATED`.
        """
        digest = self._digest(b"bearer\0" + token.encode("utf-8", "surrogatepass"))
        known = await self._recall(digest)
        return known if known is not None else await self._learn_bearer(digest, token)

    async def login(self, access_key: str, secret: str, *, client: str = "") -> Session:
        """Open a session for the owner of an access key.

        Raises:
            DeniedError: `UNAUTHENTICATED`.
            UnavailableError: `TOO_MANY_LOGINS`: too many wrong secrets came from `client`.
        """
        presented = f"basic\0{access_key}\0{secret}".encode("utf-8", "surrogatepass")
        account = await self._tried(self._digest(presented), access_key, secret, client)
        return self._tokens.issue(account.user, AccessKeyId(access_key))

    async def log_out(self, token: str) -> None:
        """End the session of a token, in every process; one that has ended already stays so.

        Raises:
            DeniedError: `UNAUTHENTICATED`: this is no token of ours, or it has expired.
        """
        claims = self._tokens.read(token)

        async def work(change: Change) -> None:
            user = await find_user(change, claims.user)
            ended = await find_ended_sessions(change, claims.user)
            if user is not None and claims.fits(user) and not has_ended(claims, ended):
                after = with_ended(ended, claims, now=self._clock.now())
                change.put(sessions_key(user.id), encode_ended_sessions(after))

        await self._records.change(work)

    async def signer_for(self, access_key: str) -> Signer | None:
        """Return the owner of an access key and its secret; None if nobody has such a key.

        Nothing is proven yet: that is for the signature to do.
        """
        if self._embedded or self._must_recheck():
            await self._recheck()
        known = self._signers.get(access_key)
        return known if known is not None else await self._learn_signer(access_key)

    def require_signature(self, access_key: str, secret: Secret, client: str) -> None:
        """Let a signature from `client` be verified; without an address, failures are not counted.

        Raises:
            UnavailableError: `TOO_MANY_LOGINS`: too many signatures from there did not hold.
        """
        if client and not self._signatures.is_calm:
            self._signatures.require(
                self._pair(client, access_key), self._credential(access_key, secret.text)
            )

    def signature_held(self, access_key: str, secret: Secret, client: str) -> None:
        """Note that `client` knows a secret: its failures are forgiven, and its signatures never wait."""
        if client and not (secret.is_proven and self._signatures.is_calm):
            secret.is_proven = True
            self._signatures.succeeded(
                self._pair(client, access_key), self._credential(access_key, secret.text)
            )

    def signature_failed(self, access_key: str, client: str) -> None:
        """Count a signature that does not hold."""
        if client:
            self._signatures.failed(self._pair(client, access_key))

    async def _recall(self, digest: bytes) -> Caller | None:
        if self._embedded or self._must_recheck():
            await self._recheck()
        known = self._known.get(digest)
        if known is None or (known.expires_at is not None and known.expires_at <= self._clock.now()):
            return None
        return known.caller

    def _must_recheck(self) -> bool:
        return (
            self._records.own_changes != self._own_changes
            or self._clock.monotonic() - self._checked_at >= AUTH_RECHECK_SECONDS
        )

    async def _recheck(self) -> None:
        # Taken before the read is sent: what is trusted is never older than it looks.
        now, own = self._clock.monotonic(), self._records.own_changes
        item = await self._records.kv.get(AUTH_PARTITION, GENERATION_KEY)
        self._observe(item.version if item is not None else NEVER)
        self._checked_at, self._own_changes = max(now, self._checked_at), max(own, self._own_changes)

    def _observe(self, generation: Version) -> None:
        if generation > self._generation:
            self._generation = generation
            self._known.clear()
            self._signers.clear()

    async def _tried(self, digest: bytes, access_key: str, secret: str, client: str) -> "_Account":
        """Learn who knows a secret, unless the client has failed too often."""
        if not client:
            return await self._learn_basic(digest, access_key, secret)
        pair, credential = self._pair(client, access_key), self._credential(access_key, secret)
        self._throttle.require(pair, credential)
        try:
            account = await self._learn_basic(digest, access_key, secret)
        except DeniedError:
            self._throttle.failed(pair)
            raise
        self._throttle.succeeded(pair, credential)
        return account

    def _pair(self, client: str, access_key: str) -> bytes:
        return self._digest(f"pair\0{network_of(client)}\0{access_key}".encode("utf-8", "surrogatepass"))

    def _credential(self, access_key: str, secret: str) -> bytes:
        return self._digest(f"credential\0{access_key}\0{secret}".encode("utf-8", "surrogatepass"))

    async def _learn_basic(self, digest: bytes, access_key: str, secret: str) -> "_Account":
        key_id = AccessKeyId(access_key) if is_auth_id(access_key) else _NOBODYS_KEY

        async def work(view: View) -> _Account | None:
            key = await find_access_key(view, key_id)
            compared = key if key is not None else _live(decode_access_key(self._decoy))
            if not self._keyring.opens(compared, secret) or key is None:
                return None
            user = await find_user(view, key.user)
            if user is None or key.id not in user.keys:
                return None
            return await _account(view, user)

        account, generation = await self._records.read(work)
        if account is None:
            raise unauthenticated()
        self._remember(digest, account.caller, generation, expires_at=None)
        return account

    async def _learn_signer(self, access_key: str) -> Signer | None:
        if not is_auth_id(access_key):
            return None

        async def work(view: View) -> Signer | None:
            key = await find_access_key(view, AccessKeyId(access_key))
            user = await find_user(view, key.user) if key is not None else None
            if key is None or user is None or key.id not in user.keys:
                return None
            return Signer((await _account(view, user)).caller, Secret(self._keyring.reveal(key)))

        signer, generation = await self._records.read(work)
        self._observe(generation)
        if signer is not None and generation == self._generation:
            if len(self._signers) >= AUTH_CACHE_ITEMS:
                self._signers.pop(next(iter(self._signers)))
            self._signers[access_key] = signer
        return signer

    async def _learn_bearer(self, digest: bytes, token: str) -> Caller:
        claims = self._tokens.read(token)

        async def work(view: View) -> _Account | None:
            user = await find_user(view, claims.user)
            if user is None or not claims.fits(user):
                return None
            if has_ended(claims, await find_ended_sessions(view, claims.user)):
                return None
            return await _account(view, user)

        account, generation = await self._records.read(work)
        if account is None:
            raise unauthenticated()
        self._remember(digest, account.caller, generation, expires_at=claims.expires_at)
        return account.caller

    def _remember(
        self, digest: bytes, caller: Caller, generation: Version, *, expires_at: Instant | None
    ) -> None:
        self._observe(generation)
        if generation != self._generation:
            return
        if len(self._known) >= AUTH_CACHE_ITEMS:
            self._known.pop(next(iter(self._known)))
        self._known[digest] = _Known(caller, expires_at)

    def _digest(self, presented: bytes) -> bytes:
        digest = self._keyed.copy()
        digest.update(presented)
        return digest.digest()


@dataclass(frozen=True, slots=True)
class _Known:
    """A caller that was recognised."""

    caller: Caller
    expires_at: Instant | None


@dataclass(frozen=True, slots=True)
class _Account:
    """A user and what follows from the user's record."""

    user: User
    caller: Caller


async def _account(view: View, user: User) -> _Account:
    policies = await effective_policies(view, user)
    caller = Caller(
        id=user.id,
        friendly_name=user.friendly_name,
        email=user.email,
        permissions=Permissions(policies, user=user.id),
    )
    return _Account(user, caller)


def _new_decoy(keyring: Keyring, ids: IdSource) -> AccessKey:
    """Return a key that nobody has, to compare a secret with when there is no other: it costs the same."""
    return AccessKey(
        id=_NOBODYS_KEY,
        user=UserId("-"),
        incarnation=_NOBODY,
        created_at=Instant(0),
        sealed_secret=keyring.seal(new_secret(ids), _NOBODYS_KEY, _NOBODY),
    )


def _live(record: AccessKey | Gone) -> AccessKey:
    assert isinstance(record, AccessKey)
    return record


def _split_basic(credential: str) -> tuple[str, str]:
    try:
        text = b64decode(credential.strip(), validate=True).decode()
    except (binascii.Error, ValueError) as error:
        raise unauthenticated() from error
    access_key, _, secret = text.partition(":")
    return access_key, secret
