"""Writers wait at a number of layers or of bytes; commits and pops never do."""

from dataclasses import replace

import pytest

from lakebed.errors import ErrorKind, UnavailableError
from lakebed.limits import SEALED_BYTES_SLOWDOWN, SEALED_LAYERS_SLOWDOWN, SEALED_PARKED_FACTOR
from lakebed.model.branch import Branch
from lakebed.model.ids import BranchName, CommitId, Nonce
from lakebed.model.layers import SegmentLayer
from lakebed.staging.admission import require_admission
from lakebed.staging.record import push_layer
from lakebed.testing.lake import open_lake

EMPTY = Branch(name=BranchName("main"), incarnation=Nonce("i"), commit_id=CommitId("c"))


def layer(name: str, *, size: int = 1) -> SegmentLayer:
    return SegmentLayer(
        id=name, dataset="i", seq=0, min_key="a", max_key="b", entries=1, tombstones=0, bytes=size, level=0
    )


def piled(layers: int, size: int) -> Branch:
    branch = EMPTY
    for number in range(layers):
        branch = push_layer(branch, layer(str(number), size=size))
    return branch


@pytest.mark.parametrize(
    ("layers", "size"), [(0, 1), (SEALED_LAYERS_SLOWDOWN - 1, 1), (2, SEALED_BYTES_SLOWDOWN // 2 - 1)]
)
def test_a_branch_below_both_numbers_takes_writes(layers: int, size: int) -> None:
    require_admission(piled(layers, size))


@pytest.mark.parametrize(("layers", "size"), [(SEALED_LAYERS_SLOWDOWN, 1), (2, SEALED_BYTES_SLOWDOWN // 2)])
def test_a_branch_at_either_number_does_not(layers: int, size: int) -> None:
    with pytest.raises(UnavailableError, match="commit, reset or wait") as caught:
        require_admission(piled(layers, size))
    assert caught.value.kind is ErrorKind.TOO_MANY_LAYERS


@pytest.mark.parametrize(("layers", "size"), [(SEALED_LAYERS_SLOWDOWN, 1), (2, SEALED_BYTES_SLOWDOWN // 2)])
def test_a_branch_that_compaction_has_given_up_on_takes_more_but_not_anything(layers: int, size: int) -> None:
    require_admission(replace(piled(layers, size), parked=True))
    with pytest.raises(UnavailableError) as caught:
        require_admission(replace(piled(layers * SEALED_PARKED_FACTOR, size), parked=True))
    assert caught.value.kind is ErrorKind.TOO_MANY_LAYERS


async def test_a_branch_with_too_many_bytes_refuses_writes_and_is_stashed_popped_and_committed() -> None:
    async with open_lake() as lake:
        await lake.put("main", a="1")
        branches = lake.engine.parts.branches
        stash = await lake.engine.stashes.stash(lake.repo, BranchName("main"))
        await lake.engine.stashes.pop(lake.repo, stash.id)
        await branches.update(
            lake.repo,
            BranchName("main"),
            lambda branch, _now: replace(
                branch, sealed=tuple(replace(each, bytes=SEALED_BYTES_SLOWDOWN) for each in branch.sealed)
            ),
            landed=lambda _branch: False,
        )

        with pytest.raises(UnavailableError):
            await lake.put("main", b="1")
        again = await lake.engine.stashes.stash(lake.repo, BranchName("main"))
        await lake.engine.stashes.pop(lake.repo, again.id)
        head = await lake.commit("main")

        assert await lake.show(head) == {"a": "1"}
