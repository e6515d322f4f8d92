"""What is stored in LMDB is read back, now and for ever."""

from hypothesis import given
from hypothesis import strategies as st

from lakebed.kv.drivers.lmdb_records import columns, encode, names_of, value_of, version_of

records = st.tuples(
    st.integers(1, 2**62), st.binary(max_size=40), st.lists(st.binary(max_size=9), max_size=3).map(tuple)
)


def test_bytes_on_disk_never_change() -> None:
    assert encode(5, b"value").hex() == "000000000000000a76616c7565"
    assert encode(5, b"value", (b"t", b"")).hex() == "000000000000000b0000000900000001740000000076616c7565"


@given(st.lists(records, max_size=20))
def test_columns_equal_records_one_by_one(written: list[tuple[int, bytes, tuple[bytes, ...]]]) -> None:
    encoded = [encode(version, value, names) for version, value, names in written]

    assert [(version_of(r), value_of(r), names_of(r)) for r in encoded] == written
    assert columns(encoded) == ([value for _, value, _ in written], [version for version, _, _ in written])
