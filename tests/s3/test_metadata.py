"""What S3 says beside the bytes: metadata, ranges, conditions, parts, without a server."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.env.clock import SECOND, Instant
from lakebed.http.dates import http_date, parse_http_date
from lakebed.limits import S3_METADATA_SENT_BYTES_MAX
from lakebed.model.entries import Entry
from lakebed.model.ids import Path
from lakebed.model.part_uploads import pack_parts, unpack_parts
from lakebed.objects.port import ByteRange
from lakebed.s3.conditions import Verdict, verdict, write_condition
from lakebed.s3.dates import iso_date
from lakebed.s3.errors import Code, S3Error
from lakebed.s3.metadata import decoded, encoded, metadata_of, shown
from lakebed.s3.ranges import parse_range, part_range

ENTRY = Entry(
    path=Path("p"), address="data/x", checksum="abc", size_bytes=10, mtime=Instant(1_700_000_000 * SECOND)
)


@given(st.text(st.characters(codec="utf-8")))
def test_every_value_survives_a_header(value: str) -> None:
    header = encoded(value)
    assert header.isascii()
    assert "=?" in value or decoded(header.decode()) == value


@pytest.mark.parametrize("broken", ["=?", "=?nonsense?B?YQ==?=", "=?utf-8?Q?", "=?utf-8?B?gA==?="])
def test_a_broken_word_is_text(broken: str) -> None:
    assert decoded(broken)


@pytest.mark.parametrize(
    ("sent", "meant"),
    [
        ("=?utf-8?q?a_b=C3=A9?=", "a bé"),
        ("=?UTF-8?B?w6k=?= =?utf-8?b?w6k?=", "éé"),
        ("=?utf-8?q?a?= b =?iso-8859-1?q?=E9?=", "a b é"),
        ("=?utf-8?q?a?= =?utf-8?q?broken", "a =?utf-8?q?broken"),
        *[(word, word) for word in ("=?idna?q?a?=", "=?punycode?q?a-b?=", "=?zlib?b?YQ==?=", "=?x?q?a?=")],
    ],
)
def test_words_of_rfc_2047_are_decoded_and_those_of_other_charsets_stay(sent: str, meant: str) -> None:
    assert decoded(sent) == meant


def test_metadata_that_is_too_long_as_sent_is_refused_before_it_is_decoded() -> None:
    with pytest.raises(S3Error) as refused:
        metadata_of({"x-amz-meta-a": "=?utf-8?q??=" * (S3_METADATA_SENT_BYTES_MAX // 12 + 1)})
    assert refused.value.code is Code.METADATA_TOO_LARGE


def test_names_that_no_header_can_have_are_counted() -> None:
    headers = dict(shown({"ok": "1", "not a token": "2", "::own": "3", "X-Amz-Meta-Mixed": "4"}))
    assert headers == {b"x-amz-meta-ok": b"1", b"x-amz-meta-mixed": b"4", b"x-amz-missing-meta": b"1"}


def test_how_a_body_was_sent_is_not_how_an_object_is_encoded() -> None:
    assert metadata_of({"content-encoding": "aws-chunked"}) == {}
    assert metadata_of({"content-encoding": "gzip,aws-chunked"}) == {"::lakebed::content-encoding": "gzip"}


@given(st.lists(st.integers(0, 3), min_size=1))
def test_sizes_of_parts_are_packed_and_unpacked(sizes: list[int]) -> None:
    assert unpack_parts(pack_parts(sizes)) == sizes


def test_equal_parts_take_no_room() -> None:
    assert pack_parts([5] * 9999 + [1]) == "5x9999,1"
    assert unpack_parts("nonsense") == []


@given(st.integers(0, 100), st.integers(0, 100), st.integers(1, 50))
def test_a_range_is_what_slicing_gives(first: int, last: int, size: int) -> None:
    data = bytes(range(size))
    try:
        found = parse_range(f"bytes={first}-{last}", size)
    except S3Error:
        assert first >= size
        return
    if found is None:
        assert last < first
    else:
        assert data[found.start : found.end] == data[first : last + 1]


@pytest.mark.parametrize(
    "header", ["", "bytes", "bytes=", "bytes=-", "bytes=a-b", "bytes=1-2,3-4", "bytes=2-1", "items=1-2"]
)
def test_a_header_that_is_no_range_is_ignored(header: str) -> None:
    assert parse_range(header, 10) is None


def test_a_suffix_of_nothing_is_refused() -> None:
    assert parse_range("bytes=-4", 10) == ByteRange(6, 10)
    for header, size in (("bytes=-0", 10), ("bytes=-5", 0), ("bytes=0-", 0)):
        with pytest.raises(S3Error):
            parse_range(header, size)


@pytest.mark.parametrize("number", ["", "0", "-1", "²", "1.0", "10001", "9" * 5_000])
def test_what_is_no_number_of_a_part_is_refused(number: str) -> None:
    with pytest.raises(S3Error) as refused:
        part_range(number, [1, 2], 3)
    assert refused.value.code is Code.INVALID_ARGUMENT


def test_conditions_are_decided_in_the_order_of_rfc_9110() -> None:
    before, after = "Thu, 01 Jan 2015 00:00:00 GMT", "Thu, 01 Jan 2026 00:00:00 GMT"
    for headers, decided in (
        ({}, Verdict.GO),
        ({"if-match": '"abc"'}, Verdict.GO),
        ({"if-match": '"x", "abc"'}, Verdict.GO),
        ({"if-match": "*"}, Verdict.GO),
        ({"if-match": '"x"'}, Verdict.FAILED),
        ({"if-match": '"abc"', "if-unmodified-since": before}, Verdict.GO),
        ({"if-unmodified-since": before}, Verdict.FAILED),
        ({"if-unmodified-since": "nonsense"}, Verdict.GO),
        ({"if-none-match": 'W/"abc"'}, Verdict.NOT_MODIFIED),
        ({"if-none-match": '"x"', "if-modified-since": after}, Verdict.GO),
        ({"if-modified-since": after}, Verdict.NOT_MODIFIED),
        ({"if-modified-since": before}, Verdict.GO),
        ({"if-match": '"x"', "if-none-match": '"abc"'}, Verdict.FAILED),
    ):
        assert verdict(headers, ENTRY) is decided, headers


@pytest.mark.parametrize(
    "headers", [{"if-none-match": '"x"'}, {"if-match": "*"}, {"if-match": "x", "if-none-match": "*"}]
)
def test_conditions_of_writes_that_nobody_takes(headers: dict[str, str]) -> None:
    with pytest.raises(S3Error):
        write_condition(headers)


@given(st.integers(0, 4_000_000_000))
def test_dates_come_back(seconds: int) -> None:
    instant = Instant(seconds * SECOND)
    assert parse_http_date(http_date(instant).decode()) == instant


def test_dates_in_documents() -> None:
    assert iso_date(Instant(1_700_000_000_123_456)) == "2023-11-14T22:13:20.123Z"
