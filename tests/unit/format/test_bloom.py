import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.format.bloom import Bloom, build_bloom, key_hash
from lakebed.format.cut import key_hashes

GOLDEN = "7804100601d18228"


def test_version_1_bits_never_change():
    assert build_bloom(pa.array(["a", "a/b", "é"], pa.string())).bits.hex() == GOLDEN


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=40)))
def test_one_key_and_many_keys_have_the_same_hashes(paths):
    assert [key_hash(path) for path in paths] == key_hashes(pa.array(paths, pa.string())).tolist()


@given(st.sets(st.text(st.characters(exclude_categories=["Cs"]), max_size=9), min_size=1, max_size=200))
def test_a_key_that_is_there_is_never_denied(paths):
    bloom = build_bloom(pa.array(sorted(paths), pa.string()))

    assert all(bloom.may_hold(key_hash(path)) for path in paths)


@pytest.mark.parametrize("count", [10, 1_000, 100_000])
def test_about_one_in_a_hundred_keys_that_are_not_there_gets_a_yes(count):
    bloom = build_bloom(pa.array([f"table/part-{n}.parquet" for n in range(count)], pa.string()))

    wrong = sum(bloom.may_hold(key_hash(f"table/other-{n}.parquet")) for n in range(20_000))
    assert 0 < wrong < 20_000 * 0.015


def test_a_filter_of_nothing_denies_everything():
    assert build_bloom(pa.array([], pa.string())) == Bloom(bytes(8))
    assert not Bloom(bytes(8)).may_hold(key_hash("a"))
