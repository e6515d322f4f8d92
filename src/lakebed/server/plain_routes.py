"""Routes beside the API that need parts of the server: readiness, and the way out."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final

from lakebed.api.cookies import drop_login_cookie, login_cookie
from lakebed.api.errors import error_reply
from lakebed.api.reply import empty_reply, text_reply
from lakebed.api.services import Services
from lakebed.errors import DeniedError, ErrorKind, LakebedError
from lakebed.http.pages import require_own_page
from lakebed.http.reply import Reply

_LOGIN_PAGE: Final = b"/auth/login"


@dataclass(frozen=True, slots=True)
class PlainRequest:
    """What these routes look at."""

    headers: Mapping[bytes, bytes]
    peer: str = ""


async def ready(services: Services, _request: PlainRequest) -> Reply:
    """Say whether requests would be served: the worker runs, and its database answers."""
    try:
        is_set_up = await services.auth.setup.is_set_up()
    except LakebedError as error:
        return text_reply(503, f"not ready: {error}")
    return text_reply(200, "ready" if is_set_up else "ready to be set up")


async def log_out(services: Services, request: PlainRequest) -> Reply:
    """End the session, take the login cookie away, and show the login page.

    A page of another site cannot do it. A browser that says nothing of the page (over plain HTTP none says so of a link)
    is believed: nobody is harmed by having to log in again, and a session must be possible to end.
    """
    try:
        require_own_page(request.headers, services.front.hosts, by_cookie=False)
        token = _token(request.headers)
        if token:
            await services.auth.authenticator.log_out(token)
    except DeniedError as error:
        if error.kind is not ErrorKind.UNAUTHENTICATED:
            return error_reply(error)
    except LakebedError as error:
        # The cookie stays, so that the session can be ended later.
        return error_reply(error)
    cookie = drop_login_cookie(secure=services.front.are_cookies_secure(request.peer, request.headers))
    return empty_reply(307, headers=((b"location", _LOGIN_PAGE), (b"set-cookie", cookie)))


def _token(headers: Mapping[bytes, bytes]) -> str | None:
    scheme, _, token = headers.get(b"authorization", b"").decode("latin-1").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else login_cookie(headers.get(b"cookie"))


PLAIN_ROUTES: Final[dict[bytes, Callable[[Services, PlainRequest], Awaitable[Reply]]]] = {
    b"/_ready": ready,
    b"/logout": log_out,
}
