"""The login cookie: its name is the one that clients of lakeFS know."""

from typing import Final

LOGIN_COOKIE: Final = "internal_auth_session"


def login_cookie(header: bytes | None) -> str | None:
    """Return the value of the login cookie in a `Cookie` header."""
    for pair in header.decode("latin-1").split(";") if header else ():
        name, _, value = pair.strip().partition("=")
        if name == LOGIN_COOKIE:
            return value
    return None


def set_login_cookie(token: str, *, seconds: int) -> bytes:
    """Return the `Set-Cookie` header of a session: out of reach of scripts and of other sites' forms."""
    return f"{LOGIN_COOKIE}={token}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Lax".encode()
