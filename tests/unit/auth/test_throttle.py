"""Guessing a secret is slow, and nobody else has to wait for it."""

import pytest

from lakebed.auth.throttle import Throttle, network_of
from lakebed.errors import DeniedError, ErrorKind, UnavailableError
from lakebed.limits import LOGIN_FAILURES_KEPT, LOGIN_FAILURES_MAX, LOGIN_FAILURES_SECONDS
from tests.unit.auth.test_authenticator import GOOD, basic_header
from tests.unit.auth.world import PAIR, OwnedClock, World

ACCESS_KEY, SECRET = PAIR.access_key_id, PAIR.secret_access_key


async def guessed(world: World, times: int, *, client: str = "192.0.2.1") -> list[str]:
    """Log in with wrong secrets, by turns as a login and as a header, and return what became of it."""
    outcomes = []
    for number in range(times):
        try:
            if number % 2:
                await world.auth.authenticator.login(ACCESS_KEY, f"guess {number}", client=client)
            else:
                header = basic_header(ACCESS_KEY, f"guess {number}")
                await world.auth.authenticator.caller_for(authorization=header, cookie=None, client=client)
        except (DeniedError, UnavailableError) as error:
            outcomes.append(error.kind)
    return outcomes


async def test_a_client_that_guesses_has_to_wait_and_others_do_not(installed: World) -> None:
    outcomes = await guessed(installed, LOGIN_FAILURES_MAX + 5)
    assert outcomes == [ErrorKind.UNAUTHENTICATED] * LOGIN_FAILURES_MAX + [ErrorKind.TOO_MANY_LOGINS] * 5
    authenticator = installed.auth.authenticator
    with pytest.raises(UnavailableError, match="wait"):
        await authenticator.login(ACCESS_KEY, SECRET, client="192.0.2.1")
    # The owner at another address, and another user at the same one.
    await authenticator.login(ACCESS_KEY, SECRET, client="192.0.2.2")
    key = await installed.auth.credentials.create("admin")
    await authenticator.login(key.id, key.secret_access_key, client="192.0.2.1")
    installed.clock.advance(LOGIN_FAILURES_SECONDS / LOGIN_FAILURES_MAX)
    await authenticator.login(ACCESS_KEY, SECRET, client="192.0.2.1")
    assert await guessed(installed, LOGIN_FAILURES_MAX) == [ErrorKind.UNAUTHENTICATED] * LOGIN_FAILURES_MAX


async def test_a_credential_that_was_recognised_before_is_not_held_up(installed: World) -> None:
    authenticator = installed.auth.authenticator
    await authenticator.caller_for(authorization=GOOD, cookie=None, client="192.0.2.1")
    await guessed(installed, LOGIN_FAILURES_MAX + 1)
    assert await authenticator.caller_for(authorization=GOOD, cookie=None, client="192.0.2.1") is not None
    # A change of users clears what was recognised, but not that the secret was right.
    await installed.auth.users.create("ann")
    assert await authenticator.caller_for(authorization=GOOD, cookie=None, client="192.0.2.1") is not None
    await guessed(installed, LOGIN_FAILURES_MAX + 1)
    await authenticator.login(ACCESS_KEY, SECRET, client="192.0.2.1")


def test_failures_of_a_bounded_number_of_pairs_are_remembered() -> None:
    throttle = Throttle(OwnedClock())
    for number in range(LOGIN_FAILURES_KEPT + 100):
        throttle.failed(b"%d" % number)
        throttle.succeeded(b"", b"%d" % number)
    assert len(throttle._failures) == len(throttle._proven) == LOGIN_FAILURES_KEPT


def test_a_client_of_ipv6_is_its_network() -> None:
    assert network_of("2001:db8::1") == network_of("2001:db8::ffff:1")
    assert network_of("2001:db8:0:1::1") != network_of("2001:db8::1")
    assert network_of("192.0.2.1") != network_of("192.0.2.2")
    assert network_of("not an address") == "not an address"
