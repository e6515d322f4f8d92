import asyncio
import base64
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.auth.actions import Action
from lakebed.auth.auth import Auth
from lakebed.auth.authenticator import _split_basic
from lakebed.auth.caller import UNAUTHENTICATED_TEXT
from lakebed.env.ids import SeededIds
from lakebed.errors import DeniedError, ErrorKind, UnavailableError
from lakebed.kv.wrappers.faults import FaultyKV, Operation, Refused, Script
from lakebed.limits import AUTH_RECHECK_SECONDS, LOGIN_SECONDS
from lakebed.model.auth import IssuedKey
from tests.unit.auth.world import PAIR, World, allow

ACCESS_KEY, SECRET = PAIR.access_key_id, PAIR.secret_access_key


def basic_header(access_key: str, secret: str) -> str:
    return "Basic " + base64.b64encode(f"{access_key}:{secret}".encode()).decode()


GOOD = basic_header(ACCESS_KEY, SECRET)


async def refused(call: Any) -> None:
    with pytest.raises(DeniedError) as caught:
        await call
    assert caught.value.kind is ErrorKind.UNAUTHENTICATED
    assert str(caught.value) == UNAUTHENTICATED_TEXT == "error authenticating request"


async def works(auth: Auth, key: IssuedKey) -> bool:
    try:
        await auth.authenticator.basic(key.id, key.secret_access_key)
    except DeniedError:
        return False
    return True


class CountingKV:
    """Counts what an authentication asks of the store."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.gets = 0
        self.get_manys = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def get(self, partition: str, key: bytes) -> Any:
        self.gets += 1
        return await self._inner.get(partition, key)

    async def get_many(self, lookups: Any) -> Any:
        self.get_manys += 1
        return await self._inner.get_many(lookups)


async def test_the_owner_of_a_key_is_recognised_every_way(installed: World) -> None:
    authenticator = installed.auth.authenticator
    session = await authenticator.login(ACCESS_KEY, SECRET)
    for caller in [
        await authenticator.basic(ACCESS_KEY, SECRET),
        await authenticator.bearer(session.token),
        await authenticator.caller_for(authorization=GOOD, cookie=None),
        await authenticator.caller_for(authorization=GOOD.replace("Basic", "basic"), cookie=None),
        await authenticator.caller_for(authorization=f"Bearer {session.token}", cookie=None),
        await authenticator.caller_for(authorization=None, cookie=session.token),
        await authenticator.caller_for(authorization="", cookie=session.token),
    ]:
        assert caller is not None
        assert caller.id == "admin"
        assert caller.may(Action.CREATE_USER, "*")


async def test_a_request_without_a_credential_comes_from_nobody(installed: World) -> None:
    assert await installed.auth.authenticator.caller_for(authorization=None, cookie=None) is None
    assert await installed.auth.authenticator.caller_for(authorization="", cookie="") is None


@pytest.mark.parametrize(
    "header",
    [
        basic_header(ACCESS_KEY, "wrong"),
        basic_header(ACCESS_KEY, SECRET + "x"),
        basic_header(ACCESS_KEY, SECRET[:-1]),
        basic_header(ACCESS_KEY, ""),
        basic_header("AKIAUNKNOWN", SECRET),
        basic_header("", ""),
        basic_header("x" * 5000, "y" * 5000),
        basic_header("a/b\0", SECRET),
        "Basic",
        "Basic ",
        "Basic !!!",
        "Basic " + base64.b64encode(b"\xff\xfe:x").decode(),
        "Basic " + base64.b64encode(b"nocolon").decode(),
        "Bearer",
        "Bearer x.y.z",
        "Bearer \udc80",
        "Digest abc",
        "AWS4-HMAC-SHA256 Credential=x",
        "\udc80",
    ],
)
async def test_every_bad_header_fails_in_the_same_words(installed: World, header: str) -> None:
    await refused(installed.auth.authenticator.caller_for(authorization=header, cookie=None))


async def test_a_bad_header_is_not_saved_by_a_good_cookie(installed: World) -> None:
    token = (await installed.auth.authenticator.login(ACCESS_KEY, SECRET)).token
    bad = basic_header(ACCESS_KEY, "wrong")
    await refused(installed.auth.authenticator.caller_for(authorization=bad, cookie=token))


@given(st.text(max_size=30))
def test_any_text_after_basic_splits_or_is_refused(text: str) -> None:
    try:
        _split_basic(text)
    except DeniedError:
        return


async def test_an_unknown_key_takes_the_same_steps_as_a_wrong_secret(installed: World) -> None:
    seen = []
    for access_key, secret in [(ACCESS_KEY, "wrong"), ("AKIAUNKNOWN", SECRET), ("not/an/id", SECRET)]:
        kv = CountingKV(installed.kv)
        auth = installed.process(kv=kv)
        opened = []
        keyring = auth.authenticator._keyring
        opens = keyring.opens
        keyring.opens = lambda key, secret, opens=opens, opened=opened: (
            opened.append(len(key.sealed_secret)) or opens(key, secret)
        )
        await refused(auth.authenticator.basic(access_key, secret))
        seen.append((kv.gets, kv.get_manys, opened))
    assert seen == [(1, 1, [12 + 40 + 16])] * 3


async def test_a_credential_that_was_seen_costs_one_small_read(installed: World) -> None:
    kv = CountingKV(installed.kv)
    authenticator = installed.process(kv=kv).authenticator
    first = await authenticator.caller_for(authorization=GOOD, cookie=None)
    kv.gets = kv.get_manys = 0
    for _ in range(3):
        assert await authenticator.caller_for(authorization=GOOD, cookie=None) is first
    assert (kv.gets, kv.get_manys) == (3, 0)


@pytest.mark.parametrize("remote", [False, True], ids=["embedded", "remote"])
async def test_a_credential_that_failed_is_tried_again(remote: bool) -> None:
    world = World(remote=remote)
    await refused(world.auth.authenticator.basic(ACCESS_KEY, SECRET))
    await world.process().setup.set_up("admin", pair=PAIR)
    assert (await world.auth.authenticator.basic(ACCESS_KEY, SECRET)).id == "admin"


async def revoke_key(auth: Auth, key: IssuedKey) -> None:
    await auth.credentials.delete("ann", key.id)


async def delete_user(auth: Auth, _key: IssuedKey) -> None:
    await auth.users.delete("ann")


async def replace_user(auth: Auth, _key: IssuedKey) -> None:
    await auth.users.delete("ann")
    await auth.users.create("ann")


@pytest.mark.parametrize("revoke", [revoke_key, delete_user, replace_user])
async def test_a_revoked_key_fails_at_the_next_request_in_every_process(installed: World, revoke) -> None:
    processes = [installed.auth, installed.process(), installed.process()]
    await installed.auth.users.create("ann")
    key = await installed.auth.credentials.create("ann")
    session = await installed.auth.authenticator.login(key.id, key.secret_access_key)
    for process in processes:
        assert await works(process, key)
        await process.authenticator.bearer(session.token)
    await revoke(processes[2], key)
    for process in processes:
        assert not await works(process, key)
        await refused(process.authenticator.bearer(session.token))
        await refused(process.authenticator.caller_for(authorization=None, cookie=session.token))


async def test_a_change_of_permissions_counts_at_the_next_request_in_every_process(installed: World) -> None:
    processes = [installed.auth, installed.process()]
    auth = installed.process()
    await auth.users.create("ann")
    key = await auth.credentials.create("ann")

    async def may_write() -> set[bool]:
        callers = [await p.authenticator.basic(key.id, key.secret_access_key) for p in processes]
        return {caller.may(Action.WRITE_OBJECT, "*") for caller in callers}

    assert await may_write() == {False}
    await auth.groups.add_member("Developers", "ann")
    assert await may_write() == {True}
    await auth.groups.remove_member("Developers", "ann")
    assert await may_write() == {False}
    await auth.policies.create("p", [allow("fs:Write*")])
    await auth.attachments.attach_to_user("ann", "p")
    assert await may_write() == {True}
    await auth.policies.update("p", [allow("fs:Read*")])
    assert await may_write() == {False}
    await auth.groups.create("team")
    await auth.groups.add_member("team", "ann")
    await auth.attachments.attach_to_group("team", "FSFullAccess")
    assert await may_write() == {True}
    await auth.groups.delete("team")
    assert await may_write() == {False}


async def test_on_a_remote_store_a_revoked_key_fails_at_once_where_it_was_revoked_and_soon_elsewhere() -> (
    None
):
    world = World(remote=True)
    await world.auth.setup.set_up("admin", pair=PAIR)
    kv = CountingKV(world.kv)
    other = world.process(kv=kv)
    key = await world.auth.credentials.create("admin")
    assert await works(other, key)
    assert await works(world.auth, key)
    kv.gets = kv.get_manys = 0
    world.clock.advance(AUTH_RECHECK_SECONDS - 0.1)
    assert await works(other, key)
    assert (kv.gets, kv.get_manys) == (0, 0)
    await world.auth.credentials.delete("admin", key.id)
    assert not await works(world.auth, key)
    world.clock.advance(0.1)
    assert not await works(other, key)


async def test_on_a_remote_store_a_check_that_failed_does_not_count_as_one() -> None:
    world = World(remote=True)
    await world.auth.setup.set_up("admin", pair=PAIR)
    kv = FaultyKV(world.kv, plan=Script({}), clock=world.clock)
    other = world.process(kv=kv)
    key = await world.auth.credentials.create("admin")
    assert await works(other, key)
    await world.auth.credentials.delete("admin", key.id)
    world.clock.advance(AUTH_RECHECK_SECONDS)
    kv.plan = Script({Operation.GET: [Refused()]})
    with pytest.raises(UnavailableError):
        await works(other, key)
    assert not await works(other, key)


async def test_what_was_read_before_a_change_is_not_remembered_after_it(installed: World) -> None:
    """The key is revoked after it was read and before the answer is filed away."""
    key = await installed.auth.credentials.create("admin")
    other = installed.process()
    authenticator = other.authenticator
    remember = authenticator._remember

    async def revoke() -> None:
        await installed.auth.credentials.delete("admin", key.id)

    pending = []

    def late_remember(*args: Any, **kwargs: Any) -> None:
        pending.append((args, kwargs))

    authenticator._remember = late_remember
    assert await works(other, key)
    await revoke()
    assert not await works(other, key)
    authenticator._remember = remember
    for args, kwargs in pending:
        remember(*args, **kwargs)
    assert not await works(other, key)


async def test_the_memory_has_a_limit(installed: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakebed.auth.authenticator.AUTH_CACHE_ITEMS", 3)
    keys = [await installed.auth.credentials.create("admin") for _ in range(5)]
    for key in keys:
        assert await works(installed.auth, key)
    assert len(installed.auth.authenticator._known) == 3
    for key in keys:
        assert await works(installed.auth, key)


async def test_a_session_ends(installed: World) -> None:
    authenticator = installed.auth.authenticator
    session = await authenticator.login(ACCESS_KEY, SECRET)
    assert session.expires_at == installed.clock.now() + LOGIN_SECONDS * 1_000_000
    installed.clock.advance(LOGIN_SECONDS - 1)
    assert (await authenticator.bearer(session.token)).id == "admin"
    installed.clock.advance(1)
    await refused(authenticator.bearer(session.token))
    await refused(installed.process().authenticator.bearer(session.token))


async def test_a_login_needs_the_secret(installed: World) -> None:
    await refused(installed.auth.authenticator.login(ACCESS_KEY, "wrong"))
    await refused(installed.auth.authenticator.login("AKIAUNKNOWN", SECRET))


async def test_a_session_opened_with_another_key_outlives_a_revoked_one(installed: World) -> None:
    first, second = [await installed.auth.credentials.create("admin") for _ in range(2)]
    session = await installed.auth.authenticator.login(first.id, first.secret_access_key)
    await installed.auth.credentials.delete("admin", second.id)
    assert (await installed.auth.authenticator.bearer(session.token)).id == "admin"


@pytest.mark.parametrize("seeds", range(3))
async def test_while_keys_come_and_go_a_revoked_one_never_works_again(installed: World, seeds: int) -> None:
    """Several processes make, use and revoke keys of one user at the same time."""
    processes = [installed.interleaved(seed) for seed in range(10 * seeds, 10 * seeds + 4)]
    revoked: list[IssuedKey] = []

    async def live(process: Auth, seed: int) -> None:
        ids = SeededIds(seed)
        for _ in range(10):
            key = await process.credentials.create("admin")
            assert await works(process, key)
            assert all([not await works(process, each) for each in list(revoked)])
            if ids.jitter() < 1:
                await process.credentials.delete("admin", key.id)
                revoked.append(key)
            assert await works(process, key) is (key not in revoked)

    await asyncio.gather(*(live(process, seed) for seed, process in enumerate(processes)))
    left = {key.id for key in (await installed.auth.credentials.list("admin", amount=1000)).results}
    assert len(left) == 41 - len(revoked)
    assert revoked
    assert not left & {key.id for key in revoked}


async def test_memberships_changed_by_many_at_once_are_all_kept(installed: World) -> None:
    processes = [installed.interleaved(seed) for seed in range(4)]
    names = [f"u{number}" for number in range(20)]
    await asyncio.gather(*(processes[n % 4].users.create(name) for n, name in enumerate(names)))
    await asyncio.gather(
        *(processes[n % 4].groups.add_member("Viewers", name) for n, name in enumerate(names)),
        *(processes[(n + 1) % 4].groups.add_member("Developers", name) for n, name in enumerate(names)),
        *(processes[(n + 2) % 4].credentials.create(name) for n, name in enumerate(names)),
    )
    for group in ("Viewers", "Developers"):
        members = (await installed.auth.groups.members(group)).results
        assert sorted(user.id for user in members) == sorted(names)
        assert all(len(user.keys) == 1 for user in members)


async def test_a_caller_is_compared_by_who_it_is(installed: World) -> None:
    caller = await installed.auth.authenticator.basic(ACCESS_KEY, SECRET)
    assert replace(caller) == caller
    assert "permissions" not in repr(caller)
