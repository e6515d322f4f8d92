"""Where keys lie in a folder."""

import asyncio
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.env.work import InlineWorkers
from lakebed.objects.drivers.local import LocalObjects
from lakebed.objects.local.names import HIDDEN, STATE, hidden_place, is_hidden_name, key_of, plain_place

# Names whose order changes if a slash is not taken for what it is.
neighbours = st.lists(st.sampled_from(["a", "a-", "a.", "a0", "b"]), min_size=1, max_size=2)
strange = st.lists(
    st.text("ab-.0é\0\U0001f600", max_size=4) | st.sampled_from(["", ".", "..", STATE, "x" * 300, "y" * 255]),
    min_size=1,
    max_size=5,
)
keys = (neighbours | strange).map("/".join).filter(lambda key: 0 < len(key.encode()) <= 1024)


def test_an_ordinary_key_is_its_own_path() -> None:
    place = plain_place("data/0123/4567")

    assert place is not None
    assert (place.folder, place.name) == ("data/0123", "4567")


@given(keys)
def test_a_plain_place_is_the_key_and_nothing_that_a_file_system_changes(key: str) -> None:
    place = plain_place(key)

    if place is not None:
        assert key == (f"{place.folder}/{place.name}" if place.folder else place.name)
        parts = key.split("/")
        assert not set(parts) & {"", ".", ".."}
        assert parts[0] != STATE
        assert all(len(part.encode()) <= 255 and "\0" not in part for part in parts)


@given(keys)
def test_a_hidden_place_tells_its_key(key: str) -> None:
    place = hidden_place(key)
    parts = [*place.folder.removeprefix(HIDDEN).split("/")[1:], place.name]

    assert all(is_hidden_name(part) and len(part) <= 255 for part in parts)
    assert key_of("".join(part.removesuffix("+") for part in parts)) == key


@given(keys, keys)
def test_hidden_places_have_the_order_of_their_keys(one: str, other: str) -> None:
    paths = [[*hidden_place(key).folder.split("/"), hidden_place(key).name] for key in (one, other)]

    assert (paths[0] < paths[1]) == (one < other)


@given(st.lists(keys, max_size=12, unique=True), keys, keys, st.integers(1, 4))
def test_a_folder_lists_what_a_sorted_list_would(
    tmp_path_factory: pytest.TempPathFactory, stored: list[str], prefix: str, start_after: str, page: int
) -> None:
    root = tmp_path_factory.mktemp("root")
    asyncio.run(compare(root, stored, prefix, start_after, page))


async def compare(root: Path, stored: list[str], prefix: str, start_after: str, page: int) -> None:
    store = LocalObjects(root, fsync=False, workers=InlineWorkers())
    for key in stored:
        await store.put(key, key.encode())

    for text in ("", prefix, prefix[: len(prefix) // 2], *[key[: len(key) // 2 + 1] for key in stored[:3]]):
        for after in ("", start_after, *stored[:3]):
            pages = store.list(text, start_after=after, page_items_max=page)
            listed = [info.key async for infos in pages for info in infos]
            assert listed == sorted(key for key in stored if key.startswith(text) and key > after)

    await store.delete(stored[::2])
    assert [info.key async for infos in store.list() for info in infos] == sorted(
        set(stored) - set(stored[::2])
    )
    assert [await store.get(key) for key in stored[1::2]] == [key.encode() for key in stored[1::2]]
    await store.close()
