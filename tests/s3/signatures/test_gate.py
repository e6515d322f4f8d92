"""The gate: who comes in, and for how long."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from botocore.auth import HmacV1Auth, S3SigV4Auth, S3SigV4QueryAuth
from botocore.credentials import Credentials
from msgspec.structs import replace

from lakebed.auth.auth import Auth
from lakebed.errors import ErrorKind, UnavailableError
from lakebed.limits import LOGIN_FAILURES_MAX, LOGIN_FAILURES_SECONDS
from lakebed.model.auth import IssuedKey
from lakebed.s3.errors import Code, S3Error
from lakebed.s3.request import Request
from lakebed.s3.signatures.gate import Gate
from tests.s3.signatures.signing import signed_by
from tests.unit.auth.world import PAIR, World


@pytest.fixture
async def installed() -> World:
    """Set up: `admin` with the key pair `PAIR`. Its time is the one that requests here are signed at."""
    world = World()
    await world.auth.setup.set_up("admin", pair=PAIR)
    return world


def gate_of(auth: Auth, world: World) -> Gate:
    return Gate(auth.authenticator, world.clock)


def signed_with(access_key: str, secret: str, **kwargs: Any) -> Request:
    return signed_by(S3SigV4Auth(Credentials(access_key, secret), "s3", "us-east-1"), **kwargs)


async def refusal(gate: Gate, request: Request) -> Code:
    with pytest.raises(S3Error) as refused:
        await gate.admit(request)
    return refused.value.code


@pytest.mark.parametrize(
    "signer",
    [
        lambda pair: S3SigV4Auth(pair, "s3", "us-east-1"),
        lambda pair: S3SigV4QueryAuth(pair, "s3", "us-east-1", expires=60),
        HmacV1Auth,
    ],
)
async def test_the_owner_of_a_key_is_let_in(installed: World, signer: Callable[[Credentials], Any]) -> None:
    request = signed_by(signer(Credentials(PAIR.access_key_id, PAIR.secret_access_key)))

    admitted = await gate_of(installed.auth, installed).admit(request)

    assert admitted.caller.id == "admin"
    assert admitted.verified.access_key == PAIR.access_key_id


async def test_nobody_is_let_in_without_a_signature(installed: World) -> None:
    request = Request(method="GET", raw_path="/lake", raw_query="", headers={"host": "a"}, query={})

    assert await refusal(gate_of(installed.auth, installed), request) is Code.ACCESS_DENIED


@pytest.mark.parametrize("access_key", ["AKIAUNKNOWN", "-", "a/b", "é"])
async def test_a_key_that_nobody_has_is_unknown(installed: World, access_key: str) -> None:
    request = signed_with(access_key, "secret")

    assert await refusal(gate_of(installed.auth, installed), request) is Code.INVALID_ACCESS_KEY_ID


async def test_a_wrong_secret_does_not_match(installed: World) -> None:
    request = signed_with(PAIR.access_key_id, "another secret")

    assert await refusal(gate_of(installed.auth, installed), request) is Code.SIGNATURE_DOES_NOT_MATCH


async def revoke_key(auth: Auth, key: IssuedKey) -> None:
    await auth.credentials.delete("ann", key.id)


async def delete_user(auth: Auth, _key: IssuedKey) -> None:
    await auth.users.delete("ann")


@pytest.mark.parametrize("revoke", [revoke_key, delete_user])
async def test_a_revoked_key_fails_at_the_next_request_in_every_process(
    installed: World, revoke: Callable[[Auth, IssuedKey], Awaitable[None]]
) -> None:
    processes = [installed.auth, installed.process()]
    await installed.auth.users.create("ann")
    key = await installed.auth.credentials.create("ann")
    request = signed_with(key.id, key.secret_access_key)
    for process in processes:
        assert (await gate_of(process, installed).admit(request)).caller.id == "ann"

    await revoke(processes[1], key)

    for process in processes:
        assert await refusal(gate_of(process, installed), request) is Code.INVALID_ACCESS_KEY_ID


async def test_a_secret_that_was_seen_is_remembered_until_something_changes(installed: World) -> None:
    authenticator = installed.auth.authenticator
    first = await authenticator.signer_for(PAIR.access_key_id)
    assert await authenticator.signer_for(PAIR.access_key_id) is first

    await installed.process().users.create("ann")

    assert await authenticator.signer_for(PAIR.access_key_id) is not first


async def test_the_memory_of_secrets_has_a_limit(installed: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakebed.auth.authenticator.AUTH_CACHE_ITEMS", 3)
    keys = [await installed.auth.credentials.create("admin") for _ in range(5)]

    for key in keys:
        assert await installed.auth.authenticator.signer_for(key.id) is not None

    assert len(installed.auth.authenticator._signers) == 3


async def test_signing_keys_are_kept_with_the_secret_and_not_without_limit(installed: World) -> None:
    signer = await installed.auth.authenticator.signer_for(PAIR.access_key_id)
    gate = gate_of(installed.auth, installed)
    assert signer is not None
    pair = Credentials(PAIR.access_key_id, PAIR.secret_access_key)

    for number in range(40):
        await gate.admit(signed_by(S3SigV4Auth(pair, "s3", f"region-{number}")))
        assert 0 < len(signer.secret.derived) <= 16


async def test_nothing_shows_a_secret(installed: World) -> None:
    request = signed_with(PAIR.access_key_id, PAIR.secret_access_key)
    signer = await installed.auth.authenticator.signer_for(PAIR.access_key_id)
    admitted = await gate_of(installed.auth, installed).admit(request)
    assert signer is not None

    shown = repr(signer) + repr(signer.secret) + repr(admitted)

    assert PAIR.secret_access_key not in shown
    for key in signer.secret.derived.values():
        assert repr(key) not in shown


def presigned(key: IssuedKey, **kwargs: Any) -> Request:
    pair = Credentials(key.id, key.secret_access_key)
    return signed_by(S3SigV4QueryAuth(pair, "s3", "us-east-1", expires=60), **kwargs)


async def test_a_url_that_was_used_before_is_asked_everything_but_its_signature(installed: World) -> None:
    await installed.auth.users.create("ann")
    key = await installed.auth.credentials.create("ann")
    gate, url = gate_of(installed.auth, installed), presigned(key)
    first = await gate.admit(url)
    assert await gate.admit(url) == first

    assert await refusal(gate, replace(url, method="DELETE")) is Code.SIGNATURE_DOES_NOT_MATCH
    assert await refusal(gate, replace(url, raw_path=f"{url.raw_path}x")) is Code.SIGNATURE_DOES_NOT_MATCH
    other_host = {**url.headers, "host": "elsewhere"}
    assert await refusal(gate, replace(url, headers=other_host)) is Code.SIGNATURE_DOES_NOT_MATCH

    installed.clock.advance(61)
    assert await refusal(gate, url) is Code.ACCESS_DENIED


async def test_a_url_that_was_used_before_fails_with_its_key(installed: World) -> None:
    await installed.auth.users.create("ann")
    key = await installed.auth.credentials.create("ann")
    gate, url = gate_of(installed.auth, installed), presigned(key)
    await gate.admit(url)

    await installed.process().credentials.delete("ann", key.id)

    assert await refusal(gate, url) is Code.INVALID_ACCESS_KEY_ID


async def test_a_url_that_was_used_before_has_the_permissions_of_now(installed: World) -> None:
    await installed.auth.users.create("ann")
    key = await installed.auth.credentials.create("ann")
    gate, url = gate_of(installed.auth, installed), presigned(key)
    assert not (await gate.admit(url)).caller.may("fs:ReadObject", "arn:lakefs:fs:::repository/a/object/b")

    await installed.process().groups.add_member("Admins", "ann")

    assert (await gate.admit(url)).caller.may("fs:ReadObject", "arn:lakefs:fs:::repository/a/object/b")


async def test_only_so_many_urls_are_remembered(installed: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakebed.s3.signatures.gate.PRESIGNED_URLS_KEPT", 3)
    key = await installed.auth.credentials.create("admin")
    gate = gate_of(installed.auth, installed)

    for number in range(8):
        await gate.admit(presigned(key, target=f"/lake/main/{number}"))

    assert len(gate._seen) <= 3


async def test_a_presigned_url_with_a_large_head_is_not_remembered(installed: World) -> None:
    signer = S3SigV4QueryAuth(
        Credentials(PAIR.access_key_id, PAIR.secret_access_key), "s3", "us-east-1", expires=60
    )
    request = signed_by(signer)
    gate = gate_of(installed.auth, installed)
    for number in range(3):
        await gate.admit(replace(request, headers={**request.headers, "a": str(number) + "a" * 5_000}))
    assert not gate._seen

    await gate.admit(request)
    assert len(gate._seen) == 1


async def test_a_signature_names_each_header_once(installed: World) -> None:
    request = signed_with(PAIR.access_key_id, PAIR.secret_access_key)
    named = request.headers["authorization"].replace("SignedHeaders=host", "SignedHeaders=host;host")
    again = replace(request, headers={**request.headers, "authorization": named})

    assert await refusal(gate_of(installed.auth, installed), again) is Code.AUTHORIZATION_HEADER_MALFORMED


async def tried(gate: Gate, request: Request, *, client: str = "192.0.2.1") -> str:
    try:
        await gate.admit(request, client=client)
    except S3Error as error:
        return error.code.text
    except UnavailableError as error:
        return error.kind.value
    return "in"


@pytest.mark.parametrize("signer", [lambda pair: S3SigV4Auth(pair, "s3", "us-east-1"), HmacV1Auth])
async def test_a_client_whose_signatures_do_not_hold_has_to_wait_and_others_do_not(
    installed: World, signer: Callable[[Credentials], Any]
) -> None:
    gate = gate_of(installed.auth, installed)
    other = await installed.auth.credentials.create("admin")
    good = signed_by(signer(Credentials(PAIR.access_key_id, PAIR.secret_access_key)))
    wrong = signed_by(signer(Credentials(PAIR.access_key_id, "a guess")))

    outcomes = [await tried(gate, wrong) for _ in range(LOGIN_FAILURES_MAX + 5)]

    waits = ErrorKind.TOO_MANY_LOGINS.value
    assert outcomes == ["SignatureDoesNotMatch"] * LOGIN_FAILURES_MAX + [waits] * 5
    assert await tried(gate, good) == waits
    assert await tried(gate, good, client="192.0.2.2") == "in"
    assert await tried(gate, signed_with(other.id, other.secret_access_key)) == "in"
    # It was right from another address, so it is no guess from this one either.
    assert await tried(gate, good) == "in"
    # That forgave the failures of this client.
    assert await tried(gate, wrong) == "SignatureDoesNotMatch"


async def test_an_owner_who_has_signed_before_is_not_held_up_by_a_guesser(installed: World) -> None:
    gate = gate_of(installed.auth, installed)
    good = signed_with(PAIR.access_key_id, PAIR.secret_access_key)
    wrong = signed_with(PAIR.access_key_id, "a guess")
    assert await tried(gate, good) == "in"
    for name in ("ann", "bob", "cy"):
        for _ in range(LOGIN_FAILURES_MAX + 1):
            await tried(gate, wrong)
        # A change of users clears what was recognised, but not that the secret was right.
        await installed.auth.users.create(name)
        assert await tried(gate, good) == "in"


async def test_failures_are_forgiven_with_time(installed: World) -> None:
    gate = gate_of(installed.auth, installed)
    for _ in range(LOGIN_FAILURES_MAX + 1):
        await tried(gate, signed_with(PAIR.access_key_id, "a guess"))
    installed.clock.advance(LOGIN_FAILURES_SECONDS / LOGIN_FAILURES_MAX)
    assert await tried(gate, signed_with(PAIR.access_key_id, PAIR.secret_access_key)) == "in"


async def test_a_clock_that_is_off_is_no_guess(installed: World) -> None:
    gate = gate_of(installed.auth, installed)
    good = signed_with(PAIR.access_key_id, PAIR.secret_access_key)
    installed.clock.advance(1_000)
    outcomes = {await tried(gate, good) for _ in range(LOGIN_FAILURES_MAX + 2)}
    assert outcomes == {"RequestTimeTooSkewed"}
