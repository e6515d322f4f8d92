"""Amazon's vectors for version 4."""

import hashlib
from pathlib import Path

import pytest

from lakebed.auth.secret import Secret
from lakebed.s3.signatures.canonical import (
    canonical_request,
    escaped_path,
    escaped_query,
    octets,
    sent_path,
    sent_query,
)
from lakebed.s3.signatures.scheme import Scope
from lakebed.s3.signatures.v4 import signing_key, string_to_sign
from lakebed.s3.signatures.verified import Chain

VECTORS = Path(__file__).parent / "vectors"
SECRET = Secret("wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY")
SCOPE = Scope("20150830", "us-east-1", "service")


@pytest.mark.parametrize("name", sorted(folder.name for folder in VECTORS.iterdir() if folder.is_dir()))
def test_a_vector_gives_the_canonical_request_the_text_and_the_signature_it_says(name: str) -> None:
    folder = VECTORS / name
    method, target, headers, body = _parse((folder / f"{name}.req").read_bytes())
    path, _, query = target.partition("?")
    authorization = (folder / f"{name}.authz").read_text()
    fields = dict(field.split("=", 1) for field in authorization.partition(" ")[2].split(", "))

    def canonical(path: str, query: str) -> str:
        return canonical_request(
            method=method,
            path=path,
            query=query,
            headers=headers,
            signed_headers=fields["SignedHeaders"].split(";"),
            payload=hashlib.sha256(body).hexdigest(),
        )

    as_sent = canonical(sent_path(path), sent_query(query, presigned=False))
    as_escaped = canonical(escaped_path(path), escaped_query(query, presigned=False))
    expected = (folder / f"{name}.creq").read_text()
    assert expected in (as_sent, as_escaped)
    text = string_to_sign(expected, stamp=headers["x-amz-date"], scope=SCOPE.text)
    assert text == (folder / f"{name}.sts").read_text()
    chain = Chain(key=signing_key(SECRET, SCOPE), stamp="", scope="", seed="")
    assert chain.sign(text) == fields["Signature"]


def test_bytes_of_utf_8_in_a_header_are_signed_as_they_were_sent() -> None:
    value = "à la carte".encode()
    canonical = canonical_request(
        method="GET",
        path="/",
        query="",
        headers={"x-amz-meta-a": value.decode("latin-1")},
        signed_headers=["x-amz-meta-a"],
        payload="",
    )

    assert b"x-amz-meta-a:" + value + b"\n" in octets(canonical)


def _parse(data: bytes) -> tuple[str, str, dict[str, str], bytes]:
    head, _, body = data.partition(b"\n\n")
    first, *lines = head.decode("latin-1").split("\n")
    method, target = first.removesuffix(" HTTP/1.1").split(" ", 1)
    headers: dict[str, str] = {}
    last = ""
    for line in lines:
        if line.startswith(" "):  # folded, as it was once allowed
            headers[last] += " " + line.strip()
            continue
        last, _, value = line.partition(":")
        last = last.lower()
        headers[last] = f"{headers[last]},{value.strip()}" if last in headers else value.strip()
    return method, target, headers, body
