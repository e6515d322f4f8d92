import base64
from typing import Any

import jwt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.auth.keyring import Keyring
from lakebed.auth.tokens import Tokens
from lakebed.env.clock import SECOND
from lakebed.env.ids import SeededIds
from lakebed.errors import DeniedError
from lakebed.limits import LOGIN_SECONDS
from lakebed.model.auth import AccessKeyId, Incarnation, User, UserId
from tests.unit.auth.world import KEY, START, OwnedClock

ANN = User(id=UserId("ann"), incarnation=Incarnation("i"), created_at=START, keys=(AccessKeyId("AKIA1"),))
KEYRING = Keyring(KEY, ids=SeededIds(1))
TOKENS = Tokens(KEYRING, clock=OwnedClock(), ids=SeededIds(1))
NOW = START // SECOND
CLAIMS = {
    "jti": "j",
    "iss": "auth",
    "sub": "ann",
    "aud": "login",
    "iat": NOW,
    "exp": NOW + 60,
    "uid": "i",
    "key": "AKIA1",
}


def signed(signing_key: bytes = KEYRING.token_key, algorithm: str = "HS256", **changes: Any) -> str:
    claims = {k: v for k, v in {**CLAIMS, **changes}.items() if v is not ...}
    return jwt.encode(claims, signing_key, algorithm=algorithm)


def test_a_token_has_the_claims_that_lakefs_tokens_have() -> None:
    session = TOKENS.issue(ANN, ANN.keys[0])
    claims = jwt.decode(
        session.token,
        KEYRING.token_key,
        algorithms=["HS256"],
        audience="login",
        options={"verify_exp": False},
    )
    assert {k: claims[k] for k in ("iss", "sub", "aud", "iat", "exp")} == {
        "iss": "auth",
        "sub": "ann",
        "aud": "login",
        "iat": NOW,
        "exp": NOW + LOGIN_SECONDS,
    }
    assert len(claims["jti"]) == 36
    assert session.expires_at == (NOW + LOGIN_SECONDS) * SECOND
    assert TOKENS.read(session.token).fits(ANN)


@pytest.mark.parametrize("algorithm", ["HS256", "HS384", "HS512"])
@pytest.mark.parametrize("audience", ["login", "", ...])
def test_a_token_signed_elsewhere_with_our_key_is_good(algorithm: str, audience: Any) -> None:
    claims = TOKENS.read(signed(algorithm=algorithm, aud=audience))
    assert claims.user == "ann"
    assert claims.fits(ANN)


@pytest.mark.parametrize(
    "changes",
    [
        {"iss": "other"},
        {"iss": ...},
        {"aud": "other"},
        {"aud": ["login"]},
        {"aud": {}},
        {"sub": ...},
        {"sub": ""},
        {"sub": "a/b"},
        {"exp": NOW},
        {"exp": NOW - 1},
        {"exp": ...},
        {"exp": "tomorrow"},
        {"exp": float("nan")},
        {"exp": True},
        {"uid": 5},
        {"uid": ...},
        {"key": ...},
        {"jti": ...},
        {"jti": ""},
        {"jti": "j" * 65},
        {"iat": ...},
        {"iat": "now"},
        {"key": ["AKIA1"]},
    ],
)
def test_a_token_that_is_not_for_this_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(DeniedError):
        TOKENS.read(signed(**changes))


def unsigned() -> str:
    return jwt.encode(CLAIMS, None, algorithm="none")


def of_another_installation() -> str:
    return signed(Keyring(KEY + b"!", ids=SeededIds(1)).token_key)


def changed_after_signing() -> str:
    head, _, signature = signed().split(".")
    return f"{head}.{signed(sub='bob').split('.')[1]}.{signature}"


def nested_too_deep() -> str:
    head = base64.urlsafe_b64encode(b'{"alg":"HS256","x":' + b"[" * 30_000).decode().rstrip("=")
    return f"{head}.e30.x"


@pytest.mark.parametrize("forge", [unsigned, of_another_installation, changed_after_signing, nested_too_deep])
def test_a_forged_token_is_refused(forge) -> None:
    with pytest.raises(DeniedError):
        TOKENS.read(forge())


@given(st.text(max_size=60) | st.from_regex(r"[\w-]{0,30}\.[\w-]{0,30}\.[\w-]{0,30}"))
def test_any_text_is_refused(text: str) -> None:
    with pytest.raises(DeniedError):
        TOKENS.read(text)


def test_a_token_fits_only_the_user_it_was_given_to_while_the_key_is_theirs() -> None:
    claims = TOKENS.read(TOKENS.issue(ANN, ANN.keys[0]).token)
    again = User(id=ANN.id, incarnation=Incarnation("j"), created_at=START, keys=ANN.keys)
    without_key = User(id=ANN.id, incarnation=ANN.incarnation, created_at=START)
    assert claims.fits(ANN)
    assert not claims.fits(again)
    assert not claims.fits(without_key)
