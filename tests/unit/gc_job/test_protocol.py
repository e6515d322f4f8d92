"""A mark and a sweep, step by step, over a lake in memory."""

import pytest

from lakebed.errors import ConflictError, ErrorKind, FencedError, NotFoundError, UnavailableError
from lakebed.format.gc import (
    CANDIDATES_FILE,
    Attempts,
    Summary,
    decode_summary,
    decode_table,
    deleted_key,
    summary_key,
)
from lakebed.format.layout import METARANGES_FOLDER, RANGES_FOLDER
from lakebed.format.tree_names import tree_file_name
from lakebed.model.gc import MarkKind
from lakebed.spark.gc import marking, sweeping
from lakebed.spark.gc.decide import Options
from lakebed.spark.gc.protocol import mark, sweep
from tests.unit.gc_job.lake import DAY, HOUR, NAMESPACE, Lake

USUAL = Options(min_age_seconds=DAY, grace_seconds=DAY, allow_large=True)
AT_ONCE = Options(min_age_seconds=DAY, grace_seconds=0.0, allow_large=True)


def garbage(lake: Lake, count: int = 1) -> list[str]:
    """Objects that were staged and taken back."""
    found = [lake.upload("main", f"a/garbage{n}") for n in range(count)]
    for n in range(count):
        lake.unstage("main", f"a/garbage{n}")
    return found


async def collect(lake: Lake, options: Options = AT_ONCE) -> Summary:
    await mark(lake.world(), options)
    return await sweep(lake.world(), options)


async def test_two_marks_a_grace_apart_delete_what_nothing_refers_to():
    lake = Lake()
    kept = lake.upload("main", "a/1")
    garbage(lake)
    lake.commit("main")
    lake.clock.at += 2 * DAY

    first = await mark(lake.world(), USUAL)
    assert (first.candidates.objects, first.marked.objects) == (1, 0)
    lake.clock.at += DAY + 1
    second = await mark(lake.world(), USUAL)
    assert (second.candidates.objects, second.marked.objects) == (1, 1)
    swept = await sweep(lake.world(), USUAL)

    assert lake.data() == {kept}
    assert (swept.deleted, swept.swept_at is not None) == (second.marked, True)
    lake.check()


async def test_a_second_mark_less_than_a_grace_later_confirms_nothing():
    lake = Lake()
    garbage(lake)
    lake.clock.at += 2 * DAY

    await mark(lake.world(), USUAL)
    lake.clock.at += DAY - 1
    second = await mark(lake.world(), USUAL)

    assert (second.candidates.objects, second.marked.objects) == (1, 0)


async def test_what_was_referred_to_between_two_marks_starts_over():
    lake = Lake()
    address = garbage(lake)[0]
    lake.clock.at += 2 * DAY
    await mark(lake.world(), USUAL)
    lake.stage("main", "a/again", address)
    lake.clock.at += DAY
    await mark(lake.world(), USUAL)
    lake.unstage("main", "a/again")
    lake.clock.at += DAY

    third = await mark(lake.world(), USUAL)

    assert (third.candidates.objects, third.marked.objects) == (1, 0)


async def test_without_a_grace_a_run_marks_what_it_finds():
    lake = Lake()
    garbage(lake)
    lake.clock.at += 2 * DAY

    assert (await mark(lake.world(), AT_ONCE)).marked.objects == 1


async def test_a_mark_deletes_nothing():
    lake = Lake()
    garbage(lake)
    lake.clock.at += 2 * DAY

    await mark(lake.world(), AT_ONCE)

    assert not [line for line in lake.store.log if line.startswith("delete")]


async def test_the_store_is_listed_first_then_what_is_uncommitted_then_commits():
    lake = Lake()
    lake.upload("main", "a/1")
    lake.clock.at += 2 * DAY
    lake.store.log.clear()

    await mark(lake.world(), AT_ONCE)

    steps = [line for line in lake.store.log if not line.startswith(("renew", "end", "begin"))]
    last_listing = max(n for n, line in enumerate(steps) if line.startswith("list "))
    assert last_listing < steps.index("uncommitted")
    assert steps[steps.index("uncommitted") :] == [*["uncommitted"] * 4, "commits", "prepared", "publish"]


async def test_a_mark_that_was_not_published_is_not_built_upon():
    lake = Lake()
    garbage(lake)
    lake.clock.at += 2 * DAY

    async def takes_the_lease(call: str) -> None:
        lake.lease = "another" if call == "publish" else lake.lease

    lake.between = takes_the_lease
    with pytest.raises(FencedError):
        await mark(lake.world(), USUAL)
    lake.between = None
    lake.clock.at += 2 * DAY

    assert (await mark(lake.world(), USUAL)).marked.objects == 0
    assert lake.calls.count("publish") == 2


async def test_the_lease_is_given_back_whatever_happens():
    lake = Lake()
    await mark(lake.world(), USUAL)
    assert lake.calls[-1] == "end done"

    lake.store.broken["data/"] = UnavailableError(ErrorKind.STORE_UNAVAILABLE, "no")
    with pytest.raises(UnavailableError):
        await mark(lake.world(), USUAL)
    assert lake.calls[-1] == "end failed"


async def test_a_run_that_finds_the_lease_held_does_nothing():
    lake = Lake()
    lake.held_by_another = True

    with pytest.raises(ConflictError):
        await mark(lake.world(), USUAL)
    assert lake.calls == ["begin mark"]


async def test_slices_that_may_still_be_written_to_are_not_read():
    lake = Lake()
    lake.put(lake.address())
    lake.clock.at += DAY + 1800

    assert (await mark(lake.world(), AT_ONCE)).skipped_slices == 1
    lake.clock.at += HOUR
    assert (await mark(lake.world(), AT_ONCE)).candidates.objects == 1


async def test_an_object_that_the_store_wrote_lately_is_no_candidate_however_old_its_slice_is():
    lake = Lake()
    address = lake.address()
    lake.clock.at += 5 * DAY
    lake.put(address)
    lake.clock.at += DAY - HOUR

    assert (await mark(lake.world(), AT_ONCE)).candidates.objects == 0
    lake.clock.at += 2 * HOUR
    assert (await mark(lake.world(), AT_ONCE)).candidates.objects == 1, "and it was not forgotten"


async def test_loose_objects_of_old_layouts_go_and_special_paths_stay():
    lake = Lake()
    left = [
        "dummy",
        "_lakefs/retention/x",
        "_lakebed/owner-1",
        ".lakebed/version",
        "photos/1",
        "we ird",
        "data/x/a b",
    ]
    for key in ["loose", "data/loose", "data/foreign/1", *left]:
        lake.put(key)
    lake.clock.at += 2 * DAY

    swept = await collect(lake)

    assert swept.deleted.objects == 3
    assert swept.unknown_folders == 1
    assert swept.odd_names == 2
    assert {*left} <= lake.store.objects.keys()
    assert not {"loose", "data/loose", "data/foreign/1"} & lake.store.objects.keys()


async def test_folders_named_like_the_peers_slices_are_listed_by_clean_runs():
    lake = Lake()
    lake.put("data/gqk3l0v8n2c4tq8vb0e0/1")
    lake.clock.at += 2 * DAY

    assert (await mark(lake.world(), AT_ONCE)).candidates.objects == 1


async def test_an_address_that_spells_the_namespace_out_is_live():
    lake = Lake()
    address = lake.put(lake.address())
    lake.commit_tree("main", {"a/1": f"{NAMESPACE}/{address}"}, ())
    lake.clock.at += 2 * DAY

    assert (await mark(lake.world(), AT_ONCE)).candidates.objects == 0


async def test_what_expired_commits_held_goes_and_their_files_stay_while_a_ref_reaches_them():
    lake = Lake()
    old = lake.upload("main", "a/1")
    lake.commit("main")
    new = lake.upload("main", "a/1")
    lake.commit("main")
    lake.rules = 0.0
    lake.clock.at += 2 * DAY
    files = lake.files()

    await collect(lake)

    assert lake.data() == {new}
    assert old not in lake.store.objects
    assert lake.files() == files
    lake.check()


def foreign_files(nonces: list[str]) -> list[str]:
    """Files of these writers, as they are called now and as earlier versions called them."""
    names = [name for nonce in nonces for name in (tree_file_name("0" * 64, nonce), f"{'0' * 64}-{nonce}")]
    return [f"{RANGES_FOLDER}{name}.parquet" for name in names]


async def test_files_that_somebody_may_still_install_are_kept():
    lake = Lake()
    lake.branches["main"].nonces = ["pending"]
    lake.attempts = (Attempts("inc", 7, (3,)),)
    kept = foreign_files(["pending", "inc-3", "inc-8"])
    gone = foreign_files(["done", "inc-7", "inc-4", "gone-9"])
    odd = [f"{RANGES_FOLDER}odd.parquet", f"{METARANGES_FOLDER}{'0' * 63}.parquet"]
    for key in [*kept, *gone, *odd]:
        lake.put(key)
    lake.clock.at += 2 * DAY

    await collect(lake)

    assert {*kept, *odd} <= lake.store.objects.keys()
    assert not {*gone} & lake.store.objects.keys()


async def test_a_young_file_is_kept():
    lake = Lake()
    lake.put(foreign_files(["new"])[0])
    lake.clock.at += DAY - HOUR

    assert (await mark(lake.world(), AT_ONCE)).candidates.objects == 0


async def test_a_sweep_goes_by_the_mark_that_is_named():
    lake = Lake()
    first = garbage(lake)[0]
    lake.clock.at += 2 * DAY
    await mark(lake.world(), USUAL)
    second = garbage(lake)[0]
    lake.clock.at += 2 * DAY
    mark_id = (await mark(lake.world(), USUAL)).run
    lake.clock.at += 2 * DAY
    assert (await mark(lake.world(), USUAL)).marked.objects == 2

    await sweep(lake.world(), USUAL, mark_id)

    assert first not in lake.store.objects
    assert second in lake.store.objects


async def test_a_mark_that_no_longer_counts_is_not_swept():
    lake = Lake()
    garbage(lake)
    lake.clock.at += 2 * DAY
    mark_id = (await mark(lake.world(), AT_ONCE)).run
    lake.marks = []

    for name in (None, mark_id):
        with pytest.raises(NotFoundError) as caught:
            await sweep(lake.world(), AT_ONCE, name)
        assert caught.value.kind is ErrorKind.GC_RUN_NOT_FOUND
    assert len(lake.data()) == 1


async def test_a_sweep_looks_at_the_lease_before_it_deletes(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(marking, "GC_CHUNK_ROWS", 1)
    monkeypatch.setattr(sweeping, "_CHUNKS_AT_ONCE", 1)
    lake = Lake()
    garbage(lake, 3)
    lake.clock.at += 2 * DAY
    await mark(lake.world(), AT_ONCE)
    deletions = 0

    async def takes_the_lease(call: str) -> None:
        if call == "renew" and any(line.startswith("delete") for line in lake.store.log):
            lake.lease = "another"

    lake.store.log.clear()
    lake.between = takes_the_lease
    with pytest.raises(FencedError):
        await sweep(lake.world(), AT_ONCE)

    deletions = sum(line.startswith("delete") for line in lake.store.log)
    assert (deletions, len(lake.data())) == (1, 2)


async def test_a_sweep_that_died_goes_on_where_it_was(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(marking, "GC_CHUNK_ROWS", 1)
    monkeypatch.setattr(sweeping, "_CHUNKS_AT_ONCE", 1)
    lake = Lake()
    addresses = garbage(lake, 3)
    lake.clock.at += 2 * DAY
    marked = await mark(lake.world(), AT_ONCE)
    lake.store.broken[f"delete:{addresses[1]}"] = UnavailableError(ErrorKind.STORE_UNAVAILABLE, "no")
    with pytest.raises(UnavailableError):
        await sweep(lake.world(), AT_ONCE)
    halfway = decode_summary(lake.store.objects[summary_key(marked.run)][0])
    assert (halfway.deleted.objects, halfway.swept_at) == (1, None)

    lake.store.broken.clear()
    lake.store.log.clear()
    swept = await sweep(lake.world(), AT_ONCE)

    assert [line for line in lake.store.log if line.startswith("delete")] == ["delete 1"] * 2
    assert swept.deleted == marked.marked
    assert lake.data() == set()
    records = [
        decode_table(CANDIDATES_FILE, lake.store.objects[deleted_key(f.key)][0]) for f in marked.marked_files
    ]
    assert sorted(row for r in records for row in r.column("address").to_pylist()) == sorted(addresses)


async def test_a_sweep_that_died_before_it_recorded_records_later():
    lake = Lake()
    garbage(lake)
    lake.clock.at += 2 * DAY
    marked = await mark(lake.world(), AT_ONCE)
    lake.store.broken["put:_lakebed/gc/" + marked.run + "/deleted"] = UnavailableError(
        ErrorKind.STORE_UNAVAILABLE, "no"
    )
    with pytest.raises(UnavailableError):
        await sweep(lake.world(), AT_ONCE)
    assert lake.data() == set()

    lake.store.broken.clear()
    swept = await sweep(lake.world(), AT_ONCE)

    assert (swept.deleted, swept.swept_at is not None) == (marked.marked, True)


async def test_old_reports_go_and_those_of_marks_that_count_stay():
    lake = Lake()
    runs = []
    for _ in range(3):
        runs.append((await mark(lake.world(), AT_ONCE)).run)
        lake.clock.at += 40 * DAY
    lake.marks = lake.marks[:2]

    await sweep(lake.world(), AT_ONCE)

    there = {key.split("/")[2] for key in lake.store.objects if key.startswith("_lakebed/gc/")}
    assert there == {runs[1], runs[2]}


async def test_a_report_counts_by_prefix_and_age():
    lake = Lake()
    garbage(lake, 2)
    lake.put("loose", size=7)
    lake.put(foreign_files(["x"])[0], size=5)
    lake.clock.at += 10 * DAY

    found = await mark(lake.world(), AT_ONCE)

    assert [(s.prefix, s.age, s.objects, s.bytes) for s in found.by_prefix_and_age] == [
        ("_lakebed/ranges/", "7 to 30 days", 1, 5),
        ("data/", "7 to 30 days", 2, 6),
        ("outside of slices", "7 to 30 days", 1, 7),
    ]
    assert (found.marked.objects, found.marked_objects.objects) == (4, 3)
    assert found.kind is MarkKind.CLEAN
