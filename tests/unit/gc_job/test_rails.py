"""Each rail stops a run before anything is deleted, and lets every other run pass."""

import msgspec
import pyarrow as pa
import pytest

from lakebed.errors import CorruptError, ErrorKind, NotFoundError, PreconditionError, UnavailableError
from lakebed.format.gc import STATE, Amount, decode_summary, encode_summary, state_key, summary_key
from lakebed.format.layout import METARANGES_FOLDER, RANGES_FOLDER
from lakebed.model.ids import RepoUid
from lakebed.spark.gc.decide import Options
from lakebed.spark.gc.protocol import mark, sweep
from tests.unit.gc_job.lake import DAY, GRACE, SLACK, Lake

USUAL = Options(min_age_seconds=DAY, grace_seconds=0.0)


def a_lake() -> Lake:
    """One object of ten is garbage."""
    lake = Lake()
    for n in range(9):
        lake.upload("main", f"a/{n}")
    lake.commit("main")
    lake.upload("main", "b")
    lake.unstage("main", "b")
    lake.clock.at += 2 * DAY
    return lake


async def refused(lake: Lake, options: Options = USUAL) -> str:
    objects, published = dict(lake.store.objects), len(lake.marks)
    with pytest.raises(PreconditionError) as caught:
        await mark(lake.world(), options)
    assert caught.value.kind is ErrorKind.GC_UNSAFE
    assert objects.items() <= lake.store.objects.items()
    assert len(lake.marks) == published
    return str(caught.value)


async def test_nothing_is_in_the_way_of_a_usual_run():
    lake = a_lake()
    await mark(lake.world(), USUAL)

    assert (await sweep(lake.world(), USUAL)).deleted.objects == 1


@pytest.mark.parametrize("skew", [SLACK + 1, -SLACK - 1])
async def test_a_store_whose_clock_is_off_stops_a_run(skew: float):
    lake = a_lake()
    lake.store.skew = skew

    assert "clock of the s" in await refused(lake)


async def test_a_store_whose_clock_is_off_by_less_does_not():
    lake = a_lake()
    lake.store.skew = SLACK - 1

    assert (await mark(lake.world(), USUAL)).marked.objects == 1


async def test_a_job_whose_clock_is_off_stops_itself(monkeypatch: pytest.MonkeyPatch):
    lake = a_lake()
    right = lake.clock.now
    calls = []

    async def server_says(_started: object) -> int:
        calls.append(1)
        return right() - round((SLACK + 1) * 1_000_000)

    monkeypatch.setattr(lake, "renew", server_says)

    assert "the server" in await refused(lake)


async def test_the_state_of_another_repository_stops_a_run():
    lake = a_lake()
    await mark(lake.world(), USUAL)
    key = state_key(lake.marks[0].run)
    foreign = msgspec.structs.replace(STATE.open(lake.store.objects[key][0]), uid=RepoUid("another"))
    lake.store.objects[key] = (STATE.seal(foreign), lake.clock.now())

    assert "another repository" in await refused(lake)


async def test_the_report_of_another_repository_is_not_swept():
    lake = a_lake()
    await mark(lake.world(), USUAL)
    key = summary_key(lake.marks[0].run)
    foreign = msgspec.structs.replace(decode_summary(lake.store.objects[key][0]), uid="another")
    lake.store.objects[key] = (encode_summary(foreign), lake.clock.now())

    with pytest.raises(PreconditionError, match="another repository"):
        await sweep(lake.world(), USUAL)
    assert len(lake.data()) == 10


async def test_commits_of_which_none_is_live_stop_a_run():
    lake = a_lake()
    lake.empty_live = True

    assert "none is said to be live" in await refused(lake)


async def test_a_scan_that_took_longer_than_half_a_grace_stops_a_run():
    lake = a_lake()
    lake.scan_seconds = GRACE / 4

    assert "out of date" in await refused(lake)


async def test_a_large_part_of_a_namespace_is_not_deleted_unless_that_is_allowed():
    lake = a_lake()
    for _ in range(5):
        lake.put(lake.address(), size=0)
    lake.clock.at += 2 * DAY
    marked = await mark(lake.world(), USUAL)

    with pytest.raises(PreconditionError, match="--allow-large") as caught:
        await sweep(lake.world(), USUAL)
    assert caught.value.kind is ErrorKind.GC_UNSAFE
    assert len(lake.data()) == 15
    swept = await sweep(lake.world(), Options(min_age_seconds=DAY, grace_seconds=0.0, allow_large=True))
    assert swept.deleted == marked.marked


async def test_ranges_and_metaranges_are_a_part_of_the_namespace():
    lake = a_lake()
    for n in range(20):
        lake.put(f"{RANGES_FOLDER}{n:064x}-gone.parquet")
    lake.clock.at += 2 * DAY
    await mark(lake.world(), USUAL)

    with pytest.raises(PreconditionError, match="21 of 32 files would go"):
        await sweep(lake.world(), USUAL)


async def test_ranges_and_metaranges_that_stay_do_not_make_a_large_part_of_the_objects_small():
    lake = Lake()
    for n in range(10):
        lake.upload("main", f"{n}/a")
        lake.commit("main")
    lake.put(lake.address())
    garbage = [lake.put(lake.address()) for _ in range(9)]
    lake.clock.at += 2 * DAY
    await mark(lake.world(), USUAL)

    with pytest.raises(PreconditionError, match="10 of 20 objects would go"):
        await sweep(lake.world(), USUAL)
    assert {*garbage} <= lake.store.objects.keys()


async def test_what_was_deleted_is_no_part_of_the_namespace_any_more():
    lake = a_lake()
    first = await mark(lake.world(), USUAL)
    await sweep(lake.world(), USUAL)
    lake.upload("main", "c")
    lake.clock.at += 2 * DAY

    second = await mark(lake.world(), USUAL)
    await sweep(lake.world(), USUAL)
    third = await mark(lake.world(), USUAL)

    assert (first.kind, second.kind, third.kind) == ("clean", "optimized", "optimized")
    assert [each.namespace for each in (first, second, third)] == [
        Amount(10, 30),
        Amount(10, 30),
        Amount(10, 30),
    ]
    assert len(lake.data()) == 10


async def test_ranges_that_were_deleted_are_no_part_of_it_either():
    lake = a_lake()
    gone = lake.put(f"{RANGES_FOLDER}{7:064x}-gone.parquet")
    lake.clock.at += 2 * DAY
    first = await mark(lake.world(), USUAL)
    await sweep(lake.world(), USUAL)

    second = await mark(lake.world(), USUAL)

    assert gone not in lake.store.objects
    assert first.trees is not None
    assert second.trees is not None
    assert (first.trees.objects, second.trees.objects) == (3, 2)
    assert (first.candidates.objects, second.candidates.objects) == (2, 0)


async def test_a_large_part_of_all_bytes_counts_as_well_and_is_said_to_be_one_of_bytes():
    lake = a_lake()
    lake.put(lake.address(), size=1000)
    lake.clock.at += 2 * DAY
    await mark(lake.world(), USUAL)

    with pytest.raises(
        PreconditionError, match=r"1,003 of 1,030 bytes of the objects would go \(97%\), and more"
    ):
        await sweep(lake.world(), USUAL)


async def test_a_large_part_of_the_bytes_of_all_files_is_said_to_be_one_as_well():
    lake = a_lake()
    lake.put(f"{RANGES_FOLDER}{7:064x}-gone.parquet", size=10**6)
    lake.clock.at += 2 * DAY
    marked = await mark(lake.world(), USUAL)
    assert marked.trees is not None
    whole = marked.namespace.bytes + marked.trees.bytes

    with pytest.raises(
        PreconditionError, match=rf"1,000,003 of {whole:,} bytes of the files would go \(100%\), and"
    ):
        await sweep(lake.world(), USUAL)


async def test_empty_objects_are_a_part_of_the_objects_and_none_of_the_bytes():
    lake = Lake()
    lake.put(lake.address(), size=0)
    lake.clock.at += 2 * DAY
    await mark(lake.world(), USUAL)

    with pytest.raises(PreconditionError, match=r"1 of 1 objects would go \(100%\), and more"):
        await sweep(lake.world(), USUAL)


def without_trees(lake: Lake) -> None:
    """Let the newest mark be one of before ranges and metaranges were counted."""
    run = lake.marks[0].run
    state = STATE.open(lake.store.objects[state_key(run)][0])
    summary = decode_summary(lake.store.objects[summary_key(run)][0])
    old = msgspec.structs.replace
    lake.store.objects[state_key(run)] = (STATE.seal(old(state, trees=None)), lake.clock.now())
    lake.store.objects[summary_key(run)] = (encode_summary(old(summary, trees=None)), lake.clock.now())


async def test_a_state_that_does_not_count_ranges_and_metaranges_costs_a_clean_run():
    lake = a_lake()
    gone = lake.put(f"{RANGES_FOLDER}{7:064x}-gone.parquet")
    lake.clock.at += 2 * DAY
    await mark(lake.world(), USUAL)
    without_trees(lake)
    await sweep(lake.world(), USUAL)
    assert gone not in lake.store.objects

    second = await mark(lake.world(), USUAL)
    third = await mark(lake.world(), USUAL)

    assert (second.kind, third.kind) == ("clean", "optimized")
    assert "does not say how many ranges and metaranges" in second.reason
    assert second.trees is not None
    assert second.trees.objects == 2
    assert second.trees == third.trees


async def test_what_such_a_state_has_found_is_found_again():
    lake = a_lake()
    late = Options(min_age_seconds=DAY, grace_seconds=DAY)
    await mark(lake.world(), late)
    without_trees(lake)
    lake.clock.at += 2 * DAY

    assert (await mark(lake.world(), late)).marked.objects == 1


async def test_a_report_that_does_not_count_them_is_held_against_the_objects_alone():
    lake = a_lake()
    for n in range(20):
        lake.put(f"{RANGES_FOLDER}{n:064x}-gone.parquet")
    lake.clock.at += 2 * DAY
    await mark(lake.world(), USUAL)
    without_trees(lake)

    with pytest.raises(PreconditionError, match="1 of 10 objects would go"):
        await sweep(lake.world(), Options(min_age_seconds=DAY, grace_seconds=0.0, share_max=0.05))
    assert (await sweep(lake.world(), USUAL)).deleted.objects == 21


@pytest.mark.parametrize("prefix", ["", "data/", RANGES_FOLDER, METARANGES_FOLDER, "_lakebed/gc/"])
async def test_a_read_that_fails_fails_the_run(prefix: str):
    lake = a_lake()
    lake.store.broken[prefix] = UnavailableError(ErrorKind.STORE_UNAVAILABLE, "no")

    with pytest.raises(UnavailableError):
        await mark(lake.world(), USUAL)
    assert not lake.marks


@pytest.mark.parametrize("what", ["range", "metarange", "uncommitted", "commits", "roots"])
async def test_a_file_that_is_gone_fails_the_run(what: str):
    lake = a_lake()
    folders = {"range": RANGES_FOLDER, "metarange": METARANGES_FOLDER}

    async def loses(call: str) -> None:
        if call == "prepared":
            for key in list(lake.store.objects):
                if key.startswith(folders.get(what, "no")) or (f"/{what}" in key and "/gc/" in key):
                    del lake.store.objects[key]

    lake.between = loses
    if what == "roots":
        # It is written after what `loses` can see: nothing names it.
        async def nowhere(started: object) -> str:
            return "_lakebed/gc/x/roots.json"

        lake.prepare_commits = nowhere  # type: ignore[method-assign]
    with pytest.raises(NotFoundError):
        await mark(lake.world(), USUAL)
    assert not lake.marks


async def test_a_range_with_fewer_rows_than_its_metarange_says_fails_the_run(monkeypatch: pytest.MonkeyPatch):
    lake = a_lake()
    monkeypatch.setattr(
        "lakebed.spark.gc.polars_tables.range_addresses", lambda _data: pa.array(["data/x/1"], pa.string())
    )

    with pytest.raises(CorruptError, match="its metaranges say"):
        await mark(lake.world(), USUAL)


async def test_a_damaged_metarange_fails_the_run():
    lake = a_lake()
    other = Lake(1)
    other.upload("main", "z")
    other.commit("main")
    data = next(v for k, v in other.store.objects.items() if k.startswith(METARANGES_FOLDER))
    for key in list(lake.store.objects):
        if key.startswith(METARANGES_FOLDER):
            lake.store.objects[key] = data

    with pytest.raises(CorruptError):
        await mark(lake.world(), USUAL)


async def test_a_damaged_state_costs_a_clean_run_and_a_first_mark():
    lake = a_lake()
    late = Options(min_age_seconds=DAY, grace_seconds=DAY)
    await mark(lake.world(), late)
    lake.clock.at += 2 * DAY
    key = state_key(lake.marks[0].run)
    lake.store.objects[key] = (lake.store.objects[key][0][:-5], lake.clock.now())

    found = await mark(lake.world(), late)

    assert (found.kind, found.candidates.objects, found.marked.objects) == ("clean", 1, 0)
    assert "cannot be used" in found.reason
    assert found.warnings


async def test_a_list_that_the_state_names_and_nobody_has_costs_the_same():
    lake = a_lake()
    await mark(lake.world(), USUAL)
    for key in list(lake.store.objects):
        if "/state/candidates/" in key:
            del lake.store.objects[key]

    found = await mark(lake.world(), USUAL)

    assert found.kind == "clean"
    assert "cannot be read" in found.reason


async def test_a_state_of_a_newer_version_is_refused():
    lake = a_lake()
    await mark(lake.world(), USUAL)
    key = state_key(lake.marks[0].run)
    newer = {**msgspec.json.decode(lake.store.objects[key][0]), "version": 99}
    lake.store.objects[key] = (msgspec.json.encode(newer), lake.clock.now())

    with pytest.raises(CorruptError, match="upgrade"):
        await mark(lake.world(), USUAL)


async def test_short_ages_are_warned_of():
    lake = a_lake()

    usual = await mark(lake.world(), Options(min_age_seconds=DAY, grace_seconds=DAY))
    short = await mark(lake.world(), Options(min_age_seconds=60.0, grace_seconds=60.0))

    assert usual.warnings == ()
    assert len(short.warnings) == 2


async def test_the_share_that_is_large_can_be_set():
    lake = a_lake()
    await mark(lake.world(), USUAL)

    with pytest.raises(PreconditionError, match="more than 5% is unlikely"):
        await sweep(lake.world(), Options(min_age_seconds=DAY, grace_seconds=0.0, share_max=0.05))


async def test_a_mark_of_young_objects_is_swept_at_once_or_not_at_all():
    lake = a_lake()
    young = Options(min_age_seconds=60.0, grace_seconds=0.0)
    await mark(lake.world(), young)
    lake.clock.at += GRACE + 1

    with pytest.raises(PreconditionError, match="Mark again"):
        await sweep(lake.world(), USUAL)
    await mark(lake.world(), young)
    assert (await sweep(lake.world(), USUAL)).deleted.objects == 1
