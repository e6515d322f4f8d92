"""A sieve says the same as asking every segment, and is made only where that is worth it."""

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from lakebed.env.clock import Instant
from lakebed.format.bloom import Bloom, build_bloom, key_hash
from lakebed.format.bloom_stack import BloomStack
from lakebed.model.branch import Branch
from lakebed.model.ids import BranchName, CommitId, Nonce, RepoName, RepoUid, StagingToken
from lakebed.model.layers import SegmentLayer, TokenLayer
from lakebed.model.repository import Repository
from lakebed.staging.record import tokens_of
from lakebed.staging.sieve import Sieve, Sieves

REPO = Repository(
    name=RepoName("lake"),
    uid=RepoUid("u"),
    namespace="mem://lake",
    default_branch=BranchName("main"),
    created_at=Instant(0),
    read_only=False,
    bare=False,
)
keys = st.text("abc", min_size=1, max_size=3)
datasets = st.lists(st.sets(keys, min_size=1, max_size=15), min_size=1, max_size=20)


def layer(held: set[str], seq: int) -> SegmentLayer:
    return SegmentLayer(
        id=f"s{seq}",
        dataset="i",
        seq=seq,
        min_key=min(held),
        max_key=max(held),
        entries=len(held),
        tombstones=0,
        bytes=1,
        level=0,
    )


def bloom(held: set[str]) -> Bloom:
    return build_bloom(pa.array(sorted(held)))


@given(datasets, keys)
def test_a_stack_says_what_each_filter_says(held: list[set[str]], key: str) -> None:
    blooms = [bloom(each) for each in held]

    asked = [place for place, each in enumerate(blooms) if each.may_hold(key_hash(key))]

    assert BloomStack(blooms).may_hold(key_hash(key)) == asked


@given(datasets, keys, st.data())
def test_a_sieve_lets_through_what_bounds_and_filters_do_newest_first(
    held: list[set[str]], key: str, data: st.DataObject
) -> None:
    layers = [layer(each, len(held) - n) for n, each in enumerate(held)]
    blooms = [bloom(each) if data.draw(st.booleans()) else None for each in held]
    sieve = Sieve(layers, blooms)

    expected = [
        each
        for each, filter_ in zip(layers, blooms, strict=True)
        if each.min_key <= key <= each.max_key and (filter_ is None or filter_.may_hold(key_hash(key)))
    ]

    assert sieve.may_hold(sieve.reaching(key), key_hash(key)) == expected
    assert sieve.is_whole == (None not in blooms)


class Filters:
    """Segments of which only the filters matter; some are not there at first."""

    def __init__(self) -> None:
        self.held: dict[str, set[str]] = {}
        self.asked = 0

    def bloom(self, _repo: Repository, layer: SegmentLayer) -> Bloom | None:
        self.asked += 1
        found = self.held.get(layer.id)
        return bloom(found) if found is not None else None


def branch(segments: int, *, token: str = "t") -> Branch:
    sealed = [layer({"a", "z"}, seq) for seq in range(segments, 1, -1)]
    return Branch(
        name=BranchName("main"),
        incarnation=Nonce("i"),
        commit_id=CommitId("c"),
        staging_token=StagingToken("now"),
        sealed=(*sealed, TokenLayer(token=StagingToken(token), seq=1)),
        next_seq=segments + 1,
    )


def found(sieves: Sieves, record: Branch, *, lookups: int) -> Sieve | None:
    for _ in range(lookups):
        sieve = sieves.find(REPO, record)
    return sieve


def test_a_sieve_is_made_for_layers_that_are_asked_for_again_and_not_for_few_of_them() -> None:
    filters = Filters()
    sieves = Sieves(filters)  # type: ignore[arg-type]  # no more of the port is asked for

    assert found(sieves, branch(5), lookups=100) is None
    assert all(found(sieves, branch(n, token=str(n)), lookups=2) is None for n in range(20, 60))
    assert filters.asked == 0
    made = found(sieves, branch(40), lookups=10)
    assert made is not None
    assert made.all_tokens(branch(40)) == tokens_of(branch(40))


def test_a_sieve_is_made_again_when_filters_have_come_in_and_another_for_other_layers() -> None:
    filters = Filters()
    sieves = Sieves(filters)  # type: ignore[arg-type]  # no more of the port is asked for
    record = branch(40)
    partial = found(sieves, record, lookups=10)
    assert partial is not None
    assert not partial.is_whole

    filters.held = {each.id: {"a", "z"} for each in record.sealed if isinstance(each, SegmentLayer)}
    whole = found(sieves, record, lookups=100)
    assert whole is not None
    assert whole.is_whole
    assert whole.may_hold(whole.reaching("q"), key_hash("q")) == []
    asked = filters.asked
    assert found(sieves, branch(40), lookups=100) is whole, "an equal record read again"
    assert filters.asked == asked
    assert sieves.find(REPO, branch(41)) is None


def test_sieves_are_forgotten_when_they_take_too_much() -> None:
    filters = Filters()
    sieves = Sieves(filters, bytes_max=1)  # type: ignore[arg-type]  # no more of the port is asked for
    assert found(sieves, branch(40), lookups=10) is not None
    other = Branch(**{**{f: getattr(branch(40), f) for f in Branch.__slots__}, "name": BranchName("dev")})

    assert found(sieves, other, lookups=10) is not None
    assert sieves.find(REPO, branch(40)) is None
