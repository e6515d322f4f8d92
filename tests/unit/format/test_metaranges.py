from dataclasses import replace

import pytest
from tests.unit.format.golden import FOLDER, METARANGE_HASH, NEW_METARANGE_HASH, NEW_RANGES, RANGES
from tests.unit.format.test_ranges import newer

from lakebed.errors import CorruptError, ErrorKind
from lakebed.format import parquet
from lakebed.format.metaranges import (
    METARANGE_FILE,
    decode_metarange,
    encode_metarange,
    metarange_block,
    metarange_hash,
    range_infos,
)
from lakebed.model.ids import RangeId

GOLDEN = (FOLDER / "metaranges" / "v1.parquet").read_bytes()


def test_version_1_is_read_for_ever():
    assert list(range_infos(decode_metarange(GOLDEN, expected_hash=METARANGE_HASH))) == RANGES


def test_version_2_is_read_for_ever_by_a_beginning_of_its_hash():
    data = (FOLDER / "metaranges" / "v2.parquet").read_bytes()

    for digits in (28, 64):
        assert (
            list(range_infos(decode_metarange(data, expected_hash=NEW_METARANGE_HASH[:digits]))) == NEW_RANGES
        )
    with pytest.raises(CorruptError):
        decode_metarange(data, expected_hash="0" * 28)


@pytest.mark.parametrize("ranges", [RANGES, NEW_RANGES])
def test_what_is_encoded_comes_back(ranges):
    assert list(range_infos(decode_metarange(encode_metarange(metarange_block(ranges))))) == ranges


def test_a_newer_version_is_refused():
    data = parquet.encode(newer(METARANGE_FILE), metarange_block(RANGES))

    with pytest.raises(CorruptError) as caught:
        decode_metarange(data)
    assert caught.value.kind is ErrorKind.NEWER_VERSION


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        ({"max_key": "b/middle"}, ErrorKind.KEYS_OUT_OF_ORDER),
        ({"max_key": "a/a"}, ErrorKind.KEYS_OUT_OF_ORDER),
        ({"count": 2}, ErrorKind.UNREADABLE),
        ({"count": 0}, ErrorKind.UNREADABLE),
        ({"id": RangeId("another-name")}, ErrorKind.UNREADABLE),
        ({"id": RangeId("1" * 64)}, ErrorKind.UNREADABLE),
        ({"id": RangeId("0" * 63)}, ErrorKind.UNREADABLE),
    ],
    ids=["overlapping", "upside down", "miscounted", "empty", "misnamed", "of another hash", "too short"],
)
def test_ranges_that_cannot_be_are_refused(change, kind):
    single = replace(RANGES[0], **({"count": 2} if "max_key" in change else {}))
    data = parquet.encode(METARANGE_FILE, metarange_block([replace(single, **change), *RANGES[1:]]))

    with pytest.raises(CorruptError) as caught:
        decode_metarange(data)
    assert caught.value.kind is kind


@pytest.mark.parametrize("field", ["id", "hash", "min_key", "max_key", "count", "bytes"])
def test_the_hash_covers_every_column(field):
    other = replace(RANGES[0], **{field: 7 if field in {"count", "bytes"} else "x"})

    assert metarange_hash(metarange_block([other, *RANGES[1:]])) != METARANGE_HASH


@pytest.mark.parametrize("position", range(0, len(GOLDEN), 11))
def test_a_flipped_byte_is_refused_or_does_no_harm(position):
    damaged = bytearray(GOLDEN)
    damaged[position] ^= 0xFF

    try:
        found = decode_metarange(bytes(damaged))
    except CorruptError:
        return
    assert list(range_infos(found)) == RANGES


@pytest.mark.parametrize("size", range(0, len(GOLDEN), 97))
def test_a_truncated_file_is_refused(size):
    with pytest.raises(CorruptError):
        decode_metarange(GOLDEN[:size])
