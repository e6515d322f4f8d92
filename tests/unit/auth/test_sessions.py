"""Sessions end before their tokens expire, in every process, and the list of them stays short."""

import pytest

from lakebed.auth.sessions import has_ended, with_ended
from lakebed.auth.tokens import Claims
from lakebed.env.clock import SECOND, Instant
from lakebed.errors import DeniedError
from lakebed.limits import AUTH_RECHECK_SECONDS, ENDED_SESSIONS_MAX, LOGIN_SECONDS
from lakebed.model.auth import AccessKeyId, Incarnation, UserId
from tests.unit.auth.world import PAIR, World

ACCESS_KEY, SECRET = PAIR.access_key_id, PAIR.secret_access_key


def claims(number: int, *, issued: int | None = None, incarnation: str = "i") -> Claims:
    at = Instant((number if issued is None else issued) * SECOND)
    return Claims(
        id=f"j{number}",
        user=UserId("ann"),
        issued_at=at,
        expires_at=Instant(at + LOGIN_SECONDS * SECOND),
        incarnation=Incarnation(incarnation),
        access_key=AccessKeyId("AKIA1"),
    )


def test_an_ended_session_is_listed_until_its_token_expires() -> None:
    first, second = claims(1), claims(2)
    ended = with_ended(None, first, now=Instant(5 * SECOND))
    assert has_ended(first, ended)
    assert not has_ended(second, ended)
    assert not has_ended(claims(1, incarnation="later"), ended), "a namesake created since"
    later = with_ended(ended, second, now=first.expires_at)
    assert [each.id for each in later.sessions] == ["j2"]
    assert with_ended(ended, first, now=Instant(6 * SECOND)) == ended


def test_a_list_that_would_be_too_long_ends_older_sessions_as_well() -> None:
    ended = None
    for number in range(1, ENDED_SESSIONS_MAX + 4):
        ended = with_ended(ended, claims(number), now=Instant(0))
    assert ended is not None
    assert len(ended.sessions) == ENDED_SESSIONS_MAX
    assert all(has_ended(claims(number), ended) for number in range(1, ENDED_SESSIONS_MAX + 4))
    assert has_ended(claims(999, issued=2), ended)
    assert not has_ended(claims(999, issued=ENDED_SESSIONS_MAX + 3), ended)
    assert has_ended(claims(1), with_ended(ended, claims(1000), now=Instant(0)))


@pytest.mark.parametrize("remote", [False, True])
async def test_logging_out_ends_one_session_in_every_process(remote: bool) -> None:
    installed = World(remote=remote)
    await installed.auth.setup.set_up("admin", pair=PAIR)
    here, there = installed.auth.authenticator, installed.process().authenticator
    session, other = await here.login(ACCESS_KEY, SECRET), await here.login(ACCESS_KEY, SECRET)
    for process in (here, there):
        assert (await process.bearer(session.token)).id == "admin"
    await here.log_out(session.token)
    await here.log_out(session.token)
    if remote:
        installed.clock.advance(AUTH_RECHECK_SECONDS)
    for process in (here, there):
        with pytest.raises(DeniedError):
            await process.bearer(session.token)
        with pytest.raises(DeniedError):
            await process.caller_for(authorization=None, cookie=session.token)
        assert (await process.bearer(other.token)).id == "admin"
        assert (await process.basic(ACCESS_KEY, SECRET)).id == "admin"


async def test_what_is_no_token_of_ours_ends_nothing(installed: World) -> None:
    for token in ("", "x", "e30.e30.e30"):
        with pytest.raises(DeniedError):
            await installed.auth.authenticator.log_out(token)
