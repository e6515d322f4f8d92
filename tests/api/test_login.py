"""The way in: what is open before set-up, set-up itself, and the cookie."""

from dataclasses import replace

import pytest

from lakebed.api.app import RestApp
from lakebed.api.cookies import LOGIN_COOKIE, drop_login_cookie
from lakebed.api.table import OPERATIONS
from lakebed.http.front import Front, SecureCookies
from lakebed.http.proxies import Proxies
from lakebed.testing.asgi import AsgiClient, basic
from lakebed.testing.rest import Rest, open_rest
from tests.api.samples import sample

# Health, set-up, and what a login page shows before anybody has logged in: constants, all of them.
OPEN_BEFORE_SET_UP = {"healthCheck", "getSetupState", "setup", "setupCommPrefs", "getAuthCapabilities"}

# Ways in that this server does not have; they say so to everybody.
NOT_SUPPORTED = {"externalPrincipalLogin", "stsLogin", "oauthCallback"}


@pytest.mark.parametrize(
    "authorization",
    [None, basic("AKIAIOSFOLQUICKSTART", "guess"), "Bearer x"],
    ids=["none", "basic", "bearer"],
)
async def test_before_set_up_only_health_and_set_up_are_open(authorization: str | None) -> None:
    async with open_rest(set_up=False) as rest:
        client = rest.anonymous.as_user(authorization)
        # Set-up itself comes last: after it, it is done.
        for operation in sorted(OPERATIONS, key=lambda each: each.id == "setup"):
            answer = await sample(operation).send(client)
            if operation.id in OPEN_BEFORE_SET_UP:
                assert answer.status in operation.replies, operation.id
            else:
                assert answer.status == (501 if operation.id in NOT_SUPPORTED else 401), operation.id


@pytest.mark.parametrize(
    ("front", "secure"),
    [
        (Front(), False),
        (Front(tls=True), True),
        (Front(tls=True, secure_cookies=SecureCookies.NEVER), False),
        (Front(secure_cookies=SecureCookies.ALWAYS), True),
        (Front(proxies=Proxies(["10.0.0.0/8"])), True),
        (Front(proxies=Proxies(["10.2.0.0/16"])), False),
        (Front(proxies=Proxies(["10.0.0.0/8"]), secure_cookies=SecureCookies.NEVER), False),
    ],
)
async def test_the_cookie_is_for_https_only_if_the_login_came_that_way_or_the_settings_say_so(
    rest: Rest, front: Front, secure: bool
) -> None:
    key = await rest.auth.credentials.create("admin")
    client = AsgiClient(RestApp(OPERATIONS, replace(rest.app._services, front=front)))
    body = {"access_key_id": key.id, "secret_access_key": key.secret_access_key}
    forwarded = {"x-forwarded-proto": "https"}
    answer = await client("POST", "/auth/login", json=body, headers=forwarded, peer="10.1.2.3")
    cookie, *attributes = answer.headers["set-cookie"].split("; ")
    assert cookie == f"{LOGIN_COOKIE}={answer.json()['token']}"
    assert {"HttpOnly", "SameSite=Lax", "Path=/"} <= set(attributes)
    assert ("Secure" in attributes) == secure
    assert (await client("GET", "/user", headers={"Cookie": cookie})).status == 200


def test_logging_out_drops_the_cookie_that_logging_in_sets() -> None:
    assert drop_login_cookie(secure=True) == (
        f"{LOGIN_COOKIE}=; Path=/; Max-Age=0; HttpOnly; SameSite=Lax; Secure".encode()
    )
