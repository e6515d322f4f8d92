"""What every `KVStore` must do: one test a sentence of `kv/port.py`.

Inherit, add a `store` fixture that gives an empty store, done:

    class TestMyKV(KVSuite):
        @pytest.fixture
        async def store(self) -> AsyncIterator[KVStore]:
            ...

The store is used by many tasks of one event loop at once. Tests about fences
run where the driver has them, and check that it refuses them where it has not.
"""

import asyncio
from collections.abc import Sequence

import pytest

from lakebed.env.clock import SECOND, Instant
from lakebed.errors import ConflictError, ErrorKind, InvalidInputError
from lakebed.kv.port import (
    Expect,
    Fence,
    Item,
    KVStore,
    NamesFence,
    Row,
    Version,
    VersionFence,
    prefix_end,
)
from lakebed.limits import DROP_STEP_ROWS, KV_PARTITION_BYTES_MAX, MIB, SCAN_PAGE_BYTES

ABSENT = Expect.ABSENT
ANY = Expect.ANY


class KVSuite:
    """Inherit, add a `store` fixture, done."""

    # -- get, get_many ------------------------------------------------------------------------------

    async def test_a_missing_key_is_none_not_an_error(self, store: KVStore) -> None:
        assert await store.get("p", b"k") is None

    async def test_a_swap_from_absent_creates(self, store: KVStore) -> None:
        version = await store.swap("p", b"k", b"v", expected=ABSENT)

        assert await store.get("p", b"k") == Item(b"k", b"v", version)

    async def test_one_key_in_two_partitions_is_two_records(self, store: KVStore) -> None:
        await store.swap("p", b"k", b"1", expected=ABSENT)
        await store.swap("q", b"k", b"2", expected=ABSENT)

        assert await value_at(store, "p", b"k") == b"1"
        assert await value_at(store, "q", b"k") == b"2"
        assert await keys_of(store, "p") == [b"k"]

    async def test_partitions_may_have_long_and_strange_names(self, store: KVStore) -> None:
        names = ["é" * (KV_PARTITION_BYTES_MAX // 2), "a\0b", "a", "a:b", "zürich/1"]
        for name in names:
            await store.swap(name, b"k", name.encode(), expected=ABSENT)

        for name in names:
            assert await value_at(store, name, b"k") == name.encode()

    async def test_get_many_answers_in_the_order_of_the_question(self, store: KVStore) -> None:
        one = await store.swap("p", b"1", b"one", expected=ABSENT)
        two = await store.swap("q", b"2", b"two", expected=ABSENT)

        found = await store.get_many([("q", b"2"), ("p", b"none"), ("p", b"1"), ("q", b"2")])

        assert found == [Item(b"2", b"two", two), None, Item(b"1", b"one", one), Item(b"2", b"two", two)]
        assert await store.get_many([]) == []

    async def test_get_many_is_one_snapshot(self, store: KVStore) -> None:
        keys = [b"a", b"b", b"c", b"d"]
        done = False

        async def write() -> None:
            nonlocal done
            for round_ in range(30):
                await store.set_rows("p", [Row(key, b"%d" % round_) for key in keys])
            done = True

        async def read() -> None:
            while not done:
                found = await store.get_many([("p", key) for key in keys])
                assert len({item.value if item else None for item in found}) == 1
                await asyncio.sleep(0)

        await asyncio.gather(write(), read(), read())

    # -- swap ---------------------------------------------------------------------------------------

    async def test_a_swap_at_a_stale_version_writes_nothing(self, store: KVStore) -> None:
        stale = await store.swap("p", b"k", b"old", expected=ABSENT)
        await store.swap("p", b"k", b"new", expected=stale)

        with pytest.raises(ConflictError) as caught:
            await store.swap("p", b"k", b"late", expected=stale)

        assert caught.value.kind is ErrorKind.VERSION_CHANGED
        assert await value_at(store, "p", b"k") == b"new"

    async def test_a_swap_from_absent_of_what_exists_writes_nothing(self, store: KVStore) -> None:
        await store.swap("p", b"k", b"first", expected=ABSENT)

        with pytest.raises(ConflictError) as caught:
            await store.swap("p", b"k", b"second", expected=ABSENT)

        assert caught.value.kind is ErrorKind.VERSION_CHANGED
        assert await value_at(store, "p", b"k") == b"first"

    async def test_a_swap_at_a_version_of_what_is_missing_writes_nothing(self, store: KVStore) -> None:
        version = await store.swap("p", b"other", b"v", expected=ABSENT)

        with pytest.raises(ConflictError) as caught:
            await store.swap("p", b"k", b"v", expected=version)

        assert caught.value.kind is ErrorKind.VERSION_CHANGED
        assert await store.get("p", b"k") is None

    async def test_a_swap_that_expects_anything_always_writes(self, store: KVStore) -> None:
        await store.swap("p", b"k", b"1", expected=ANY)
        await store.swap("p", b"k", b"2", expected=ANY)

        assert await value_at(store, "p", b"k") == b"2"

    async def test_versions_grow_and_never_repeat_even_after_a_delete(self, store: KVStore) -> None:
        versions: list[Version] = []
        for round_ in range(4):
            versions.append(await store.swap("p", b"k", b"%d" % round_, expected=ANY))
            await store.set_rows("p", [Row(b"k", b"row")])
            versions.append(await version_at(store, "p", b"k"))
            if round_ % 2:
                await store.delete_rows("p", [b"k"])
            else:
                await store.drop("p")

        assert versions == sorted(set(versions))

    async def test_a_version_from_before_a_delete_never_matches_again(self, store: KVStore) -> None:
        old = await store.swap("p", b"k", b"v", expected=ABSENT)
        await store.delete_rows("p", [b"k"])
        await store.swap("p", b"k", b"v", expected=ABSENT)

        with pytest.raises(ConflictError):
            await store.swap("p", b"k", b"late", expected=old)

    async def test_of_many_swappers_exactly_one_wins_each_round(self, store: KVStore) -> None:
        version: Version | Expect = ABSENT
        for round_ in range(5):
            outcomes = await asyncio.gather(
                *[store.swap("p", b"k", b"%d-%d" % (round_, n), expected=version) for n in range(8)],
                return_exceptions=True,
            )

            winners = [n for n, outcome in enumerate(outcomes) if isinstance(outcome, int)]
            losers = [outcome for outcome in outcomes if isinstance(outcome, ConflictError)]
            assert (len(winners), len(losers)) == (1, 7)
            assert await value_at(store, "p", b"k") == b"%d-%d" % (round_, winners[0])
            version = await version_at(store, "p", b"k")

    async def test_concurrent_increments_are_never_lost(self, store: KVStore) -> None:
        await store.swap("p", b"counter", b"0", expected=ABSENT)

        async def increment() -> None:
            while True:
                item = await store.get("p", b"counter")
                assert item is not None
                try:
                    await store.swap("p", b"counter", b"%d" % (int(item.value) + 1), expected=item.version)
                except ConflictError:
                    await asyncio.sleep(0)
                else:
                    return

        await asyncio.gather(*[increment() for _ in range(20)])

        assert await value_at(store, "p", b"counter") == b"20"

    # -- set_rows -----------------------------------------------------------------------------------

    async def test_rows_are_written_and_overwritten(self, store: KVStore) -> None:
        await store.set_rows("p", [Row(b"a", b"1"), Row(b"b", b"2")])
        await store.set_rows("p", [Row(b"b", b"3"), Row(b"c", b"4")])

        assert await rows_of(store, "p") == [(b"a", b"1"), (b"b", b"3"), (b"c", b"4")]

    async def test_no_rows_is_no_error(self, store: KVStore) -> None:
        await store.set_rows("p", [])
        await store.delete_rows("p", [])

        assert await rows_of(store, "p") == []

    async def test_of_two_rows_with_one_key_the_last_counts(self, store: KVStore) -> None:
        await store.set_rows("p", [Row(b"a", b"first"), Row(b"b", b"b"), Row(b"a", b"last")])

        assert await rows_of(store, "p") == [(b"a", b"last"), (b"b", b"b")]

    async def test_of_two_rows_with_one_key_the_first_expectation_counts(self, store: KVStore) -> None:
        await store.set_rows("p", [Row(b"a", b"1", ABSENT), Row(b"a", b"2", Version(10**9))])
        assert await value_at(store, "p", b"a") == b"2"

        with pytest.raises(ConflictError) as caught:
            await store.set_rows("p", [Row(b"a", b"3", ABSENT), Row(b"a", b"4", ANY)])
        await store.set_rows("p", [Row(b"a", b"5", ANY), Row(b"a", b"6", ABSENT)])

        assert caught.value.kind is ErrorKind.ROW_CHANGED
        assert await value_at(store, "p", b"a") == b"6"

    async def test_one_changed_row_writes_none(self, store: KVStore) -> None:
        stale = await store.swap("p", b"b", b"old", expected=ABSENT)
        await store.swap("p", b"b", b"new", expected=stale)

        with pytest.raises(ConflictError) as caught:
            await store.set_rows("p", [Row(b"a", b"a"), Row(b"b", b"late", stale), Row(b"c", b"c")])

        assert caught.value.kind is ErrorKind.ROW_CHANGED
        assert await rows_of(store, "p") == [(b"b", b"new")]

    async def test_one_row_that_exists_although_absent_was_expected_writes_none(self, store: KVStore) -> None:
        await store.set_rows("p", [Row(b"b", b"old")])

        with pytest.raises(ConflictError) as caught:
            await store.set_rows("p", [Row(b"a", b"a", ABSENT), Row(b"b", b"late", ABSENT)])

        assert caught.value.kind is ErrorKind.ROW_CHANGED
        assert await rows_of(store, "p") == [(b"b", b"old")]

    async def test_one_row_that_is_gone_although_a_version_was_expected_writes_none(
        self, store: KVStore
    ) -> None:
        version = await store.swap("p", b"b", b"old", expected=ABSENT)
        await store.delete_rows("p", [b"b"])

        with pytest.raises(ConflictError) as caught:
            await store.set_rows("p", [Row(b"a", b"a"), Row(b"b", b"late", version)])

        assert caught.value.kind is ErrorKind.ROW_CHANGED
        assert await rows_of(store, "p") == []

    async def test_rows_at_their_expected_versions_are_written(self, store: KVStore) -> None:
        await store.set_rows("p", [Row(b"a", b"1")])
        version = await version_at(store, "p", b"a")

        await store.set_rows("p", [Row(b"a", b"2", version), Row(b"b", b"3", ABSENT), Row(b"c", b"4", ANY)])

        assert await rows_of(store, "p") == [(b"a", b"2"), (b"b", b"3"), (b"c", b"4")]

    async def test_of_many_creators_of_a_row_exactly_one_wins(self, store: KVStore) -> None:
        async def create(n: int) -> bool:
            try:
                await store.set_rows("p", [Row(b"a%d" % n, b""), Row(b"k", b"%d" % n, ABSENT)])
            except ConflictError:
                return False
            return True

        won = await asyncio.gather(*[create(n) for n in range(8)])

        assert sum(won) == 1
        winner = won.index(True)
        assert await rows_of(store, "p") == [(b"a%d" % winner, b""), (b"k", b"%d" % winner)]

    async def test_overlapping_batches_in_opposite_order_all_succeed(self, store: KVStore) -> None:
        keys = [b"%03d" % n for n in range(100)]

        await asyncio.gather(
            *[
                store.set_rows("p", [Row(key, b"%d" % n) for key in keys[:: 1 if n % 2 else -1]])
                for n in range(16)
            ]
        )

        assert len({value for _, value in await rows_of(store, "p")}) == 1, "batches are atomic"

    async def test_a_thousand_rows_at_once(self, store: KVStore) -> None:
        rows = [Row(b"key/%06d" % n, b"%d" % n) for n in range(1000)]

        await store.set_rows("p", rows)

        assert await rows_of(store, "p") == [(row.key, row.value) for row in rows]

    # -- fences -------------------------------------------------------------------------------------

    async def test_a_store_without_fences_refuses_them(self, store: KVStore) -> None:
        if store.capabilities.fences:
            pytest.skip("this store has fences")
        version = await store.swap("r", b"ref", b"v", expected=ABSENT, names=(b"t",))
        names = NamesFence(partition="r", key=b"ref", names=(b"t",))
        same = VersionFence(partition="r", key=b"ref", version=version)

        for fence in (names, same):
            with pytest.raises(InvalidInputError) as caught:
                await store.set_rows("p", [Row(b"k", b"v")], fence=fence)
            assert caught.value.kind is ErrorKind.UNSUPPORTED
        with pytest.raises(InvalidInputError) as caught:
            await store.swap("p", b"k", b"v", expected=ABSENT, fence=same)
        assert caught.value.kind is ErrorKind.UNSUPPORTED
        assert await rows_of(store, "p") == []

    @pytest.mark.parametrize(
        ("names", "fence", "holds"),
        [
            ((b"t", b"c"), (b"t", b"c"), True),
            ((b"t", b"c"), (b"t",), True),
            ((b"t", b"c"), (), True),
            ((), (), True),
            ((b"t", b"c"), (b"c",), False),
            ((b"t",), (b"t", b"c"), False),
            ((b"tt",), (b"t",), False),
            ((b"t",), (b"tt",), False),
            ((), (b"t",), False),
            ((b"",), (b"",), True),
            ((), (b"",), False),
            ((b"\0\xff", b"x"), (b"\0\xff",), True),
        ],
    )
    async def test_a_names_fence_holds_while_the_names_begin_with_its_own(
        self, store: KVStore, names: tuple[bytes, ...], fence: tuple[bytes, ...], holds: bool
    ) -> None:
        need_fences(store)
        await store.swap("r", b"ref", b"v", expected=ABSENT, names=names)

        landed = await lands(store, NamesFence(partition="r", key=b"ref", names=fence))

        assert landed is holds

    async def test_a_fence_on_a_missing_record_never_holds(self, store: KVStore) -> None:
        need_fences(store)
        for fence in (
            NamesFence(partition="r", key=b"ref", names=()),
            VersionFence(partition="r", key=b"ref", version=Version(1)),
        ):
            assert not await lands(store, fence)

    async def test_each_swap_replaces_the_names(self, store: KVStore) -> None:
        need_fences(store)
        fence = NamesFence(partition="r", key=b"ref", names=(b"old",))
        await store.swap("r", b"ref", b"v", expected=ABSENT, names=(b"old",))
        assert await lands(store, fence)

        await store.swap("r", b"ref", b"v", expected=ANY, names=(b"new",))
        assert not await lands(store, fence)
        assert await lands(store, NamesFence(partition="r", key=b"ref", names=(b"new",)))

        await store.swap("r", b"ref", b"v", expected=ANY)
        assert not await lands(store, NamesFence(partition="r", key=b"ref", names=(b"new",)))

    async def test_names_are_no_part_of_the_value(self, store: KVStore) -> None:
        version = await store.swap(
            "r", b"ref", b"value", expected=ABSENT, names=(b"name", b"" * 3, b"x" * 300)
        )

        assert await store.get("r", b"ref") == Item(b"ref", b"value", version)
        assert await store.get_many([("r", b"ref")]) == [Item(b"ref", b"value", version)]
        assert await rows_of(store, "r") == [(b"ref", b"value")]

    async def test_rows_carry_no_names(self, store: KVStore) -> None:
        need_fences(store)
        await store.swap("r", b"ref", b"v", expected=ABSENT, names=(b"t",))
        await store.set_rows("r", [Row(b"ref", b"v")])

        assert not await lands(store, NamesFence(partition="r", key=b"ref", names=(b"t",)))

    async def test_a_version_fence_holds_at_exactly_that_version(self, store: KVStore) -> None:
        need_fences(store)
        first = await store.swap("r", b"ref", b"v", expected=ABSENT)
        fence = VersionFence(partition="r", key=b"ref", version=first)
        assert await lands(store, fence)

        await store.swap("r", b"ref", b"v", expected=first)

        assert not await lands(store, fence)

    async def test_a_swap_under_a_lost_fence_writes_nothing(self, store: KVStore) -> None:
        need_fences(store)
        first = await store.swap("r", b"commit", b"v", expected=ABSENT)
        fence = VersionFence(partition="r", key=b"commit", version=first)
        made = await store.swap("r", b"branch", b"1", expected=ABSENT, fence=fence)
        await store.swap("r", b"commit", b"condemned", expected=first)

        with pytest.raises(ConflictError) as caught:
            await store.swap("r", b"branch", b"2", expected=made, fence=fence)

        assert caught.value.kind is ErrorKind.FENCE_LOST
        assert await value_at(store, "r", b"branch") == b"1"

    async def test_a_swap_may_be_fenced_on_its_own_record(self, store: KVStore) -> None:
        need_fences(store)
        first = await store.swap("r", b"k", b"1", expected=ABSENT)

        fence = VersionFence(partition="r", key=b"k", version=first)
        await store.swap("r", b"k", b"2", expected=ANY, fence=fence)

        with pytest.raises(ConflictError):
            await store.swap("r", b"k", b"3", expected=ANY, fence=fence)
        assert await value_at(store, "r", b"k") == b"2"

    async def test_swaps_fenced_on_each_other_never_both_win(self, store: KVStore) -> None:
        need_fences(store)
        for _ in range(5):
            a = await store.swap("r", b"a", b"0", expected=ANY)
            b = await store.swap("r", b"b", b"0", expected=ANY)

            outcomes = await asyncio.gather(
                store.swap(
                    "r", b"a", b"1", expected=a, fence=VersionFence(partition="r", key=b"b", version=b)
                ),
                store.swap(
                    "r", b"b", b"1", expected=b, fence=VersionFence(partition="r", key=b"a", version=a)
                ),
                return_exceptions=True,
            )

            assert [isinstance(outcome, ConflictError) for outcome in outcomes].count(False) == 1

    async def test_no_row_lands_after_the_swap_that_took_its_fence_away(self, store: KVStore) -> None:
        need_fences(store)
        for round_ in range(3):
            old = b"token-%d" % round_
            fence = NamesFence(partition="r", key=b"branch", names=(old,))
            await store.swap("r", b"branch", b"v", expected=ANY, names=(old,))
            acknowledged: set[bytes] = set()
            under_way = asyncio.Event()

            async def write(
                writer: int,
                *,
                partition: str = f"rows-{round_}",
                fence: Fence = fence,
                acknowledged: set[bytes] = acknowledged,
                under_way: asyncio.Event = under_way,
            ) -> None:
                row = 0
                while True:
                    key = b"%d-%d" % (writer, row)
                    try:
                        await store.set_rows(partition, [Row(key, b"v"), Row(b"shared", key)], fence=fence)
                    except ConflictError as error:
                        assert error.kind is ErrorKind.FENCE_LOST
                        return
                    acknowledged.add(key)
                    row += 1
                    if len(acknowledged) >= 20:
                        under_way.set()
                    await asyncio.sleep(0)

            async def seal(
                *, partition: str = f"rows-{round_}", under_way: asyncio.Event = under_way
            ) -> set[bytes]:
                await under_way.wait()
                await store.swap("r", b"branch", b"v", expected=ANY, names=(b"sealed",))
                return set(await keys_of(store, partition))

            sealed, *_ = await asyncio.gather(seal(), *[write(n) for n in range(6)])

            assert set(await keys_of(store, f"rows-{round_}")) == sealed
            assert acknowledged | {b"shared"} == sealed

    async def test_a_write_that_comes_too_late_is_refused(self, store: KVStore) -> None:
        need_fences(store)
        now = await store.now()

        await store.set_rows("p", [Row(b"a", b"1")], not_after=Instant(now + 3600 * SECOND))
        with pytest.raises(ConflictError) as caught:
            await store.set_rows("p", [Row(b"a", b"2"), Row(b"b", b"2")], not_after=Instant(now - SECOND))

        assert caught.value.kind is ErrorKind.TOO_LATE
        assert await rows_of(store, "p") == [(b"a", b"1")]

    # -- remove -------------------------------------------------------------------------------------

    async def test_a_removed_record_is_gone(self, store: KVStore) -> None:
        version = await store.swap("p", b"k", b"v", expected=ABSENT)
        await store.swap("p", b"other", b"stays", expected=ABSENT)

        await store.remove("p", b"k", expected=version)

        assert await rows_of(store, "p") == [(b"other", b"stays")]

    async def test_a_record_is_removed_only_at_the_version_that_was_read(self, store: KVStore) -> None:
        stale = await store.swap("p", b"k", b"old", expected=ABSENT)
        await store.swap("p", b"k", b"new", expected=stale)

        for key, partition in ((b"k", "p"), (b"missing", "p"), (b"k", "nowhere")):
            with pytest.raises(ConflictError) as caught:
                await store.remove(partition, key, expected=stale)
            assert caught.value.kind is ErrorKind.VERSION_CHANGED

        assert await rows_of(store, "p") == [(b"k", b"new")]

    async def test_versions_never_repeat_for_a_key_across_removal(self, store: KVStore) -> None:
        versions: list[Version] = []
        for round_ in range(4):
            versions.append(await store.swap("p", b"k", b"same", expected=ABSENT))
            if round_ % 2:
                await store.set_rows("p", [Row(b"k", b"same")])
                versions.append(await version_at(store, "p", b"k"))
            await store.remove("p", b"k", expected=versions[-1])

        assert versions == sorted(set(versions))
        await store.swap("p", b"k", b"same", expected=ABSENT)
        for version in versions:
            with pytest.raises(ConflictError):
                await store.swap("p", b"k", b"late", expected=version)
            with pytest.raises(ConflictError):
                await store.remove("p", b"k", expected=version)

    async def test_a_fence_on_an_absent_record_is_lost(self, store: KVStore) -> None:
        need_fences(store)
        version = await store.swap("p", b"k", b"v", expected=ABSENT, names=(b"token",))
        fences: list[Fence] = [
            NamesFence(partition="p", key=b"k", names=(b"token",)),
            NamesFence(partition="p", key=b"k", names=()),
            VersionFence(partition="p", key=b"k", version=version),
        ]
        for fence in fences:
            await store.set_rows("rows", [Row(b"before", b"")], fence=fence)

        await store.remove("p", b"k", expected=version)

        for fence in fences:
            with pytest.raises(ConflictError) as caught:
                await store.set_rows("rows", [Row(b"after", b"")], fence=fence)
            assert caught.value.kind is ErrorKind.FENCE_LOST
        assert isinstance(fences[-1], VersionFence)
        with pytest.raises(ConflictError) as caught:
            await store.swap("rows", b"after", b"", expected=ABSENT, fence=fences[-1])
        assert caught.value.kind is ErrorKind.FENCE_LOST
        assert await keys_of(store, "rows") == [b"before"]

    async def test_a_removal_that_has_returned_leaves_no_fenced_write_undecided(self, store: KVStore) -> None:
        need_fences(store)
        for round_ in range(5):
            partition, fenced = f"rows-{round_}", NamesFence(partition="p", key=b"k", names=(b"t",))
            version = await store.swap("p", b"k", b"v", expected=ABSENT, names=(b"t",))

            async def write(number: int, partition: str = partition, fence: Fence = fenced) -> bool:
                try:
                    await store.set_rows(partition, [Row(b"%03d" % number, b"")], fence=fence)
                except ConflictError:
                    return False
                return True

            writing = [asyncio.create_task(write(number)) for number in range(20)]
            await asyncio.sleep(0)
            await store.remove("p", b"k", expected=version)
            seen = await keys_of(store, partition)
            written = [b"%03d" % number for number, done in enumerate(await asyncio.gather(*writing)) if done]

            assert seen == written

    async def test_of_a_swap_and_a_removal_at_one_version_one_wins(self, store: KVStore) -> None:
        for round_ in range(5):
            key = b"%d" % round_
            version = await store.swap("p", key, b"v", expected=ABSENT)

            outcomes = await asyncio.gather(
                *(store.swap("p", key, b"w", expected=version) for _ in range(3)),
                *(store.remove("p", key, expected=version) for _ in range(3)),
                return_exceptions=True,
            )

            assert sum(not isinstance(outcome, ConflictError) for outcome in outcomes) == 1
            removed = any(outcome is None for outcome in outcomes)
            found = await store.get("p", key)
            assert (found.value if found is not None else None) == (None if removed else b"w")

    # -- delete_rows, drop --------------------------------------------------------------------------

    async def test_deleted_rows_are_gone_and_missing_ones_no_error(self, store: KVStore) -> None:
        await store.set_rows("p", [Row(b"a", b"1"), Row(b"b", b"2"), Row(b"c", b"3")])

        await store.delete_rows("p", [b"c", b"nowhere", b"a", b"a"])
        await store.delete_rows("nowhere", [b"a"])

        assert await rows_of(store, "p") == [(b"b", b"2")]

    async def test_a_dropped_partition_is_empty_and_can_be_used_again(self, store: KVStore) -> None:
        await store.set_rows("p", [Row(b"%05d" % n, b"v") for n in range(50)])
        await store.set_rows("q", [Row(b"k", b"stays")])

        await store.drop("p")
        assert await rows_of(store, "p") == []
        await store.drop("p")
        await store.set_rows("p", [Row(b"k", b"again")])

        assert await rows_of(store, "p") == [(b"k", b"again")]
        assert await rows_of(store, "q") == [(b"k", b"stays")]

    async def test_a_drop_of_more_rows_than_a_step_removes_them_all(self, store: KVStore) -> None:
        await store.set_rows("p", [Row(b"%06d" % n, b"") for n in range(2 * DROP_STEP_ROWS + 1)])

        await store.drop("p")

        assert await rows_of(store, "p") == []

    async def test_the_first_keys_of_a_drop_go_before_any_other(self, store: KVStore) -> None:
        await store.set_rows("p", [Row(b"%06d" % n, b"") for n in range(2 * DROP_STEP_ROWS)])
        await store.set_rows("p", [Row(b"open", b"")])
        dropping = asyncio.create_task(store.drop("p", first=[b"open", b"missing"]))

        while not dropping.done():
            opened, row = await store.get_many([("p", b"open"), ("p", b"000000")])
            assert not (opened and not row), "another row went first"
            await asyncio.sleep(0)
        await dropping

        assert await rows_of(store, "p") == []

    # -- scan ---------------------------------------------------------------------------------------

    async def test_a_scan_of_nothing_yields_no_page(self, store: KVStore) -> None:
        assert [page async for page in store.scan("p")] == []

    async def test_a_page_of_large_values_is_bounded_by_its_bytes(self, store: KVStore) -> None:
        large = bytes(SCAN_PAGE_BYTES // 4)
        keys = [b"%02d" % number for number in range(6)]
        for key in keys:
            await store.set_rows("p", [Row(key, large)])

        pages = [page async for page in store.scan("p", end=b"~")]

        assert [key for page in pages for key in page.keys] == keys
        assert max(sum(map(len, page.values)) for page in pages) <= SCAN_PAGE_BYTES + len(large)
        assert len(pages) > 1

    async def test_values_that_become_large_in_the_middle_of_a_scan_end_a_page(self, store: KVStore) -> None:
        small = [Row(b"a%02d" % number, b"") for number in range(10)]
        large = [Row(b"b%02d" % number, bytes(SCAN_PAGE_BYTES // 4)) for number in range(6)]
        for row in [*small, *large]:
            await store.set_rows("p", [row])

        pages = [page async for page in store.scan("p", page_items_max=10)]

        assert [key for page in pages for key in page.keys] == [row.key for row in [*small, *large]]

    async def test_a_scan_yields_items_with_their_versions(self, store: KVStore) -> None:
        one = await store.swap("p", b"1", b"one", expected=ABSENT, names=(b"n",))
        two = await store.swap("p", b"2", b"", expected=ABSENT)

        items = [item async for page in store.scan("p") for item in page.items()]

        assert items == [Item(b"1", b"one", one), Item(b"2", b"", two)]

    async def test_a_scan_is_in_the_order_of_unsigned_bytes(self, store: KVStore) -> None:
        keys = [
            b"\0",
            b"\0\0",
            b"\0\xff",
            b"a",
            b"a\0",
            b"a\0b",
            b"aa",
            b"a\xff",
            b"b",
            b"\x7f",
            b"\x80",
            b"\xff",
            b"\xff\xff",
        ]
        await store.set_rows("p", [Row(key, key) for key in reversed(keys)])

        assert await keys_of(store, "p") == sorted(keys)
        assert await keys_of(store, "p", page_items_max=1) == sorted(keys)

    @pytest.mark.parametrize("page_items_max", [1, 2, 3, 7, 100])
    async def test_pages_are_full_or_smaller_never_empty_and_lose_nothing(
        self, store: KVStore, page_items_max: int
    ) -> None:
        keys = [b"%03d" % n for n in range(20)]
        await store.set_rows("p", [Row(key, b"") for key in keys])

        pages = [page async for page in store.scan("p", page_items_max=page_items_max)]

        assert all(1 <= len(page.keys) <= page_items_max for page in pages)
        assert [key for page in pages for key in page.keys] == keys

    @pytest.mark.parametrize(
        ("start", "end", "expected"),
        [
            (b"", None, [b"a", b"a/1", b"a/2", b"b", b"c"]),
            (b"a/1", None, [b"a/1", b"a/2", b"b", b"c"]),
            (b"a/1\0", None, [b"a/2", b"b", b"c"]),
            (b"a/", prefix_end(b"a/"), [b"a/1", b"a/2"]),
            (b"", b"b", [b"a", b"a/1", b"a/2"]),
            (b"b", b"b", []),
            (b"c", b"a", []),
            (b"\xff" * 2000, None, []),
            (b"", b"\0", []),
        ],
    )
    async def test_a_scan_starts_at_start_and_ends_before_end(
        self, store: KVStore, start: bytes, end: bytes | None, expected: list[bytes]
    ) -> None:
        await store.set_rows("p", [Row(key, b"") for key in [b"a", b"a/1", b"a/2", b"b", b"c"]])
        await store.set_rows("o", [Row(b"a", b"")])
        await store.set_rows("q", [Row(b"a", b"")])

        assert await keys_of(store, "p", start=start, end=end) == expected
        assert await keys_of(store, "p", start=start, end=end, page_items_max=1) == expected

    async def test_what_no_writer_touches_appears_exactly_once_in_a_scan(self, store: KVStore) -> None:
        kept = [b"%03d" % n for n in range(0, 60, 2)]
        await store.set_rows("p", [Row(b"%03d" % n, b"v") for n in range(60)])
        seen: list[bytes] = []

        async for page in store.scan("p", page_items_max=7):
            seen += page.keys
            # Behind, at and ahead of the scan, rows come and go.
            last = int(page.keys[-1][:3])
            odd = [b"%03d" % n for n in range(max(0, last - 5), last + 9) if n % 2]
            await store.delete_rows("p", odd[::2])
            await store.set_rows("p", [Row(key + b"+", b"new") for key in odd])

        assert [key for key in seen if key in set(kept)] == kept
        assert seen == sorted(set(seen))

    async def test_a_page_is_one_snapshot(self, store: KVStore) -> None:
        rows = [b"%02d" % n for n in range(30)]
        done = False

        async def write() -> None:
            nonlocal done
            for round_ in range(20):
                await store.set_rows("p", [Row(key, b"%d" % round_) for key in rows])
            done = True

        async def read() -> None:
            while not done:
                async for page in store.scan("p"):
                    assert len(set(page.values)) == 1
                await asyncio.sleep(0)

        await asyncio.gather(write(), read())

    async def test_rows_written_before_a_scan_began_are_seen(self, store: KVStore) -> None:
        for n in range(20):
            await store.set_rows("p", [Row(b"%d" % n, b"v")])
            assert len(await keys_of(store, "p")) == n + 1

    # -- keys and values of every size --------------------------------------------------------------

    async def test_the_longest_key_is_kept_whole(self, store: KVStore) -> None:
        longest = store.capabilities.key_bytes_max
        assert longest >= 1024
        keys = [b"k" * 1024, b"k" * longest, b"\xff" * longest, b"\0" * longest]

        for key in keys:
            await store.swap("p", key, key[:9], expected=ABSENT)

        for key in keys:
            assert await value_at(store, "p", key) == key[:9]
        assert await keys_of(store, "p") == sorted(keys)

    async def test_keys_around_every_length_stay_in_order(self, store: KVStore) -> None:
        longest = store.capabilities.key_bytes_max
        lengths = sorted({*range(1, longest, 61), *range(485, 520), *range(980, 1000), longest - 1, longest})
        keys = [filler * length for length in lengths for filler in (b"\0", b"m", b"\xff")]
        keys += [b"m" * (length - 1) + last for length in lengths[1:] for last in (b"\0", b"\xff")]
        ordered = sorted(set(keys))

        await store.set_rows("p", [Row(key, b"%d" % len(key)) for key in keys])

        assert await keys_of(store, "p") == ordered
        assert await keys_of(store, "p", page_items_max=13) == ordered
        found = await store.get_many([("p", key) for key in ordered])
        assert [item.value if item else None for item in found] == [b"%d" % len(key) for key in ordered]

    async def test_many_long_keys_that_share_their_beginning_mix_with_short_ones(
        self, store: KVStore
    ) -> None:
        shared = b"very/long/folder/" * 36
        keys = [shared[:600] + b"/%04d" % n + b"x" * (n % 400) for n in range(700)]
        keys += [shared[:length] for length in range(1, 601, 7)] + [b"a", b"zz", shared[:300] + b"\xff"]
        ordered = sorted(set(keys))

        await store.set_rows("p", [Row(key, key[-9:]) for key in keys])

        assert await rows_of(store, "p", page_items_max=50) == [(key, key[-9:]) for key in ordered]
        for start, end in [(100, 500), (0, 1), (350, 351), (len(ordered) - 1, len(ordered) - 1)]:
            assert await keys_of(store, "p", start=ordered[start], end=ordered[end]) == ordered[start:end]
        assert await keys_of(store, "p", start=shared[:600] + b"/05") == [
            k for k in ordered if k >= shared[:600] + b"/05"
        ]

        await store.delete_rows("p", ordered[::2])
        assert await keys_of(store, "p") == ordered[1::2]
        await store.delete_rows("p", ordered[1::2])
        assert await keys_of(store, "p") == []

        await store.set_rows("p", [Row(key, b"") for key in keys])
        await store.drop("p")
        assert await keys_of(store, "p") == []

    async def test_long_keys_are_swapped_fenced_and_expected_like_short_ones(self, store: KVStore) -> None:
        key = b"branches/" + b"b" * 900
        version = await store.swap("p", key, b"1", expected=ABSENT, names=(b"t",))
        with pytest.raises(ConflictError):
            await store.swap("p", key, b"2", expected=ABSENT)
        if store.capabilities.fences:
            assert await lands(store, NamesFence(partition="p", key=key, names=(b"t",)))
            assert await lands(store, VersionFence(partition="p", key=key, version=version))

        await store.set_rows("p", [Row(key, b"3", version)])

        assert await value_at(store, "p", key) == b"3"
        await store.remove("p", key, expected=await version_at(store, "p", key))
        assert await keys_of(store, "p") == []

    async def test_values_may_be_empty_or_a_mebibyte(self, store: KVStore) -> None:
        large = bytes(range(256)) * (MIB // 256)

        await store.swap("p", b"empty", b"", expected=ABSENT)
        await store.swap("p", b"large", large, expected=ABSENT, names=(b"n",))
        await store.set_rows("p", [Row(b"row", large), Row(b"row-empty", b"")])

        assert await rows_of(store, "p") == [
            (b"empty", b""),
            (b"large", large),
            (b"row", large),
            (b"row-empty", b""),
        ]
        assert await value_at(store, "p", b"large") == large

    async def test_what_does_not_fit_is_refused_before_anything_is_sent(self, store: KVStore) -> None:
        long = b"k" * (store.capabilities.key_bytes_max + 1)
        for key in (b"", long):
            for call in (
                store.get("p", key),
                store.get_many([("p", b"k"), ("p", key)]),
                store.swap("p", key, b"v", expected=ABSENT),
                store.set_rows("p", [Row(b"k", b"v"), Row(key, b"v")]),
                store.remove("p", key, expected=Version(1)),
                store.delete_rows("p", [b"k", key]),
            ):
                with pytest.raises(InvalidInputError) as caught:
                    await call
                assert caught.value.kind is ErrorKind.INVALID_KEY
        for partition in ("", "p" * (KV_PARTITION_BYTES_MAX + 1)):
            for call in (
                store.get(partition, b"k"),
                store.swap(partition, b"k", b"v", expected=ABSENT),
                store.set_rows(partition, [Row(b"k", b"v")]),
                store.drop(partition),
            ):
                with pytest.raises(InvalidInputError):
                    await call
        large = bytes(store.capabilities.value_bytes_max + 1)
        with pytest.raises(InvalidInputError) as caught:
            await store.swap("p", b"k", large, expected=ABSENT)
        assert caught.value.kind is ErrorKind.TOO_LARGE
        with pytest.raises(InvalidInputError) as caught:
            await store.set_rows("p", [Row(b"k", b"v"), Row(b"l", large)])
        assert caught.value.kind is ErrorKind.TOO_LARGE

        assert await rows_of(store, "p") == []

    # -- the rest -----------------------------------------------------------------------------------

    async def test_now_moves_forward(self, store: KVStore) -> None:
        first = await store.now()

        assert isinstance(first, int)
        assert first <= await store.now()

    async def test_a_cancelled_write_does_no_harm_to_others(self, store: KVStore) -> None:
        cancelled = [asyncio.create_task(store.set_rows("p", [Row(b"gone", b"%d" % n)])) for n in range(5)]
        kept = [asyncio.create_task(store.set_rows("p", [Row(b"kept-%d" % n, b"v")])) for n in range(5)]
        await asyncio.sleep(0)
        for task in cancelled:
            task.cancel()

        await asyncio.gather(*cancelled, return_exceptions=True)
        await asyncio.gather(*kept)

        assert [key for key in await keys_of(store, "p") if key != b"gone"] == [
            b"kept-%d" % n for n in range(5)
        ]

    async def test_closing_lets_calls_under_way_end_and_may_be_repeated(self, store: KVStore) -> None:
        writes = [asyncio.create_task(store.set_rows("p", [Row(b"%d" % n, b"v")])) for n in range(40)]
        reads = [asyncio.create_task(store.get("p", b"%d" % n)) for n in range(40)]
        await asyncio.sleep(0)

        await store.close()
        await asyncio.gather(*writes, *reads)
        await store.close()


def need_fences(store: KVStore) -> None:
    if not store.capabilities.fences:
        pytest.skip("this store has no fences")


async def lands(store: KVStore, fence: Fence) -> bool:
    """Return whether a row written under `fence` lands, having checked that it did or did not."""
    before = await rows_of(store, "landing")
    row = Row(b"%06d" % len(before), b"v")
    try:
        await store.set_rows("landing", [row], fence=fence)
    except ConflictError as error:
        assert error.kind is ErrorKind.FENCE_LOST
        assert await rows_of(store, "landing") == before
        return False
    assert await rows_of(store, "landing") == [*before, (row.key, row.value)]
    return True


async def value_at(store: KVStore, partition: str, key: bytes) -> bytes:
    item = await store.get(partition, key)
    assert item is not None
    assert item.key == key
    return item.value


async def version_at(store: KVStore, partition: str, key: bytes) -> Version:
    item = await store.get(partition, key)
    assert item is not None
    return item.version


async def rows_of(
    store: KVStore, partition: str, *, page_items_max: int = 10_000
) -> Sequence[tuple[bytes, bytes]]:
    pages = [page async for page in store.scan(partition, page_items_max=page_items_max)]
    return [pair for page in pages for pair in zip(page.keys, page.values, strict=True)]


async def keys_of(
    store: KVStore,
    partition: str,
    *,
    start: bytes = b"",
    end: bytes | None = None,
    page_items_max: int = 10_000,
) -> list[bytes]:
    pages = store.scan(partition, start=start, end=end, page_items_max=page_items_max)
    return [key async for page in pages for key in page.keys]
