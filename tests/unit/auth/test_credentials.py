import base64
import json
import re
from dataclasses import replace

import pytest

from lakebed.auth.chance import new_access_key_id, new_secret, random_bytes
from lakebed.auth.keyring import Keyring
from lakebed.auth.keys import AUTH_PARTITION, access_key_key
from lakebed.env.clock import Instant
from lakebed.env.ids import SeededIds, SystemIds
from lakebed.errors import CorruptError, ErrorKind, LakebedError
from lakebed.format.auth_records import decode_access_key, encode_access_key
from lakebed.kv.port import Expect
from lakebed.model.auth import AccessKey, AccessKeyId, Incarnation, UserId
from tests.unit.auth.world import KEY, PAIR, START, World


async def test_a_key_is_shown_once_and_kept(installed: World) -> None:
    issued = await installed.auth.credentials.create("admin")
    kept = await installed.auth.credentials.get("admin", issued.id)
    assert (kept.id, kept.user, kept.created_at) == (issued.id, "admin", START)
    assert not hasattr(kept, "secret_access_key")
    assert {key.id for key in (await installed.auth.credentials.list("admin")).results} == {
        PAIR.access_key_id,
        issued.id,
    }


@pytest.mark.parametrize(
    ("call", "kind"),
    [
        (lambda c: c.create("nobody"), ErrorKind.USER_NOT_FOUND),
        (lambda c: c.list("nobody"), ErrorKind.USER_NOT_FOUND),
        (lambda c: c.get("admin", "AKIANONE"), ErrorKind.ACCESS_KEY_NOT_FOUND),
        (lambda c: c.delete("admin", "AKIANONE"), ErrorKind.ACCESS_KEY_NOT_FOUND),
        (lambda c: c.create("admin", pair=PAIR), ErrorKind.ACCESS_KEY_EXISTS),
        (lambda c: c.get("admin", "a/b"), ErrorKind.INVALID_AUTH_ID),
    ],
)
async def test_a_wrong_name_says_which(installed: World, call, kind: ErrorKind) -> None:
    with pytest.raises(LakebedError) as caught:
        await call(installed.auth.credentials)
    assert caught.value.kind is kind


async def test_a_key_belongs_to_one_user(installed: World) -> None:
    await installed.auth.users.create("ann")
    for call in (installed.auth.credentials.get, installed.auth.credentials.delete):
        with pytest.raises(LakebedError) as caught:
            await call("ann", PAIR.access_key_id)
        assert caught.value.kind is ErrorKind.ACCESS_KEY_NOT_FOUND


async def test_a_deleted_key_can_be_given_to_somebody_else(installed: World) -> None:
    await installed.auth.users.create("ann")
    await installed.auth.credentials.delete("admin", PAIR.access_key_id)
    await installed.auth.credentials.create("ann", pair=PAIR)
    caller = await installed.auth.authenticator.basic(PAIR.access_key_id, PAIR.secret_access_key)
    assert caller.id == "ann"


async def test_no_secret_is_stored_in_clear_and_none_at_all_after_deletion(installed: World) -> None:
    auth = installed.auth
    await auth.users.create("ann")
    given = await auth.credentials.create("ann")
    session = await auth.authenticator.login(given.id, given.secret_access_key)
    secrets = [PAIR.secret_access_key, given.secret_access_key]
    forms = [
        form
        for secret in secrets
        for form in (secret.encode(), secret.encode()[::-1], base64.b64encode(secret.encode()))
    ]
    forms += [base64.b64decode(given.secret_access_key), KEY, session.token.encode()]
    stored = await installed.stored_bytes()
    assert given.id.encode() in stored
    assert [form for form in forms if form in stored] == []
    sealed = (await auth.credentials.get("ann", given.id)).sealed_secret
    assert sealed in stored
    await auth.users.delete("ann")
    assert sealed not in await installed.stored_bytes()


async def test_no_repr_shows_a_secret(installed: World) -> None:
    auth = installed.auth
    given = await auth.credentials.create("admin")
    session = await auth.authenticator.login(PAIR.access_key_id, PAIR.secret_access_key)
    kept = await auth.credentials.get("admin", given.id)
    caller = await auth.authenticator.basic(PAIR.access_key_id, PAIR.secret_access_key)
    installation = await auth.setup.installation()
    keyring = Keyring(KEY, ids=SeededIds(1))
    things = [PAIR, given, session, kept, caller, installation, auth, keyring, auth.authenticator]
    shown = "".join(f"{thing!r}{thing}" for thing in things)
    for secret in [
        PAIR.secret_access_key,
        given.secret_access_key,
        session.token,
        repr(kept.sealed_secret),
        repr(keyring.token_key),
    ]:
        assert secret not in shown


async def test_the_memory_of_who_was_seen_holds_no_secret(installed: World) -> None:
    authenticator = installed.auth.authenticator
    header = base64.b64encode(f"{PAIR.access_key_id}:{PAIR.secret_access_key}".encode()).decode()
    await authenticator.caller_for(authorization=f"Basic {header}", cookie=None)
    await authenticator.basic(PAIR.access_key_id, PAIR.secret_access_key)
    assert len(authenticator._known) == 2
    for digest in authenticator._known:
        assert len(digest) == 32
        assert PAIR.secret_access_key.encode() not in digest


def test_two_keys_of_one_secret_look_different_at_rest() -> None:
    keyring = Keyring(KEY, ids=SystemIds())
    place = (AccessKeyId("AKIA"), Incarnation("i"))
    assert keyring.seal("secret", *place) != keyring.seal("secret", *place)


def key_with(sealed: bytes, *, name: str = "AKIA", owner: str = "i") -> AccessKey:
    return AccessKey(
        id=AccessKeyId(name),
        user=UserId("ann"),
        incarnation=Incarnation(owner),
        created_at=Instant(0),
        sealed_secret=sealed,
    )


def test_a_sealed_secret_opens_only_where_it_belongs() -> None:
    keyring = Keyring(KEY, ids=SystemIds())
    sealed = keyring.seal("secret", AccessKeyId("AKIA"), Incarnation("i"))
    assert keyring.opens(key_with(sealed), "secret")
    assert not keyring.opens(key_with(sealed), "Secret")
    assert not keyring.opens(key_with(sealed), "secret2")
    assert not keyring.opens(key_with(sealed), "")
    for moved in (
        key_with(sealed, name="AKIB"),
        key_with(sealed, owner="j"),
        key_with(sealed[:-1] + bytes([sealed[-1] ^ 1])),
        key_with(b""),
    ):
        with pytest.raises(CorruptError):
            keyring.opens(moved, "secret")
    with pytest.raises(CorruptError):
        Keyring(b"another key of that length", ids=SystemIds()).opens(key_with(sealed), "secret")


async def test_a_key_record_copied_to_another_name_opens_nothing(installed: World) -> None:
    item = await installed.kv.get(AUTH_PARTITION, access_key_key(AccessKeyId(PAIR.access_key_id)))
    assert item is not None
    stolen = decode_access_key(item.value)
    assert isinstance(stolen, AccessKey)
    forged = replace(stolen, id=AccessKeyId("AKIAFORGED"))
    await installed.kv.swap(
        AUTH_PARTITION, access_key_key(forged.id), encode_access_key(forged), expected=Expect.ABSENT
    )
    with pytest.raises(LakebedError):
        await installed.auth.authenticator.basic("AKIAFORGED", PAIR.secret_access_key)


@pytest.mark.parametrize("left_over", ["users/admin", f"keys/{PAIR.access_key_id}"])
async def test_half_of_a_deleted_user_opens_nothing(installed: World, left_over: str) -> None:
    old = await installed.kv.get(AUTH_PARTITION, left_over.encode())
    assert old is not None
    await installed.auth.users.delete("admin")
    await installed.auth.users.create("admin")
    await installed.kv.swap(AUTH_PARTITION, left_over.encode(), old.value, expected=Expect.ANY)
    with pytest.raises(LakebedError):
        await installed.process().authenticator.basic(PAIR.access_key_id, PAIR.secret_access_key)


def test_new_keys_have_the_form_that_lakefs_gives_out() -> None:
    for ids in (SystemIds(), SeededIds(3)):
        assert re.fullmatch(r"AKIAJ[A-Z2-7]{14}Q", new_access_key_id(ids))
        assert re.fullmatch(r"[A-Za-z0-9+/]{40}", new_secret(ids))
    assert len({new_secret(SystemIds()) for _ in range(100)}) == 100
    assert len({new_access_key_id(SystemIds()) for _ in range(100)}) == 100


def test_bytes_take_as_much_chance_as_they_need() -> None:
    class Counting(SeededIds):
        calls = 0

        def token(self) -> str:
            self.calls += 1
            return super().token()

    for size, tokens in [(12, 1), (16, 2), (30, 3), (64, 6)]:
        ids = Counting(1)
        assert len(random_bytes(ids, size)) == size
        assert ids.calls == tokens


def test_the_keys_of_a_ring_differ_and_depend_on_the_installations_key() -> None:
    one, other = Keyring(KEY, ids=SystemIds()), Keyring(KEY + b"!", ids=SystemIds())
    assert one.token_key != other.token_key
    assert one.check != other.check
    assert one.check not in one.token_key
    assert json.dumps(str(KEY)) not in json.dumps(str(one.token_key))
