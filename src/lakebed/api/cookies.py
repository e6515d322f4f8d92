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


def set_login_cookie(token: str, *, seconds: int, secure: bool) -> bytes:
    """Return the `Set-Cookie` header of a session: out of reach of scripts and of other sites' forms."""
    guard = "; Secure" if secure else ""
    return f"{LOGIN_COOKIE}={token}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Lax{guard}".encode()


def drop_login_cookie(*, secure: bool) -> bytes:
    """Return the `Set-Cookie` header that ends a browser's session."""
    return set_login_cookie("", seconds=0, secure=secure)
