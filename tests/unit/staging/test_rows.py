"""Staging rows: one at a time and many at once give the same."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.env.clock import Instant
from lakebed.errors import CorruptError, ErrorKind
from lakebed.format.blocks import block_changes, change_block
from lakebed.format.rows import decode_row, decode_rows, encode_row, row_key
from lakebed.format.spans import Spans
from lakebed.model.entries import Change, Entry, Tombstone
from lakebed.model.ids import Nonce, Path

GOLDEN_ENTRY_V1 = bytes.fromhex(
    "0100640000000000000040420f0000000000d668e67e5cb7ee79833c0c688cd9d4e6080003000800020009000000"
    "646174612f732f6f616263746578742f6373766e317b226b223a2276227d"
)
GOLDEN_TOMBSTONE_V1 = bytes.fromhex(
    "010100000000000000000000000000000000000000000000000000000000000000000000000000000200000000006e32"
)
ENTRY = Entry(
    path=Path("a/b"),
    address="data/s/o",
    checksum="abc",
    size_bytes=100,
    mtime=Instant(1_000_000),
    content_type="text/csv",
    metadata={"k": "v"},
)


def test_the_bytes_of_version_1_never_change() -> None:
    assert encode_row(ENTRY, Nonce("n1")) == GOLDEN_ENTRY_V1
    assert decode_row(ENTRY.path, GOLDEN_ENTRY_V1) == (ENTRY, "n1")
    assert encode_row(Tombstone(path=Path("a")), Nonce("n2")) == GOLDEN_TOMBSTONE_V1
    assert decode_row(Path("a"), GOLDEN_TOMBSTONE_V1) == (Tombstone(path=Path("a")), "n2")


text = st.text(st.characters(codec="utf-8"), max_size=20)
paths = st.text(st.characters(codec="utf-8"), min_size=1, max_size=30).map(Path)
entries = st.builds(
    Entry,
    path=paths,
    address=text,
    checksum=text,
    size_bytes=st.integers(0, 2**62),
    mtime=st.integers(0, 2**62).map(Instant),
    content_type=text,
    metadata=st.dictionaries(text, text, max_size=3),
)
changes = st.one_of(entries, st.builds(Tombstone, path=paths))


@given(changes, text.map(Nonce))
def test_a_row_comes_back_as_it_went_in(change: Change, nonce: Nonce) -> None:
    assert decode_row(change.path, encode_row(change, nonce)) == (change, nonce)


@given(st.lists(changes, unique_by=lambda c: c.path))
def test_decoding_a_page_equals_decoding_each_row(many: list[Change]) -> None:
    ordered = sorted(many, key=lambda c: c.path.encode())
    keys = [row_key(c.path) for c in ordered]
    values = [encode_row(c, Nonce("n")) for c in ordered]

    block = decode_rows(Spans.of(keys), Spans.of(values))

    assert block_changes(block) == ordered
    assert block.equals(change_block(ordered))


@given(changes, st.data())
def test_a_row_cut_short_is_corrupt(change: Change, data: st.DataObject) -> None:
    value = encode_row(change, Nonce("nonce"))
    cut = value[: data.draw(st.integers(0, len(value) - 1))]

    with pytest.raises(CorruptError):
        decode_row(change.path, cut)
    with pytest.raises(CorruptError):
        decode_rows(Spans.of([row_key(change.path)]), Spans.of([cut]))


def test_a_row_of_a_newer_version_is_refused_with_the_remedy() -> None:
    value = b"\x02" + encode_row(Tombstone(path=Path("a")), Nonce("n"))[1:]

    for decode in (
        lambda: decode_row(Path("a"), value),
        lambda: decode_rows(Spans.of([b"key/a"]), Spans.of([value])),
    ):
        with pytest.raises(CorruptError, match="upgrade") as caught:
            decode()
        assert caught.value.kind is ErrorKind.NEWER_VERSION
