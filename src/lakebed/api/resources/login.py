"""The way in: set-up, log-in, and what the login page needs to know."""

from typing import Annotated, Any

import msgspec

from lakebed.api.auth_bodies import CredentialsWithSecret, secret_body
from lakebed.api.call import Call
from lakebed.api.cookies import LOGIN_COOKIE, set_login_cookie
from lakebed.api.operation import Access, Operations
from lakebed.api.reply import empty_reply, json_reply
from lakebed.catalog.planned import unsupported
from lakebed.env.clock import SECOND
from lakebed.http.pages import require_known_host
from lakebed.http.reply import Reply
from lakebed.limits import LOGIN_SECONDS
from lakebed.model.auth import KeyPair

operations = Operations("auth")

_Text = Annotated[str, msgspec.Meta(min_length=1)]


class LoginConfig(msgspec.Struct):
    """How people log in. `RBAC` says that users, groups and policies are managed here."""

    RBAC: str = "internal"
    username_ui_placeholder: str = "Access Key ID"
    password_ui_placeholder: str = "Secret Access Key"  # noqa: S105  a label
    login_url: str = "/auth/login"
    login_url_method: str = "none"
    login_failed_message: str = "The credentials don't match."
    login_cookie_names: tuple[str, ...] = (LOGIN_COOKIE,)
    logout_url: str = "/logout"


class SetupState(msgspec.Struct):
    """Whether there is a first user yet."""

    state: str
    comm_prefs_missing: bool
    login_config: LoginConfig


class AccessKeyCredentials(msgspec.Struct):
    """A key pair that somebody chose."""

    access_key_id: _Text
    secret_access_key: _Text


class SetupBody(msgspec.Struct):
    """The first user, who may do everything."""

    username: _Text
    key: AccessKeyCredentials | None = None
    email: str = ""


class CommPrefs(msgspec.Struct):
    """Whom to tell about updates: nobody is told, nothing is sent anywhere."""

    email: str = ""


class LoginInformation(msgspec.Struct):
    """An access key."""

    access_key_id: str
    secret_access_key: str


class AuthenticationToken(msgspec.Struct):
    """A session's token, for a Bearer header, and when it ends."""

    token: str
    token_expiration: int


class AuthCapabilities(msgspec.Struct):
    """What the login page can offer."""

    invite_user: bool = False
    forgot_password: bool = False


class ExternalLogin(msgspec.Struct, rename={"identity_request": "identityRequest"}):
    """Proof of an identity in another system."""

    identity_request: dict[str, Any]
    token_expiration_duration: int = 0


class StsRequest(msgspec.Struct):
    """What an identity provider has sent."""

    code: str
    state: str
    redirect_uri: str
    ttl_seconds: int = 0


@operations.add(
    "GET",
    "/setup_lakefs",
    "getSetupState",
    replies={200: SetupState},
    access=Access.ANYONE,
    tag="internal",
)
async def get_setup_state(call: Call) -> Reply:
    """Say whether the installation was set up."""
    is_set_up = await call.services.auth.setup.is_set_up()
    state = "initialized" if is_set_up else "not_initialized"
    return json_reply(200, SetupState(state, comm_prefs_missing=False, login_config=LoginConfig()))


@operations.add(
    "POST",
    "/setup_lakefs",
    "setup",
    body=SetupBody,
    replies={200: CredentialsWithSecret},
    access=Access.ANYONE,
    tag="internal",
)
async def set_up(call: Call) -> Reply:
    """Create the first user, once."""
    require_known_host(call.raw_headers, call.services.front.hosts)
    body = call.body(SetupBody)
    pair = None
    if body.key is not None:
        pair = KeyPair(access_key_id=body.key.access_key_id, secret_access_key=body.key.secret_access_key)
    key = await call.services.auth.setup.set_up(body.username, pair=pair, email=body.email)
    return json_reply(200, secret_body(key))


@operations.add(
    "POST",
    "/setup_comm_prefs",
    "setupCommPrefs",
    body=CommPrefs,
    replies={200: None},
    access=Access.ANYONE,
    tag="internal",
)
async def set_comm_prefs(_call: Call) -> Reply:
    """Take note of nothing: no news is ever sent."""
    return empty_reply(200)


@operations.add(
    "POST",
    "/auth/login",
    "login",
    body=LoginInformation,
    replies={200: AuthenticationToken},
    access=Access.ANYONE,
)
async def log_in(call: Call) -> Reply:
    """Open a session: its token is in the body, and in a cookie."""
    body = call.body(LoginInformation)
    front = call.services.front
    session = await call.services.auth.authenticator.login(
        body.access_key_id,
        body.secret_access_key,
        client=front.proxies.client(call.peer, call.raw_headers),
    )
    secure = front.are_cookies_secure(call.peer, call.raw_headers)
    cookie = set_login_cookie(session.token, seconds=LOGIN_SECONDS, secure=secure)
    return json_reply(
        200,
        AuthenticationToken(session.token, session.expires_at // SECOND),
        headers=((b"set-cookie", cookie),),
    )


@operations.add(
    "GET",
    "/auth/capabilities",
    "getAuthCapabilities",
    replies={200: AuthCapabilities},
    access=Access.ANYONE,
    tag="internal",
)
async def get_capabilities(_call: Call) -> Reply:
    """Say what the login page can offer."""
    return json_reply(200, AuthCapabilities())


@operations.add(
    "POST",
    "/auth/external/principal/login",
    "externalPrincipalLogin",
    body=ExternalLogin,
    replies={200: AuthenticationToken},
    access=Access.ANYONE,
    tag="external",
)
async def log_in_external(_call: Call) -> Reply:
    """Log in with an identity of another system: not supported."""
    raise unsupported("logging in with an external identity is not supported: use an access key")


@operations.add(
    "POST",
    "/sts/login",
    "stsLogin",
    body=StsRequest,
    replies={200: AuthenticationToken},
    access=Access.ANYONE,
    tag="experimental",
)
async def log_in_sts(_call: Call) -> Reply:
    """Log in through a token service: not supported."""
    raise unsupported("logging in through a token service is not supported: use an access key")


@operations.add("GET", "/oidc/callback", "oauthCallback", replies={302: None}, access=Access.ANYONE)
async def oauth_callback(_call: Call) -> Reply:
    """Come back from an identity provider: not supported."""
    raise unsupported("OpenID Connect is not supported: use an access key")
