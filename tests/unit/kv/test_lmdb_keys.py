"""Keys of any length keep their byte order in LMDB."""

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.env.clock import SystemClock
from lakebed.kv.drivers.lmdb_env import Environment
from lakebed.kv.drivers.lmdb_keys import CHUNK_BYTES, SIGNPOST_BYTES, row_key, signposts
from lakebed.kv.drivers.lmdb_scan import read_page
from lakebed.kv.drivers.lmdb_writes import DeleteRows, DropStep, set_rows_request
from lakebed.kv.port import Row
from lakebed.limits import KV_KEY_BYTES_MAX, MIB

# Lengths around the places where a key is cut, and few letters, so that keys share their beginnings.
lengths = st.sampled_from(
    [1, 2, 3, CHUNK_BYTES - 1, CHUNK_BYTES, CHUNK_BYTES + 1, 2 * CHUNK_BYTES, 2 * CHUNK_BYTES + 1]
)
keys = st.builds(
    lambda fill, length, last: (fill * length)[: length - 1] + last,
    st.sampled_from([b"\0", b"a", b"ab", b"\xff"]),
    lengths,
    st.sampled_from([b"", b"\0", b"a", b"b", b"\xff"]),
).filter(bool)


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Environment]:
    environment = Environment(tmp_path_factory.mktemp("keys"), clock=SystemClock(), map_bytes=16 * MIB)
    yield environment
    environment.close()


def pages(environment: Environment, *, start: bytes, end: bytes | None, rows_max: int) -> list[bytes]:
    found: list[bytes] = []
    while True:
        with environment.reading() as txn:
            page = read_page(txn, "p", start=start, end=end, rows_max=rows_max, bytes_max=MIB)
        if not page.keys:
            return found
        found += page.keys
        start = page.keys[-1] + b"\0"


@given(
    written=st.lists(keys, max_size=30),
    deleted=st.lists(keys, max_size=10),
    start=st.one_of(st.just(b""), keys),
    end=st.one_of(st.none(), keys),
    rows_max=st.integers(1, 40),
)
def test_a_scan_equals_a_sorted_dict(
    environment: Environment,
    *,
    written: list[bytes],
    deleted: list[bytes],
    start: bytes,
    end: bytes | None,
    rows_max: int,
) -> None:
    request = set_rows_request(
        "p", [Row(key, key) for key in written], fence=None, not_after=None, clock=SystemClock()
    )
    environment.write(request.apply)
    environment.write(DeleteRows(partition="p", keys=deleted).apply)
    model = sorted(set(written) - set(deleted))

    assert pages(environment, start=start, end=end, rows_max=rows_max) == [
        key for key in model if key >= start and (end is None or key < end)
    ]
    with environment.reading() as txn:
        assert all((txn.get(row_key("p", key)) is not None) == (key in model) for key in written + deleted)
        # No signpost is missing, and none points to nothing.
        posts = {post for key in model for post in signposts("p", key)}
        assert txn.stat()["entries"] == len(model) + len(posts)

    # A bounded drop goes on where it stopped, and leaves nothing at all behind, signposts included.
    while not environment.write(DropStep(partition="p", rows_max=7).apply):
        pass
    with environment.reading() as txn:
        assert txn.stat()["entries"] == 0


@given(key=st.binary(min_size=1, max_size=KV_KEY_BYTES_MAX))
def test_every_key_fits_into_lmdb(key: bytes) -> None:
    assert len(row_key("p", key)) < SIGNPOST_BYTES
    assert [len(post) for post in signposts("p", key)] == [SIGNPOST_BYTES] * ((len(key) - 1) // CHUNK_BYTES)


def test_places_on_disk_never_change() -> None:
    assert row_key("lakebed", b"repos/a").hex() == "fa6af1204aa42efe34d0f00b2426ade0" + b"repos/a".hex()
    assert row_key("lakebed", b"k" * 1000).hex() == "464ce4c8095940422a96b52181f767ee" + b"k".hex() * 12


def test_keys_that_share_a_long_beginning_share_one_signpost(environment: Environment) -> None:
    rows = [Row(b"s" * 600 + b"%06d" % n, b"") for n in range(5_000)]

    environment.write(set_rows_request("p", rows, fence=None, not_after=None, clock=SystemClock()).apply)

    with environment.reading() as txn:
        assert txn.stat()["entries"] == 5_000 + 1
    assert environment.write(DropStep(partition="p", rows_max=10_000).apply)
