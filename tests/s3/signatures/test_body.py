"""Bodies: what was signed or announced comes out, whatever else comes in is an error."""

import hashlib
import zlib
from base64 import b64encode
from collections.abc import Callable
from io import BytesIO
from typing import Any

import pytest
from botocore.httpchecksum import AwsChunkedWrapper, Crc32Checksum
from hypothesis import given, settings
from hypothesis import strategies as st

from lakebed.auth.secret import Secret
from lakebed.s3.errors import Code, S3Error
from lakebed.s3.request import Request
from lakebed.s3.signatures.body import BodyPlan, plan_body
from lakebed.s3.signatures.checksums import Algorithm
from lakebed.s3.signatures.scheme import Scope
from lakebed.s3.signatures.v4 import signing_key
from lakebed.s3.signatures.verified import Chain
from tests.s3.signatures.chunked import PLAIN_TRAILER, SIGNED, SIGNED_TRAILER, cut, encode, verified
from tests.s3.signatures.signing import read

KINDS = (SIGNED, SIGNED_TRAILER, PLAIN_TRAILER)
# Of the text "123456789": the check values that the definitions of these checksums give.
CHECKS = {
    Algorithm.CRC32: 0xCBF43926.to_bytes(4),
    Algorithm.CRC32C: 0xE3069283.to_bytes(4),
    Algorithm.CRC64NVME: 0xAE8B14860A799888.to_bytes(8),
    Algorithm.SHA1: bytes.fromhex("f7c3bc1d808e04732adf679965ccc34ca7ae3441"),
    Algorithm.SHA256: bytes.fromhex("15e2b0d3c33891ebb0f1ef609ec419420c20e320ce94c65fbc8c3312448eb225"),
}
DIGITS = b"123456789"

chunk_lists = st.lists(st.binary(min_size=1, max_size=40), max_size=4)
cuts = st.lists(st.integers(0, 10_000), max_size=12)


def request_with(**headers: str) -> Request:
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    return Request(method="PUT", raw_path="/lake/main/a", raw_query="", headers=names, query={})


def plan(payload: str, **headers: str) -> BodyPlan:
    return plan_body(request_with(**headers), verified(payload))


def chunked_plan(kind: str, payload: bytes) -> tuple[BodyPlan, tuple[str, str] | None]:
    trailer = None if kind == SIGNED else ("x-amz-checksum-crc32", _crc32(payload))
    announced = {"x_amz_trailer": trailer[0]} if trailer is not None else {}
    return plan(kind, x_amz_decoded_content_length=str(len(payload)), **announced), trailer


@given(st.sampled_from(KINDS), chunk_lists, cuts)
def test_chunks_come_out_however_the_network_cuts_them(
    kind: str, chunks: list[bytes], places: list[int]
) -> None:
    payload = b"".join(chunks)
    announced, trailer = chunked_plan(kind, payload)

    got, body = read(announced, cut(encode(chunks, payload=kind, trailer=trailer).whole, places))

    assert got == payload
    assert body.checksums == ({} if trailer is None else {Algorithm.CRC32: trailer[1]})


@settings(max_examples=300)
@given(st.sampled_from(KINDS), chunk_lists, cuts, st.data())
def test_damage_gives_the_same_error_however_the_network_cuts_it(
    kind: str, chunks: list[bytes], places: list[int], data: st.DataObject
) -> None:
    payload = b"".join(chunks)
    announced, trailer = chunked_plan(kind, payload)
    wire = encode(chunks, payload=kind, trailer=trailer).whole
    place = data.draw(st.integers(0, len(wire) - 1))
    removed = data.draw(st.integers(0, 4))
    damaged = wire[:place] + data.draw(st.binary(max_size=3)) + wire[place + removed :]

    outcome = _outcome(announced, [damaged])

    assert _outcome(announced, cut(damaged, places)) == outcome
    # A repaired or harmless edit (a blank line at the end) gives the very same payload; nothing else is accepted.
    assert isinstance(outcome, Code) or outcome == payload


@pytest.mark.parametrize("kind", KINDS)
def test_a_body_that_ends_anywhere_before_its_end_is_refused(kind: str) -> None:
    announced, trailer = chunked_plan(kind, b"abcdefgh")
    wire = encode([b"abcd", b"efgh"], payload=kind, trailer=trailer).whole

    # The last two bytes are an empty line that says nothing: some clients leave it out.
    for end in range(len(wire) - 4):
        assert isinstance(_outcome(announced, [wire[:end]]), Code), wire[:end]


@pytest.mark.parametrize("kind", KINDS)
def test_a_changed_byte_of_a_chunk_is_refused(kind: str) -> None:
    announced, trailer = chunked_plan(kind, b"abcdefgh")
    wire = encode([b"abcd", b"efgh"], payload=kind, trailer=trailer).whole

    expected = Code.BAD_DIGEST if kind == PLAIN_TRAILER else Code.SIGNATURE_DOES_NOT_MATCH
    assert _outcome(announced, [wire.replace(b"efgh", b"efgH")]) is expected


def test_signed_chunks_cannot_be_swapped_or_left_out() -> None:
    parts = encode([b"abcd", b"efgh"], payload=SIGNED, trailer=None).parts
    swapped = b"".join([*parts[3:6], *parts[0:3], *parts[6:]])

    assert _outcome(plan(SIGNED), [swapped]) is Code.SIGNATURE_DOES_NOT_MATCH
    assert _outcome(plan(SIGNED), [b"".join(parts[3:])]) is Code.SIGNATURE_DOES_NOT_MATCH
    assert _outcome(plan(SIGNED), [b"".join([*parts[:3], *parts[6:]])]) is Code.SIGNATURE_DOES_NOT_MATCH


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        (b"x-amz-checksum-crc32:", b"x-amz-checksum-crc32c:", Code.MALFORMED_TRAILER_ERROR),
        (b"x-amz-trailer-signature:", b"x-amz-signature:", Code.MALFORMED_TRAILER_ERROR),
        (b"x-amz-trailer-signature:", b"x-amz-trailer-signature:0", Code.SIGNATURE_DOES_NOT_MATCH),
        (b"x-amz-checksum-crc32:", b"x-amz-checksum-crc32:A", Code.SIGNATURE_DOES_NOT_MATCH),
        (b"x-amz-checksum-crc32:", b"x-amz-checksum-crc32", Code.MALFORMED_TRAILER_ERROR),
    ],
)
def test_a_changed_trailer_is_refused(old: bytes, new: bytes, code: Code) -> None:
    announced, trailer = chunked_plan(SIGNED_TRAILER, b"abcd")
    wire = encode([b"abcd"], payload=SIGNED_TRAILER, trailer=trailer).whole
    assert old in wire

    assert _outcome(announced, [wire.replace(old, new)]) is code


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("length", [0, 7, 9, 10**18 - 1])
def test_a_payload_of_another_length_than_announced_is_incomplete(kind: str, length: int) -> None:
    trailer = None if kind == SIGNED else ("x-amz-checksum-crc32", _crc32(b"abcdefgh"))
    announced = {"x_amz_trailer": trailer[0]} if trailer is not None else {}
    wire = encode([b"abcd", b"efgh"], payload=kind, trailer=trailer).whole

    wrong = plan(kind, x_amz_decoded_content_length=str(length), **announced)
    assert _outcome(wrong, [wire]) is Code.INCOMPLETE_BODY


@pytest.mark.parametrize(
    "line", [b"-1", b"g", b"", b"4 ", b"0x4", b"4;a=b", b"f" * 17, b"f" * 16, b"1" * 5000]
)
def test_a_chunk_with_a_line_that_is_no_size_is_malformed(line: bytes) -> None:
    assert _outcome(plan(PLAIN_TRAILER), [line, b"\r\nabcd\r\n0\r\n\r\n"]) is Code.INVALID_REQUEST


EXAMPLES = {
    SIGNED: (
        "4f232c4386841ef735655705268965c44a0e4690baa4adea153f7db9fa80a0a9",
        "ad80c730a21e5b8d04586a2213dd63b9a0e99e0e2307b0ade35a65485a288648",
        "0055627c9e194cb4542bae2aa5492e3c1575bbb81b612b7d234b86a503ef5497",
        "b6c6ea8a5354eaf15b3cb7646744f4275b71ea724fed81ceb9323e279d449df9",
        b"",
    ),
    SIGNED_TRAILER: (
        "106e2a8a18243abcf37539882f36619c00e2dfc72633413f02d3b74544bfeb8e",
        "b474d8862b1487a5145d686f57f013e54db672cee1c953b3010fb58501ef5aa2",
        "1c1344b170168f8e65b41376b44b20fe354e373826ccbbe2c1d40a8cae51e5c7",
        "2ca2aba2005185cf7159c6277faf83795951dd77a3a99e6e65d5c9f85863f992",
        (
            b"x-amz-checksum-crc32c:sOO8/Q==\n\r\n"
            b"x-amz-trailer-signature:d81f82fc3505edab99d459891051a732e8730629a2e4a59689829ca17fe2e435\r\n"
        ),
    ),
}


@pytest.mark.parametrize("kind", EXAMPLES)
def test_amazons_own_example_of_signed_chunks_is_accepted(kind: str) -> None:
    seed, first, second, last, trailer = EXAMPLES[kind]
    scope = Scope("20130524", "us-east-1", "s3")
    key = signing_key(Secret("wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"), scope)
    chain = Chain(key=key, stamp="20130524T000000Z", scope=scope.text, seed=seed)
    chunks = [(b"a" * 65_536, first), (b"a" * 1024, second)]
    wire = b"".join(
        f"{len(data):x};chunk-signature={signature}\r\n".encode() + data + b"\r\n"
        for data, signature in chunks
    )
    wire += f"0;chunk-signature={last}\r\n".encode() + trailer + b"\r\n"
    headers = {"x_amz_trailer": "x-amz-checksum-crc32c"} if trailer else {}
    announced = plan_body(
        request_with(x_amz_decoded_content_length="66560", **headers), verified(kind, chain=chain)
    )

    assert read(announced, [wire])[0] == b"a" * 66_560


@given(st.binary(max_size=100), st.integers(1, 50), cuts)
def test_what_botocore_sends_with_a_trailer_is_accepted(data: bytes, size: int, places: list[int]) -> None:
    wrapper = AwsChunkedWrapper(
        BytesIO(data), checksum_cls=Crc32Checksum, checksum_name="x-amz-checksum-crc32", chunk_size=size
    )
    announced, _ = chunked_plan(PLAIN_TRAILER, data)

    assert read(announced, cut(wrapper.read(), places))[0] == data


@pytest.mark.parametrize("algorithm", Algorithm)
def test_a_checksum_in_a_header_is_verified_and_returned(algorithm: Algorithm) -> None:
    value = b64encode(CHECKS[algorithm]).decode()
    announced = plan("UNSIGNED-PAYLOAD", **{algorithm.header.replace("-", "_"): value})

    assert read(announced, [DIGITS[:4], DIGITS[4:]])[1].checksums == {algorithm: value}
    with pytest.raises(S3Error, match=algorithm.text) as refused:
        read(announced, [DIGITS[::-1]])
    assert refused.value.code is Code.BAD_DIGEST


@pytest.mark.parametrize("algorithm", Algorithm)
def test_a_checksum_in_a_trailer_is_verified_and_returned(algorithm: Algorithm) -> None:
    value = b64encode(CHECKS[algorithm]).decode()
    announced = plan(SIGNED_TRAILER, x_amz_trailer=algorithm.header)

    def sent(payload: bytes) -> list[bytes]:
        return [encode([payload], payload=SIGNED_TRAILER, trailer=(algorithm.header, value)).whole]

    assert read(announced, sent(DIGITS))[1].checksums == {algorithm: value}
    assert _outcome(announced, sent(DIGITS[::-1])) is Code.BAD_DIGEST


def test_a_hash_in_the_header_is_that_of_the_whole_body() -> None:
    announced = plan(hashlib.sha256(DIGITS).hexdigest(), content_length="9")

    assert read(announced, [DIGITS[:1], b"", DIGITS[1:]])[0] == DIGITS
    assert _outcome(announced, [DIGITS[::-1]]) is Code.X_AMZ_CONTENT_SHA256_MISMATCH
    assert _outcome(announced, [DIGITS[1:]]) is Code.INCOMPLETE_BODY
    assert _outcome(announced, [DIGITS, b"0"]) is Code.INCOMPLETE_BODY


def test_a_content_md5_is_that_of_the_whole_body() -> None:
    value = b64encode(hashlib.md5(DIGITS).digest()).decode()
    announced = plan("UNSIGNED-PAYLOAD", content_md5=value)

    assert read(announced, [DIGITS])[0] == DIGITS
    assert _outcome(announced, [DIGITS[::-1]]) is Code.BAD_DIGEST


@pytest.mark.parametrize(
    ("announce", "code"),
    [
        (lambda: plan("UNSIGNED-PAYLOAD", content_md5="AAAA"), Code.INVALID_DIGEST),
        (lambda: plan("UNSIGNED-PAYLOAD", content_md5="é"), Code.INVALID_DIGEST),
        (lambda: plan("UNSIGNED-PAYLOAD", content_length="-1"), Code.INVALID_ARGUMENT),
        (lambda: plan("UNSIGNED-PAYLOAD", x_amz_checksum_crc32="AAAA"), Code.INVALID_REQUEST),
        (lambda: plan("UNSIGNED-PAYLOAD", x_amz_checksum_crc32="AAAAAA==", x_amz_checksum_crc32c="AAAAAA=="), Code.INVALID_REQUEST),
        (lambda: plan(PLAIN_TRAILER, x_amz_trailer="x-amz-checksum-crc16"), Code.INVALID_REQUEST),
        (lambda: plan(PLAIN_TRAILER, x_amz_decoded_content_length="1e3"), Code.INVALID_ARGUMENT),
        (lambda: plan("STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD"), Code.NOT_IMPLEMENTED),
        (lambda: plan("A" * 64), Code.INVALID_ARGUMENT),
        (lambda: plan(""), Code.INVALID_ARGUMENT),
        (lambda: plan_body(request_with(), verified(SIGNED, chain=None)), Code.INVALID_REQUEST),
    ],
)  # fmt: skip
def test_what_cannot_be_right_is_refused_before_the_body(announce: Callable[[], Any], code: Code) -> None:
    with pytest.raises(S3Error) as refused:
        announce()

    assert refused.value.code is code


def test_checksums_of_a_whole_upload_are_not_those_of_the_request_that_completes_it() -> None:
    request = request_with(x_amz_checksum_sha256="AAAA-2")

    assert plan_body(request, verified("UNSIGNED-PAYLOAD"), checksums=False).checksum is None


def _crc32(payload: bytes) -> str:
    return b64encode(zlib.crc32(payload).to_bytes(4)).decode()


def _outcome(announced: BodyPlan, pieces: list[bytes]) -> bytes | Code:
    try:
        return read(announced, pieces)[0]
    except S3Error as error:
        return error.code
