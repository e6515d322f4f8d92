"""Every kind of damage is named, where it is, and nothing else is."""

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import ParamSpec, TypeVar

import pytest

from lakebed.committed.cache import RangeCache
from lakebed.committed.names import METARANGES_FOLDER, RANGES_FOLDER
from lakebed.committed.segments import SegmentFiles
from lakebed.env.clock import SystemClock
from lakebed.env.ids import SeededIds
from lakebed.env.work import InlineWorkers
from lakebed.errors import UnavailableError
from lakebed.format.metaranges import (
    RangeInfo,
    decode_metarange,
    encode_metarange,
    metarange_block,
    metarange_hash,
    range_infos,
)
from lakebed.format.records import decode_commit, encode_commit
from lakebed.kv.drivers.memory import MemoryKV
from lakebed.kv.port import Expect, Row
from lakebed.kv.wrappers.faults import WRITES, FaultyKV, Refused
from lakebed.limits import GRACE_SECONDS, PIN_SECONDS
from lakebed.model.entries import Entry, Tombstone
from lakebed.model.ids import BranchName, CommitId, MetarangeId, parse_path
from lakebed.model.layers import SegmentLayer
from lakebed.model.segments import segment_key
from lakebed.objects.port import ObjectStore, PutMode
from lakebed.objects.settings import StoreSettings
from lakebed.refs.keys import branch_key, commit_key, tag_key
from lakebed.refs.pins import Pins
from lakebed.staging.appending import Appender, SegmentUse, sorted_block
from lakebed.testing.lake import Lake, open_lake
from lakebed.testing.site import Site
from lakebed.versioning import verify as verify_module
from lakebed.versioning.findings import Finding, FindingKind, Verified
from lakebed.versioning.verify import Verifier
from tests.unit.leaping import LeapClock

P = ParamSpec("P")
T = TypeVar("T")


@pytest.fixture
async def lake(tmp_path: Path) -> AsyncIterator[Lake]:
    """Two commits on `main`, another on `dev`, a tag, a stash, and something uncommitted; all of it whole."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "x").write_bytes(b"outside")
    site = Site(tmp_path, "mem://", StoreSettings(), kv=MemoryKV(), import_prefixes=(f"local://{outside}",))
    async with site.lake() as opened:
        await opened.commit("main", a="one", b="two")
        await opened.catalog.tags.create("lake", "v1", "main")
        await opened.catalog.branches.create("lake", "dev", "main")
        await opened.commit("dev", c="three")
        await opened.put("dev", d="stashed")
        await opened.engine.stashes.stash(opened.repo, (await branch(opened, "dev")).name)
        await opened.put("main", e="uncommitted")
        entry = Entry(
            path=parse_path("x"),
            address=f"local://{outside}/x",
            checksum="10a3d3f5d5b8e7cd1d7bd41ba0a8a51d",
            size_bytes=7,
            mtime=await opened.kv.now(),
        )
        await opened.engine.parts.staging.write(opened.repo, (await branch(opened, "main")).name, [entry])
        yield opened


async def branch(lake: Lake, name: str):
    return (await lake.engine.parts.branches.get(lake.repo, name)).value


async def verify(lake: Lake, tmp_path: Path, *, data: bool = False) -> tuple[list[Finding], Verified]:
    found: list[Finding] = []
    verifier = Verifier(
        kv=lake.kv,
        pins=lake.engine.parts.pins,
        repo=lake.repo,
        store=await lake.engine.store_of(lake.repo),
        external=lake.engine.external,
        workers=InlineWorkers(),
        temp=tmp_path,
        report=found.append,
    )
    return found, await verifier.run(data=data)


async def address(lake: Lake, ref: str, path: str) -> str:
    return (await lake.catalog.objects.stat("lake", ref, path)).address


async def tree_of(lake: Lake, ref: str) -> MetarangeId:
    return (await lake.catalog.commits.get("lake", ref)).tree


async def files(store: ObjectStore, folder: str) -> list[str]:
    return [info.key async for page in store.list(folder) for info in page]


async def damage(store: ObjectStore, key: str) -> None:
    data = bytearray(await store.get(key))
    data[len(data) // 2] ^= 0xFF
    await store.put(key, bytes(data), when=PutMode.OVERWRITE)


async def test_nothing_is_wrong_with_what_is_whole(lake: Lake, tmp_path: Path) -> None:
    found, done = await verify(lake, tmp_path)

    assert found == []
    assert (done.branches, done.tags, done.commits) == (2, 1, 3)
    assert (done.trees, done.ranges, done.staged, done.objects) == (2, 2, 3, 6)
    assert not list(tmp_path.glob("verify-*"))


async def test_the_bytes_are_read_only_when_asked_for(lake: Lake, tmp_path: Path) -> None:
    key = await address(lake, "v1", "a")
    store = await lake.engine.store_of(lake.repo)
    await store.put(key, b"eno", when=PutMode.OVERWRITE)

    assert (await verify(lake, tmp_path))[0] == []
    found, _ = await verify(lake, tmp_path, data=True)

    kinds = {(each.kind, each.where.partition(", path ")[2]) for each in found}
    assert (FindingKind.OBJECT_DAMAGED, "a") in kinds
    assert {kind for kind, _ in kinds} == {FindingKind.OBJECT_DAMAGED}


async def test_an_object_outside_is_read_and_compared(lake: Lake, tmp_path: Path) -> None:
    found, _ = await verify(lake, tmp_path, data=True)

    assert [(each.kind, each.where) for each in found] == [
        (FindingKind.OBJECT_DAMAGED, "branch main, uncommitted, path x")
    ]


@pytest.mark.parametrize("folder", [RANGES_FOLDER, METARANGES_FOLDER])
async def test_files_of_trees_that_are_missing_or_damaged_are_named(
    lake: Lake, tmp_path: Path, folder: str
) -> None:
    store = await lake.engine.store_of(lake.repo)
    noun = "range" if folder == RANGES_FOLDER else "metarange"
    one, other = await files(store, folder)
    await damage(store, one)
    await store.delete([other])

    found, _ = await verify(lake, tmp_path)

    assert {(each.kind, each.what.partition(" ")[0].rstrip(":")) for each in found} == {
        (FindingKind(f"{noun}-damaged"), one),
        (FindingKind(f"{noun}-missing"), other),
    }
    assert all("commit " in each.where for each in found)


async def test_objects_that_are_missing_or_of_another_size_are_named(lake: Lake, tmp_path: Path) -> None:
    store = await lake.engine.store_of(lake.repo)
    await store.delete([await address(lake, "dev", "c"), await address(lake, "main", "e")])
    await store.put(await address(lake, "v1", "b"), b"too long", when=PutMode.OVERWRITE)
    (tmp_path / "outside" / "x").unlink()

    found, _ = await verify(lake, tmp_path)

    kinds = {each.where.partition(", path ")[2]: each.kind for each in found}
    assert kinds == {
        "b": FindingKind.OBJECT_SIZE,
        "c": FindingKind.OBJECT_MISSING,
        "e": FindingKind.OBJECT_MISSING,
        "x": FindingKind.OBJECT_MISSING,
    }
    assert all(each.remedy for each in found)


async def test_an_object_of_a_stash_that_is_missing_is_named(lake: Lake, tmp_path: Path) -> None:
    (stash,) = await lake.engine.stashes.list(lake.repo)
    store = await lake.engine.store_of(lake.repo)
    named = {
        await address(lake, ref, path)
        for ref, path in (("main", "e"), ("dev", "c"), ("v1", "a"), ("v1", "b"))
    }
    (kept,) = set(await files(store, "data/")) - named
    await store.delete([kept])

    found, _ = await verify(lake, tmp_path)

    assert [(each.kind, each.where) for each in found] == [
        (FindingKind.OBJECT_MISSING, f"stash {stash.id}, path d")
    ]


async def test_an_external_object_that_may_not_be_read_is_named(lake: Lake, tmp_path: Path) -> None:
    entry = Entry(
        path=parse_path("y"),
        address="local:///elsewhere/y",
        checksum="",
        size_bytes=1,
        mtime=await lake.kv.now(),
    )
    await lake.engine.parts.staging.write(lake.repo, (await branch(lake, "main")).name, [entry])

    found, _ = await verify(lake, tmp_path)

    assert [each.kind for each in found] == [FindingKind.OBJECT_REFUSED]


async def lose_commit(lake: Lake, head: CommitId) -> None:
    await lake.kv.delete_rows(lake.repo.partition, [commit_key(head)])


async def spoil_commit(lake: Lake, head: CommitId) -> None:
    await lake.kv.set_rows(lake.repo.partition, [Row(commit_key(head), b"nonsense")])


@pytest.mark.parametrize(
    ("harm", "kinds"),
    [
        (lose_commit, {FindingKind.COMMIT_MISSING}),
        (spoil_commit, {FindingKind.COMMIT_MISSING, FindingKind.RECORD_DAMAGED}),
    ],
)
async def test_commits_that_are_missing_or_damaged_are_named(
    lake: Lake, tmp_path: Path, harm: Callable[[Lake, CommitId], Awaitable[None]], kinds: set[FindingKind]
) -> None:
    await harm(lake, (await lake.catalog.commits.get("lake", "dev")).id)

    found, _ = await verify(lake, tmp_path)

    assert {each.kind for each in found} == kinds


@pytest.mark.parametrize("key", [branch_key("dev"), tag_key("v1")])  # type: ignore[arg-type]  names as they are stored
async def test_a_damaged_record_of_a_ref_is_named(lake: Lake, tmp_path: Path, key: bytes) -> None:
    await lake.kv.set_rows(lake.repo.partition, [Row(key, b"nonsense")])

    found, _ = await verify(lake, tmp_path)

    assert [(each.kind, each.where) for each in found] == [
        (FindingKind.RECORD_DAMAGED, key.decode().replace("branches/", "branch ").replace("tags/", "tag "))
    ]


async def test_staged_rows_that_are_damaged_or_half_dropped_are_named(lake: Lake, tmp_path: Path) -> None:
    token = (await branch(lake, "main")).staging_token
    assert token is not None
    await lake.kv.delete_rows(token, [b"open"])

    found, _ = await verify(lake, tmp_path)
    assert [(each.kind, each.where) for each in found] == [
        (FindingKind.ROWS_DAMAGED, "branch main, uncommitted")
    ]

    await lake.kv.set_rows(token, [Row(b"open", b"\x01"), Row(b"key/e", b"short")])
    found, _ = await verify(lake, tmp_path)
    assert [each.kind for each in found] == [FindingKind.ROWS_DAMAGED]


async def test_a_range_that_is_not_what_its_metarange_says_is_named(lake: Lake, tmp_path: Path) -> None:
    store = await lake.engine.store_of(lake.repo)
    dev = await lake.catalog.commits.get("lake", "dev")
    block = decode_metarange(await store.get(f"{METARANGES_FOLDER}{dev.tree}.parquet"))
    (info,) = range_infos(block)
    wrong = metarange_block(
        [
            RangeInfo(
                id=info.id,
                hash=info.hash,
                min_key=info.min_key,
                max_key=info.max_key,
                count=info.count + 1,
                bytes=info.bytes,
            )
        ]
    )
    tree = MetarangeId(f"{metarange_hash(wrong)}-forged")
    await store.put(f"{METARANGES_FOLDER}{tree}.parquet", encode_metarange(wrong))
    item = await lake.kv.get(lake.repo.partition, commit_key(dev.id))
    assert item is not None
    forged = encode_commit(replace(decode_commit(item.value), tree=tree))
    await lake.kv.swap(lake.repo.partition, commit_key(dev.id), forged, expected=Expect.ANY)

    found, _ = await verify(lake, tmp_path)

    assert [each.kind for each in found] == [FindingKind.RANGE_DAMAGED]
    assert "metarange says" in found[0].what


async def test_objects_of_condemned_commits_may_be_gone_but_not_their_files(
    lake: Lake, tmp_path: Path
) -> None:
    store = await lake.engine.store_of(lake.repo)
    dev = await lake.catalog.commits.get("lake", "dev")
    await store.delete([await address(lake, "dev", "c")])
    condemned = encode_commit(replace(dev, condemned_by="run"))
    await lake.kv.swap(lake.repo.partition, commit_key(dev.id), condemned, expected=Expect.ANY)

    assert (await verify(lake, tmp_path))[0] == []

    await store.delete([f"{METARANGES_FOLDER}{dev.tree}.parquet"])
    assert [each.kind for each in (await verify(lake, tmp_path))[0]] == [FindingKind.METARANGE_MISSING]


async def by_segment(lake: Lake) -> SegmentLayer:
    """Stage a change of `main` as a segment, and return its layer."""
    parts = lake.engine.parts
    entry = Entry(
        path=parse_path("s"),
        address=await address(lake, "v1", "a"),
        checksum=(await lake.catalog.objects.stat("lake", "v1", "a")).checksum,
        size_bytes=3,
        mtime=await lake.kv.now(),
    )
    appender = Appender(
        lake.kv,
        branches=parts.branches,
        segments=SegmentFiles(
            lake.engine.store_of, RangeCache(None, workers=InlineWorkers()), InlineWorkers()
        ),
        clock=parts.clock,
        ids=parts.ids,
        use=SegmentUse.ALWAYS,
    )
    changed = await appender.append(
        lake.repo, await branch(lake, "main"), sorted_block([entry, Tombstone(path=parse_path("t"))])
    )
    layer = changed.sealed[0]
    assert isinstance(layer, SegmentLayer)
    return layer


async def test_a_whole_segment_is_counted_and_its_objects_are_looked_for(lake: Lake, tmp_path: Path) -> None:
    await by_segment(lake)
    found, done = await verify(lake, tmp_path)
    assert (found, done.staged) == ([], 5)

    store = await lake.engine.store_of(lake.repo)
    await store.delete([await address(lake, "main", "s")])
    found, _ = await verify(lake, tmp_path)
    assert {finding.kind for finding in found} == {FindingKind.OBJECT_MISSING}


async def test_a_segment_that_is_missing_or_damaged_or_not_the_one_listed_is_named(
    lake: Lake, tmp_path: Path
) -> None:
    layer = await by_segment(lake)
    store = await lake.engine.store_of(lake.repo)
    whole = await store.get(segment_key(layer.id))

    await store.put(
        segment_key(layer.id),
        whole[:4] + bytes(layer.bytes) + whole[4 + layer.bytes :],
        when=PutMode.OVERWRITE,
    )
    found, _ = await verify(lake, tmp_path)
    assert [finding.kind for finding in found] == [FindingKind.SEGMENT_DAMAGED]
    assert found[0].where == "branch main, uncommitted"

    await store.put(segment_key(layer.id), whole, when=PutMode.OVERWRITE)
    versioned = await lake.engine.parts.branches.get(lake.repo, BranchName("main"))
    listed = replace(versioned.value.sealed[0], entries=7)
    other = replace(versioned.value, sealed=(listed, *versioned.value.sealed[1:]))
    await lake.engine.parts.branches.swap(lake.repo, versioned, other)
    found, _ = await verify(lake, tmp_path)
    assert [finding.kind for finding in found] == [FindingKind.SEGMENT_DAMAGED]

    await store.delete([segment_key(layer.id)])
    found, _ = await verify(lake, tmp_path)
    assert [finding.kind for finding in found] == [FindingKind.SEGMENT_MISSING]


async def test_a_segment_that_left_its_branch_and_was_swept_meanwhile_is_no_finding(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    layer = await by_segment(lake)
    reachable = verify_module.find_reachable

    async def slow_reachable(*args):
        found = await reachable(*args)
        await lake.catalog.branches.reset("lake", "main")
        await (await lake.engine.store_of(lake.repo)).delete([segment_key(layer.id)])
        return found

    monkeypatch.setattr(verify_module, "find_reachable", slow_reachable)

    assert (await verify(lake, tmp_path))[0] == []


class Slow(InlineWorkers):
    """The first piece of work takes as long as the test wants it to."""

    def __init__(self, meanwhile: Callable[[], Awaitable[None]]) -> None:
        self._meanwhile: Callable[[], Awaitable[None]] | None = meanwhile

    async def run(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        meanwhile, self._meanwhile = self._meanwhile, None
        if meanwhile is not None:
            await meanwhile()
        return await super().run(function, *args, **kwargs)


def slow_verifier(lake: Lake, folder: Path, meanwhile: Callable[[], Awaitable[None]], store: ObjectStore):
    return Verifier(
        kv=lake.kv,
        pins=lake.engine.parts.pins,
        repo=lake.repo,
        store=store,
        external=lake.engine.external,
        workers=Slow(meanwhile),
        temp=folder,
        report=lambda found: pytest.fail(str(found)),
    )


async def test_what_leaves_its_branch_meanwhile_is_looked_at_all_the_same(tmp_path: Path) -> None:
    clock = LeapClock()
    async with open_lake(clock=clock) as lake:
        await lake.commit("main", a="1")
        await lake.put("main", b="2", c="3")

        async def commit_and_clean_up() -> None:
            await lake.commit("main")
            await clock.leap(PIN_SECONDS / 2, steps=int(4 * GRACE_SECONDS / PIN_SECONDS))
            await lake.cleaner.clean_once()

        store = await lake.engine.store_of(lake.repo)
        done = await slow_verifier(lake, tmp_path, commit_and_clean_up, store).run()
        assert (done.staged, done.objects) == (2, 3)
        freed = await lake.cleaner.clean_once()
        assert freed.failed == 0
        assert (await branch(lake, "main")).retired == ()


async def test_a_check_that_could_not_renew_its_pin_stops_instead_of_reporting_what_was_let_go(
    tmp_path: Path,
) -> None:
    clock = LeapClock()
    async with open_lake(clock=clock) as lake:
        await lake.commit("main", a="1")

        async def stand_still() -> None:
            clock.jump(PIN_SECONDS)

        store = await lake.engine.store_of(lake.repo)
        with pytest.raises(UnavailableError, match="start it again"):
            await slow_verifier(lake, tmp_path, stand_still, store).run()


async def test_a_database_that_takes_no_writes_is_looked_through_without_a_pin(tmp_path: Path) -> None:
    async with open_lake() as lake:
        await lake.commit("main", a="1")

        async def nothing() -> None:
            return

        verifier = slow_verifier(lake, tmp_path, nothing, await lake.engine.store_of(lake.repo))
        clock = SystemClock()
        full = FaultyKV(
            lake.kv, plan=lambda call: Refused() if call.operation in WRITES else None, clock=clock
        )
        verifier.pins = Pins(full, clock=clock, ids=SeededIds(1))
        assert (await verifier.run()).objects == 1
