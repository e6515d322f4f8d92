"""Session tokens: JWTs, as a Bearer credential and as the value of the login cookie.

Claims as lakeFS has them (`jti`, `iss` = "auth", `sub` = user id, `aud` = "login", `iat`,
`exp`), and two of our own: `uid`, the incarnation of the user, so that a namesake created
later is not let in by an old token; `key`, the access key of the login, so that revoking
a key ends the sessions that were opened with it. Every token has both, and a `jti`, by
which its session is ended before the token expires.
"""

import uuid
from dataclasses import dataclass, field
from typing import Any, Final

import jwt

from lakebed.auth.caller import unauthenticated
from lakebed.auth.chance import random_bytes
from lakebed.auth.keyring import Keyring
from lakebed.env.clock import SECOND, Clock, Instant
from lakebed.env.ids import IdSource
from lakebed.limits import LOGIN_SECONDS
from lakebed.model.auth import AccessKeyId, Incarnation, User, UserId, is_auth_id

_ISSUER: Final = "auth"
_AUDIENCE: Final = "login"
# A UUID has 36 characters.
_ID_LENGTH_MAX: Final = 64
_ALGORITHMS: Final = ("HS256", "HS384", "HS512")


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """A login: its token, and when that ends."""

    token: str = field(repr=False)
    expires_at: Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class Claims:
    """What a token with a good signature says."""

    id: str
    user: UserId
    issued_at: Instant
    expires_at: Instant
    incarnation: Incarnation
    access_key: AccessKeyId

    def fits(self, user: User) -> bool:
        """Return whether the token was given to this user, with a key that the user still has."""
        return self.incarnation == user.incarnation and self.access_key in user.keys


class Tokens:
    """Signs and reads session tokens."""

    def __init__(self, keyring: Keyring, *, clock: Clock, ids: IdSource) -> None:
        self._key = keyring.token_key
        self._clock = clock
        self._ids = ids

    def issue(self, user: User, access_key: AccessKeyId) -> Session:
        """Return a session of a user who has shown an access key."""
        now = self._clock.now() // SECOND
        expires = now + LOGIN_SECONDS
        claims = {
            "jti": str(uuid.UUID(bytes=random_bytes(self._ids, 16), version=4)),
            "iss": _ISSUER,
            "sub": user.id,
            "aud": _AUDIENCE,
            "iat": now,
            "exp": expires,
            "uid": user.incarnation,
            "key": access_key,
        }
        token = jwt.encode(claims, self._key, algorithm=_ALGORITHMS[0])
        return Session(token=token, expires_at=Instant(expires * SECOND))

    def read(self, token: str) -> Claims:
        """Return what a token says.

        Raises:
            DeniedError: `UNAUTHENTICATED`: not signed with our key, expired, or not for this.
        """
        claims = self._verified(token)
        session, user, issued, expires = (claims.get(name) for name in ("jti", "sub", "iat", "exp"))
        incarnation, access_key = claims.get("uid"), claims.get("key")
        if (
            claims.get("iss") != _ISSUER
            or claims.get("aud", "") not in (_AUDIENCE, "")
            or not isinstance(user, str)
            or not is_auth_id(user)
            or not isinstance(session, str)
            or not 0 < len(session) <= _ID_LENGTH_MAX
            or not isinstance(issued, int)
            or not isinstance(expires, int)
            or not isinstance(incarnation, str)
            or not isinstance(access_key, str)
            or expires * SECOND <= self._clock.now()
        ):
            raise unauthenticated()
        return Claims(
            id=session,
            user=UserId(user),
            issued_at=Instant(issued * SECOND),
            expires_at=Instant(expires * SECOND),
            incarnation=Incarnation(incarnation),
            access_key=AccessKeyId(access_key),
        )

    def _verified(self, token: str) -> dict[str, Any]:
        try:
            return jwt.decode(
                token,
                self._key,
                algorithms=list(_ALGORITHMS),
                # Times are ours to check, by our clock; the rest is checked above, in one place.
                options={
                    "verify_signature": True,
                    "verify_exp": False,
                    "verify_iat": False,
                    "verify_nbf": False,
                    "verify_aud": False,
                    "verify_iss": False,
                },
            )
        except (jwt.PyJWTError, UnicodeEncodeError) as error:
            raise unauthenticated() from error
