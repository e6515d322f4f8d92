"""HTTPS by a certificate made here, and what is said of files that are none."""

import ssl
from collections.abc import Iterator
from http.client import HTTPException
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
)

from lakebed.errors import ErrorKind, InvalidInputError
from lakebed.server.tls import Tls
from lakebed.testing.server_process import ServerProcess, running_server
from tests.server.certificates import made
from tests.server.http import Http


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ServerProcess, Tls]]:
    """A server with a certificate."""
    folder = tmp_path_factory.mktemp("tls")
    tls = made(folder, "server")
    with running_server(folder, tls=tls) as running:
        yield running, tls


@pytest.mark.server
def test_everything_goes_by_https_for_whoever_trusts_the_certificate(
    secure: tuple[ServerProcess, Tls],
) -> None:
    server, tls = secure
    ask = Http(server, trusted=ssl.create_default_context(cafile=tls.cert))
    assert ask("GET", "/user")[0] == 200
    with pytest.raises(ssl.SSLCertVerificationError):
        Http(server, trusted=ssl.create_default_context())("GET", "/user")
    with pytest.raises((OSError, HTTPException)):
        Http(server)("GET", "/user")


@pytest.mark.server
def test_by_https_cookies_are_secure_coming_and_going(secure: tuple[ServerProcess, Tls]) -> None:
    server, tls = secure
    ask = Http(server, trusted=ssl.create_default_context(cafile=tls.cert))
    body = {"access_key_id": server.access_key, "secret_access_key": server.secret_key}
    status, _, headers = ask.whole("POST", "/api/v1/auth/login", body=body)
    assert (status, headers["set-cookie"].endswith("; Secure")) == (200, True)
    status, _, headers = ask.whole("GET", "/logout")
    assert (status, headers["location"]) == (307, "/auth/login")
    assert "internal_auth_session=;" in headers["set-cookie"]
    assert "Max-Age=0" in headers["set-cookie"]
    assert headers["set-cookie"].endswith("; Secure")


def refusal(tls: Tls) -> str:
    with pytest.raises(InvalidInputError) as raised:
        tls.check()
    assert raised.value.kind is ErrorKind.INVALID_CONFIG
    return str(raised.value)


def test_a_good_pair_passes(tmp_path: Path) -> None:
    made(tmp_path, "good").check()


def test_what_is_wrong_with_the_files_is_said_before_anything_starts(tmp_path: Path) -> None:
    one, two = made(tmp_path, "one"), made(tmp_path, "two")
    noise = tmp_path / "noise"
    noise.write_bytes(b"\xff\x00noise")
    missing = tmp_path / "missing"
    locked = made(tmp_path, "locked", encryption=BestAvailableEncryption(b"password"))

    assert "tls.cert" in refusal(Tls(cert=missing, key=one.key))
    assert "tls.key" in refusal(Tls(cert=one.cert, key=missing))
    assert "tls.key" in refusal(Tls(cert=one.cert, key=tmp_path))
    assert "do not belong together" in refusal(Tls(cert=one.cert, key=two.key))
    assert "not PEM" in refusal(Tls(cert=noise, key=one.key))
    assert "not PEM" in refusal(Tls(cert=one.cert, key=noise))
    assert "not PEM" in refusal(Tls(cert=one.key, key=one.cert))
    assert "encrypted" in refusal(locked)
