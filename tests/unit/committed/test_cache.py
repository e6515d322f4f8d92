import asyncio
import os

import pyarrow as pa
import pytest
from tests.unit.format.test_cut import numbered

from lakebed.committed.cache import RangeCache
from lakebed.committed.opened import OpenRange
from lakebed.env.work import InlineWorkers, ThreadWorkers
from lakebed.errors import CorruptError, ErrorKind
from lakebed.format.hashing import range_hash

BLOCK = numbered(range(1_000))


def name_of(block):
    return f"{range_hash(block)}-{'n' * 20}"


NAME = name_of(BLOCK)


class Source:
    """Where tables come from when the cache has none; counts how often."""

    def __init__(self, block=BLOCK):
        self.block = block
        self.fetches = 0

    async def __call__(self):
        self.fetches += 1
        await asyncio.sleep(0)
        return self.block


async def forbidden():
    raise AssertionError("fetched again")


def cache(folder, **limits):
    return RangeCache(folder, workers=InlineWorkers(), **limits)


async def test_a_table_is_fetched_once(tmp_path):
    source, shared = Source(), cache(tmp_path)

    found = [(await shared.get(NAME, source)).block for _ in range(3)]

    assert source.fetches == 1
    assert all(block.equals(BLOCK) for block in found)


async def test_simultaneous_reads_share_a_fetch(tmp_path):
    source, shared = Source(), cache(tmp_path)

    await asyncio.gather(*(shared.get(NAME, source) for _ in range(5)))

    assert source.fetches == 1


async def test_a_reader_that_gives_up_does_not_take_the_fetch_from_others(tmp_path):
    release, fetches = asyncio.Event(), []

    async def slow():
        fetches.append(1)
        await release.wait()
        return BLOCK

    shared = cache(tmp_path)
    first = asyncio.ensure_future(shared.get(NAME, slow))
    second = asyncio.ensure_future(shared.get(NAME, slow))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.sleep(0)
    release.set()

    assert (await second).block.equals(BLOCK)
    assert fetches == [1]


async def test_a_failed_fetch_is_not_remembered(tmp_path):
    async def failing():
        raise CorruptError(ErrorKind.FILE_MISSING, "gone")

    shared = cache(tmp_path)
    with pytest.raises(CorruptError):
        await shared.get(NAME, failing)

    assert (await shared.get(NAME, Source())).block.equals(BLOCK)


async def test_another_process_finds_what_one_has_fetched(tmp_path):
    await cache(tmp_path).get(NAME, Source())

    assert (await cache(tmp_path).get(NAME, forbidden)).block.equals(BLOCK)


async def test_what_was_put_is_never_fetched(tmp_path):
    for folder in (tmp_path, None):
        shared = cache(folder)
        await shared.put(NAME, BLOCK)

        assert (await shared.get(NAME, forbidden)).block.equals(BLOCK)


async def test_who_does_not_fill_the_folder_still_reads_it(tmp_path):
    other, written = Source(numbered(range(10))), cache(tmp_path)
    await written.put(NAME, BLOCK)
    reading = cache(tmp_path, fills=False)

    assert (await reading.get(NAME, forbidden)).block.equals(BLOCK)
    name = name_of(other.block)
    await reading.put(name, other.block)
    await reading.get(name, other)
    await reading.get(name, other)

    assert other.fetches == 1
    assert len([file for file in tmp_path.rglob("*") if file.is_file()]) == 1


async def test_what_was_dropped_is_fetched_again(tmp_path):
    for folder in (tmp_path, None):
        source, shared = Source(), cache(folder)
        await shared.put(NAME, BLOCK)
        await shared.drop(NAME)
        await shared.get(NAME, source)

        assert source.fetches == 1


async def test_a_block_in_pieces_is_kept_in_one(tmp_path):
    shared = cache(tmp_path)
    pieces = numbered(range(500)), numbered(range(500, 1_000))
    await shared.put(NAME, pa.concat_tables(pieces))

    opened = await shared.get(NAME, forbidden)

    assert opened.block.column("key").num_chunks == 1


@pytest.mark.parametrize("damage", ["truncated", "zeroed", "empty", "flipped", "foreign"])
async def test_a_file_torn_by_a_power_cut_is_dropped_and_fetched_again(tmp_path, damage):
    await cache(tmp_path).put(NAME, BLOCK)
    [file] = tmp_path.iterdir()
    data = bytearray(file.read_bytes())
    middle = len(data) // 2
    match damage:
        case "truncated":
            data = data[:-4096]
        case "zeroed":
            data[middle : middle + 4096] = bytes(4096)
        case "empty":
            data = b""
        case "flipped":
            data[middle] ^= 1
        case "foreign":
            data = b"not an arrow file at all"
    file.write_bytes(bytes(data))
    source = Source()

    assert (await cache(tmp_path).get(NAME, source)).block.equals(BLOCK)
    assert source.fetches == 1
    assert (await cache(tmp_path).get(NAME, forbidden)).block.equals(BLOCK)


async def test_every_page_of_a_file_is_checked(tmp_path):
    await cache(tmp_path).put(NAME, BLOCK)
    [file] = tmp_path.iterdir()
    whole = file.read_bytes()
    for start in range(0, len(whole), 4096):
        torn = whole[:start] + bytes(len(whole[start : start + 4096])) + whole[start + 4096 :]
        file.write_bytes(torn)

        assert (await cache(tmp_path).get(NAME, Source())).block.equals(BLOCK)


async def test_the_folder_stays_within_its_limit_and_keeps_what_was_opened_last(tmp_path):
    blocks = [numbered(range(i * 1_000, i * 1_000 + 1_000)) for i in range(10)]
    shared = cache(tmp_path, bytes_max=5 * await file_size(tmp_path))
    for at, block in enumerate(blocks):
        await shared.put(name_of(block), block)
        for file in tmp_path.iterdir():
            if file.name.startswith(name_of(block)):
                os.utime(file, ns=(at * 10**9, at * 10**9))
        await cache(tmp_path).get(name_of(blocks[0]), forbidden)

    kept = [any(f.name.startswith(name_of(b)) for f in tmp_path.iterdir()) for b in blocks]
    assert kept == [True, False, False, False, False, False, True, True, True, True]


async def test_a_left_over_temporary_file_goes_in_the_end(tmp_path):
    left_over = tmp_path / "1-1.tmp"
    left_over.write_bytes(bytes(100_000))
    os.utime(left_over, ns=(0, 0))
    await cache(tmp_path, bytes_max=50_000).put(NAME, BLOCK)

    assert not left_over.exists()


async def test_a_map_outlives_its_file(tmp_path):
    opened = await cache(tmp_path).get(NAME, Source())
    for file in tmp_path.iterdir():
        file.unlink()

    assert opened.block.equals(BLOCK)
    assert opened.find("k00000500").path == "k00000500"


async def test_maps_held_open_are_bounded(tmp_path):
    shared = cache(tmp_path, mapped_bytes_max=3 * OpenRange(BLOCK).size_bytes)
    blocks = [numbered(range(i * 1_000, i * 1_000 + 1_000)) for i in range(10)]
    for block in blocks:
        await shared.put(name_of(block), block)
        await shared.get(name_of(block), forbidden)

    assert [shared.peek(name_of(b)) is not None for b in blocks] == [False] * 7 + [True] * 3


async def test_tables_in_memory_of_ones_own_have_a_bound_of_their_own(tmp_path):
    size_bytes = OpenRange(BLOCK).size_bytes
    shared = cache(tmp_path, mapped_bytes_max=10 * size_bytes, held_bytes_max=3 * size_bytes, fills=False)
    blocks = [numbered(range(i * 1_000, i * 1_000 + 1_000)) for i in range(10)]
    for block in blocks:
        await shared.get(name_of(block), Source(block))

    assert [shared.peek(name_of(b)) is not None for b in blocks] == [False] * 7 + [True] * 3


@pytest.mark.parametrize("fills", [True, False])
async def test_who_reads_things_once_gives_their_memory_back(tmp_path, fills):
    shared = cache(tmp_path, fills=fills)
    await shared.get(NAME, Source())

    shared.let_go()

    assert (shared.peek(NAME) is None) == (not fills)


async def test_a_folder_that_cannot_be_written_costs_only_time(tmp_path):
    (tmp_path / "file").write_text("in the way")
    source, shared = Source(), cache(tmp_path / "file" / "folder")

    assert (await shared.get(NAME, source)).block.equals(BLOCK)
    await shared.put(NAME, BLOCK)
    assert (await shared.get(NAME, forbidden)).block.equals(BLOCK)


async def test_many_threads_share_a_folder(tmp_path):
    workers = ThreadWorkers(4)
    shared = RangeCache(
        tmp_path, workers=workers, bytes_max=6 * await file_size(tmp_path), mapped_bytes_max=1
    )
    blocks = [numbered(range(i * 1_000, i * 1_000 + 1_000)) for i in range(8)]

    async def read(block):
        for _ in range(5):
            assert (await shared.get(name_of(block), Source(block))).block.equals(block)

    try:
        await asyncio.gather(*(read(block) for block in blocks))
    finally:
        workers.close()


async def file_size(folder):
    """Return how large the file of such a block is."""
    await cache(folder).put(NAME, BLOCK)
    [file] = folder.iterdir()
    size = file.stat().st_size
    file.unlink()
    return size
