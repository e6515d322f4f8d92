"""Addresses of new objects."""

import re

from lakebed.env.clock import SECOND, Instant, after
from lakebed.env.ids import SeededIds
from lakebed.limits import SLICE_OBJECTS, SLICE_SECONDS
from lakebed.objects.slices import SliceNamer, slice_name, slice_opened

NOW = Instant(1_800_000_000 * SECOND)


def test_both_names_have_twenty_characters_of_the_alphabet() -> None:
    namer = SliceNamer(SeededIds(1))

    assert re.fullmatch(r"data/[0-9a-v]{20}/[0-9a-v]{20}", namer.next_address(NOW))


def test_a_newer_slice_sorts_first() -> None:
    older, newer = slice_name(NOW, "v" * 20), slice_name(Instant(NOW + 1), "0" * 20)

    assert newer < older


def test_a_slice_tells_when_it_was_opened() -> None:
    assert slice_opened(slice_name(NOW, SeededIds(1).token())) == NOW


def test_addresses_never_repeat() -> None:
    namer = SliceNamer(SeededIds(1))

    assert len({namer.next_address(NOW) for _ in range(1000)}) == 1000


def test_two_processes_fill_different_slices() -> None:
    ids = SeededIds(1)

    assert slice_of(SliceNamer(ids), NOW) != slice_of(SliceNamer(ids), NOW)


def test_a_slice_ends_after_its_time_whichever_way_the_clock_goes() -> None:
    namer = SliceNamer(SeededIds(1))
    first = slice_of(namer, NOW)

    over = after(NOW, SLICE_SECONDS)
    assert slice_of(namer, Instant(over - 1)) == first
    second = slice_of(namer, over)
    assert second != first
    assert slice_of(namer, NOW) != second


def test_a_slice_ends_when_it_is_full() -> None:
    namer = SliceNamer(SeededIds(1))
    slices = [slice_of(namer, NOW) for _ in range(SLICE_OBJECTS + 1)]

    assert len(set(slices[:-1])) == 1
    assert slices[-1] != slices[0]


def slice_of(namer: SliceNamer, now: Instant) -> str:
    return namer.next_address(now).split("/")[1]
