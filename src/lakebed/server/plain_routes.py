"""Routes beside the API that need parts of the server: readiness, and the way out."""

from collections.abc import Awaitable, Callable
from typing import Final

from lakebed.api.cookies import drop_login_cookie
from lakebed.api.reply import empty_reply, text_reply
from lakebed.api.services import Services
from lakebed.errors import LakebedError
from lakebed.http.reply import Reply

_LOGIN_PAGE: Final = b"/auth/login"


async def ready(services: Services) -> Reply:
    """Say whether requests would be served: the worker runs, and its database answers."""
    try:
        is_set_up = await services.auth.setup.is_set_up()
    except LakebedError as error:
        return text_reply(503, f"not ready: {error}")
    return text_reply(200, "ready" if is_set_up else "ready to be set up")


async def log_out(services: Services) -> Reply:
    """Take the login cookie away, and show the login page."""
    cookie = drop_login_cookie(secure=services.secure_cookies)
    return empty_reply(307, headers=((b"location", _LOGIN_PAGE), (b"set-cookie", cookie)))


PLAIN_ROUTES: Final[dict[bytes, Callable[[Services], Awaitable[Reply]]]] = {
    b"/_ready": ready,
    b"/logout": log_out,
}
