"""A sieve says the same as asking every segment, and is made only where that is worth it."""

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from lakebed.env.clock import Instant
from lakebed.env.work import InlineWorkers
from lakebed.format.bloom import Bloom, build_bloom, key_hash
from lakebed.format.bloom_stack import BloomStack
from lakebed.kv.drivers.memory import MemoryKV
from lakebed.model.branch import Branch
from lakebed.model.ids import BranchName, CommitId, Nonce, RepoName, RepoUid, StagingToken
from lakebed.model.layers import Layer, SegmentLayer, TokenLayer, layer_name
from lakebed.model.repository import Repository
from lakebed.staging.record import tokens_of
from lakebed.staging.sieve import Sieve, Sieves
from lakebed.staging.token_filters import TokenFilters

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
    sealed: list[Layer] = []
    blooms: dict[bool, list[Bloom | None]] = {True: [], False: []}
    through: dict[bool, list[str]] = {True: [], False: []}
    for seq, each in zip(range(len(held), 0, -1), held, strict=True):
        is_token, is_known = data.draw(st.booleans()), data.draw(st.booleans())
        made = TokenLayer(token=StagingToken(f"t{seq}"), seq=seq) if is_token else layer(each, seq)
        filter_ = bloom(each) if is_known else None
        sealed.append(made)
        blooms[is_token].append(filter_)
        reaches = is_token or min(each) <= key <= max(each)
        if reaches and (filter_ is None or filter_.may_hold(key_hash(key))):
            through[is_token].append(layer_name(made))
    sieve = Sieve(sealed, blooms[False], blooms[True])

    yes = sieve.may_hold(sieve.reaching(key), key_hash(key))

    assert [layer_name(each) for each in sieve.segments(yes)] == through[False]
    assert sieve.tokens(branch(0), yes) == ["now", *through[True]]
    assert sieve.is_whole == (None not in (*blooms[False], *blooms[True]))


class Filters:
    """Segments of which only the filters matter; some are not there at first."""

    def __init__(self) -> None:
        self.held: dict[str, set[str]] = {}
        self.asked = 0

    def bloom(self, _repo: Repository, layer: SegmentLayer) -> Bloom | None:
        self.asked += 1
        found = self.held.get(layer.id)
        return bloom(found) if found is not None else None


class KnownTokens:
    """Tokens that are empty, as their filters say."""

    learned = 1

    def find(self, _token: StagingToken) -> Bloom:
        return build_bloom(pa.array([], pa.string()))


TOKENS = TokenFilters(MemoryKV(), InlineWorkers())


def branch(segments: int, *, token: str = "t") -> Branch:
    sealed = [layer({"a", "z"}, seq) for seq in range(segments, 1, -1)]
    return Branch(
        name=BranchName("main"),
        incarnation=Nonce("i"),
        commit_id=CommitId("c"),
        staging_token=StagingToken("now"),
        sealed=(*sealed, TokenLayer(token=StagingToken(token), seq=1)),
        next_seq=max(segments, 1) + 1,
    )


def found(sieves: Sieves, record: Branch, *, lookups: int) -> Sieve | None:
    for _ in range(lookups):
        sieve = sieves.find(REPO, record)
    return sieve


def test_a_sieve_is_made_for_layers_that_are_asked_for_again_and_not_for_few_of_them() -> None:
    filters = Filters()
    sieves = Sieves(filters, TOKENS)  # type: ignore[arg-type]  # no more of the port is asked for

    assert found(sieves, branch(5), lookups=100) is None
    assert all(found(sieves, branch(n, token=str(n)), lookups=2) is None for n in range(20, 60))
    assert filters.asked == 0
    made = found(sieves, branch(40), lookups=10)
    assert made is not None
    assert made.tokens(branch(40), made.reaching("q")) == list(tokens_of(branch(40)))


def test_a_sieve_is_made_again_when_filters_have_come_in_and_another_for_other_layers() -> None:
    filters = Filters()
    sieves = Sieves(filters, TOKENS)  # type: ignore[arg-type]  # no more of the port is asked for
    record = branch(40)
    partial = found(sieves, record, lookups=10)
    assert partial is not None
    assert not partial.is_whole

    sieves = Sieves(filters, KnownTokens())  # type: ignore[arg-type]  # no more of either is asked for
    filters.held = {each.id: {"a", "z"} for each in record.sealed if isinstance(each, SegmentLayer)}
    whole = found(sieves, record, lookups=100)
    assert whole is not None
    assert whole.is_whole
    assert whole.segments(whole.may_hold(whole.reaching("q"), key_hash("q"))) == []
    asked = filters.asked
    assert found(sieves, branch(40), lookups=100) is whole, "an equal record read again"
    assert filters.asked == asked
    assert sieves.find(REPO, branch(41)) is None


def test_sieves_are_forgotten_when_they_take_too_much() -> None:
    filters = Filters()
    sieves = Sieves(filters, TOKENS, bytes_max=1)  # type: ignore[arg-type]  # no more of the port is asked for
    assert found(sieves, branch(40), lookups=10) is not None
    other = Branch(**{**{f: getattr(branch(40), f) for f in Branch.__slots__}, "name": BranchName("dev")})

    assert found(sieves, other, lookups=10) is not None
    assert sieves.find(REPO, branch(40)) is None
