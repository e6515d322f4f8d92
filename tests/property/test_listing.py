"""Listings of a tree under several layers show what a dict would, whatever the pages, windows and deletions."""

import asyncio
from bisect import bisect_left

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakebed.format.cut import CutRule
from lakebed.model.ids import BranchName
from lakebed.staging.record import seal
from lakebed.testing.lake import Lake, open_lake
from lakebed.versioning import first_keys
from lakebed.versioning.paging import BlockKeys

RULE = CutRule(entries_expected=3, entries_max=6)
NAMES = ("a", "b", "é")
paths = st.lists(st.sampled_from(NAMES), min_size=1, max_size=2).map("/".join)
layers = st.lists(
    st.dictionaries(paths, st.booleans(), max_size=12), max_size=3
)  # path to whether it stays, oldest layer first


@pytest.fixture(autouse=True)
def small_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(first_keys, "_ROWS", 2)
    monkeypatch.setattr(first_keys, "_TOMBSTONES_MAX", 3)


@settings(deadline=None, max_examples=150)
@given(
    committed=st.sets(paths, max_size=12),
    staged=layers,
    prefix=st.sampled_from(["", "a", "a/", "b/", "é/"]),
    delimiter=st.sampled_from(["", "/"]),
    amount=st.integers(1, 7),
)
def test_a_listing_under_layers_shows_what_a_dict_would(
    committed: set[str], staged: list[dict[str, bool]], prefix: str, delimiter: str, amount: int
) -> None:
    listed = asyncio.run(_listed(committed, staged, prefix, delimiter, amount))

    there = set(committed)
    for layer in staged:
        there |= {path for path, stays in layer.items() if stays}
        there -= {path for path, stays in layer.items() if not stays}
    assert listed == _folded(there, prefix, delimiter)


@given(
    keys=st.sets(paths, min_size=6), key=paths, low=st.integers(0, 3), guess=st.none() | st.integers(-1, 13)
)
def test_a_guess_only_makes_a_search_faster(keys: set[str], key: str, low: int, guess: int | None) -> None:
    ordered = sorted(keys, key=str.encode)
    low = min(low, len(ordered))
    found = BlockKeys(pa.table({"key": ordered})).position(key.encode(), low=low, guess=guess)

    assert found == bisect_left([each.encode() for each in ordered], key.encode(), low)


async def _listed(
    committed: set[str], staged: list[dict[str, bool]], prefix: str, delimiter: str, amount: int
) -> list[str]:
    async with open_lake(cut_rule=RULE) as lake:
        if committed:
            await lake.commit("main", **dict.fromkeys(committed, "1"))
        for layer in staged:
            await _stage(lake, layer)
        names: list[str] = []
        after = ""
        while True:
            page = await lake.catalog.objects.list(
                "lake", "main", prefix=prefix, delimiter=delimiter, after=after, amount=amount
            )
            found = [*page.rows.column("key").to_pylist(), *page.prefixes]
            assert len(found) <= amount
            names += sorted(found, key=str.encode)
            if not page.has_more:
                return names
            after = page.last


async def _stage(lake: Lake, layer: dict[str, bool]) -> None:
    """Write a layer and seal it."""
    await lake.put("main", **{path: "2" for path, stays in layer.items() if stays})
    await lake.catalog.objects.delete("lake", "main", [path for path, stays in layer.items() if not stays])
    await lake.engine.parts.branches.update(
        lake.repo, BranchName("main"), lambda branch, _now: seal(branch), landed=lambda _branch: False
    )


def _folded(there: set[str], prefix: str, delimiter: str) -> list[str]:
    names = set()
    for path in there:
        if path.startswith(prefix):
            at = path.find(delimiter, len(prefix)) if delimiter else -1
            names.add(path if at < 0 else path[: at + 1])
    return sorted(names, key=str.encode)
