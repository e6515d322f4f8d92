"""HTTPS by a certificate made here, and what is said of files that are none."""

import ssl
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.client import HTTPException
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
)

from lakebed.errors import ErrorKind, InvalidInputError
from lakebed.server.tls import Tls
from lakebed.testing.server_process import ServerProcess, running_server
from tests.server.http import Http


def made(folder: Path, name: str, *, encryption: KeySerializationEncryption | None = None) -> Tls:
    """Write a self-signed certificate for loopback and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)  # noqa: TID251  a certificate is good for real days
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    tls = Tls(cert=folder / f"{name}.pem", key=folder / f"{name}.key")
    tls.cert.write_bytes(certificate.public_bytes(Encoding.PEM))
    tls.key.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption or NoEncryption()))
    return tls


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
