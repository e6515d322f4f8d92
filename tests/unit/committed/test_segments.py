"""`SegmentFiles`: what it fetches, keeps and finds out about damage."""

from dataclasses import replace

import pytest
from tests.unit.format.test_segments import CHANGES, MAIN

from lakebed.committed import segments
from lakebed.committed.cache import RangeCache
from lakebed.committed.segments import SegmentFiles
from lakebed.env.clock import Instant
from lakebed.env.work import InlineWorkers
from lakebed.errors import CorruptError, ErrorKind, NotFoundError
from lakebed.format.blocks import block_changes
from lakebed.format.bloom import key_hash
from lakebed.model.ids import BranchName, RepoName, RepoUid
from lakebed.model.repository import Repository
from lakebed.model.segments import segment_key
from lakebed.objects.drivers.memory import MemoryBucket, MemoryObjects

ID = "00000001-abc"
REPO = Repository(
    name=RepoName("lake"),
    uid=RepoUid("uid"),
    namespace="mem://lake",
    default_branch=BranchName("main"),
    created_at=Instant(0),
)


class Counting(MemoryObjects):
    """Remembers what was asked for, and may damage the first answers."""

    def __init__(self, bucket: MemoryBucket) -> None:
        super().__init__(bucket=bucket)
        self.asked: list[str] = []
        self.damaged = 0

    async def get(self, key, *, byte_range=None):
        self.asked.append("get")
        data = await super().get(key, byte_range=byte_range)
        if self.damaged:
            self.damaged -= 1
            return data[:-20] + bytes(20)
        return data

    async def head(self, key):
        self.asked.append("head")
        return await super().head(key)


class World:
    def __init__(self) -> None:
        self.bucket = MemoryBucket()
        self.store = Counting(self.bucket)

    def files(self, **options) -> SegmentFiles:
        """Return another process's view, with nothing in its caches."""

        async def store_of(repo):
            return self.store

        workers = InlineWorkers()
        return SegmentFiles(store_of, RangeCache(None, workers=workers), workers, **options)


@pytest.fixture
def world() -> World:
    return World()


async def test_what_was_written_is_read_by_others_with_one_request(world: World) -> None:
    layer = await world.files().write(REPO, ID, "i", MAIN)
    reader = world.files()

    await reader.learn(REPO, layer)
    assert not reader.rules_out(REPO, layer, key_hash("nobody"))
    opened = await reader.open(REPO, layer)
    await reader.open(REPO, layer)

    assert world.store.asked == ["get"]
    assert block_changes(opened.between(b"", None)) == CHANGES
    for change in CHANGES:
        assert opened.find_change(change.path) == change
    assert opened.find_change("nobody") is None


async def test_of_a_large_layer_the_footer_comes_first_and_may_be_enough(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    layer = await world.files().write(REPO, ID, "i", MAIN)
    monkeypatch.setattr(segments, "SEGMENT_WHOLE_BYTES", 10)
    monkeypatch.setattr(segments, "SEGMENT_FOOTER_BYTES", 10)
    reader = world.files()

    await reader.learn(REPO, layer)
    assert reader.rules_out(REPO, layer, key_hash("nobody"))
    assert reader.peek(REPO, layer) is None
    assert world.store.asked == ["head", "get", "get"], "the first piece was too short for the footer"
    assert not reader.rules_out(REPO, layer, key_hash(CHANGES[0].path))
    assert block_changes((await reader.open(REPO, layer)).block) == CHANGES
    assert world.store.asked[3:] == ["get"]


async def test_the_writer_itself_fetches_nothing(world: World) -> None:
    files = world.files()
    layer = await files.write(REPO, ID, "i", MAIN)

    assert files.rules_out(REPO, layer, key_hash("nobody"))
    await files.open(REPO, layer)
    assert world.store.asked == []


async def test_footers_are_kept_up_to_a_number_of_bytes(world: World) -> None:
    files = world.files(footers_bytes_max=1)
    first = await files.write(REPO, ID, "i", MAIN)
    second = await files.write(REPO, "00000001-def", "i", MAIN)

    assert files.rules_out(REPO, second, key_hash("nobody"))
    assert not files.rules_out(REPO, first, key_hash("nobody")), "not known any more"


async def test_damage_on_the_way_is_fetched_again_and_damage_that_stays_is_named(world: World) -> None:
    layer = await world.files().write(REPO, ID, "i", MAIN)
    world.store.damaged = 1
    assert (await world.files().open(REPO, layer)).block.num_rows == len(CHANGES)

    world.store.damaged = 2
    with pytest.raises(CorruptError) as caught:
        await world.files().open(REPO, layer)
    assert segment_key(ID) in str(caught.value)


async def test_a_layer_that_lists_other_rows_than_the_file_has_is_refused(world: World) -> None:
    layer = await world.files().write(REPO, ID, "i", MAIN)

    with pytest.raises(CorruptError) as caught:
        await world.files().open(REPO, replace(layer, hash="0" * 64))
    assert caught.value.kind is ErrorKind.CHECKSUM_MISMATCH
    with pytest.raises(CorruptError):
        await world.files().open(REPO, replace(layer, dataset="other"))


@pytest.mark.parametrize("size", [10, 10**9])
async def test_a_file_that_is_not_there_is_told_as_such(world: World, size: int) -> None:
    layer = await world.files().write(REPO, ID, "i", MAIN)
    world.bucket.objects.clear()

    with pytest.raises(NotFoundError):
        await world.files().open(REPO, replace(layer, bytes=size))


async def test_one_repository_never_opens_what_only_another_has(world: World) -> None:
    files = world.files()
    layer = await files.write(REPO, ID, "i", MAIN)
    world.bucket.objects.clear()

    with pytest.raises(NotFoundError):
        await files.open(replace(REPO, uid=RepoUid("other")), layer)
