"""Retention, case by case, and against a model that asks the definition for every commit."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from lakebed.env.clock import Instant, after
from lakebed.gc.retention import CommitNode, Named, reachable_from, retain
from lakebed.limits import GRACE_SECONDS
from lakebed.model.gc_rules import GcRules
from lakebed.model.ids import BranchName, CommitId, MetarangeId, Nonce

DAY = 24 * 3600.0
NOW = Instant(1_800_000_000_000_000)


@dataclass
class History:
    """Commits by name, each so many days old."""

    commits: dict[CommitId, CommitNode] = field(default_factory=dict)

    def add(self, name: str, *parents: str, days: float, nonce: str = "") -> None:
        commit_id = CommitId(name)
        self.commits[commit_id] = CommitNode(
            commit_id,
            MetarangeId(f"tree-{name}"),
            tuple(map(CommitId, parents)),
            after(NOW, -days * DAY),
            Nonce(nonce or f"n-{name}"),
        )

    def live(
        self,
        rules: GcRules | None,
        *,
        heads: Mapping[str, str] | None = None,
        kept: str = "",
        pending: str = "",
    ) -> str:
        return "".join(sorted(self.retained(rules, heads=heads, kept=kept, pending=pending)))

    def retained(
        self,
        rules: GcRules | None,
        *,
        heads: Mapping[str, str] | None = None,
        kept: str = "",
        pending: str = "",
    ) -> set[CommitId]:
        named = Named(
            heads={BranchName(name): CommitId(head) for name, head in (heads or {}).items()},
            kept=frozenset(map(CommitId, kept)),
            pending=frozenset({Nonce(pending)} if pending else ()),
        )
        return retain(self.commits, named, rules, now=NOW)


def line(*days: float) -> History:
    """a, b, c …: each the first parent of the next, so many days old."""
    history = History()
    for index, age in enumerate(days):
        history.add(chr(97 + index), *([chr(96 + index)] if index else []), days=age)
    return history


def days(default: int, **branches: int) -> GcRules:
    return GcRules(default_days=default, branches=branches)


def test_without_rules_every_commit_is_live() -> None:
    assert line(900, 800, 700).live(None, heads={}) == "abc"


def test_a_commit_is_live_while_its_child_is_younger_than_the_rule() -> None:
    assert line(9, 5, 1).live(days(7), heads={"main": "c"}) == "abc"
    assert line(30, 9, 1).live(days(7), heads={"main": "c"}) == "bc"
    assert line(30, 9, 8).live(days(7), heads={"main": "c"}) == "c"


def test_zero_days_keep_only_what_is_named() -> None:
    assert line(3, 2, 1).live(days(0), heads={"main": "c"}) == "c"
    assert line(3, 2, 1).live(days(0), heads={"main": "c"}, kept="a") == "ac"


def test_each_branch_has_its_own_days() -> None:
    history = line(30, 20)
    history.add("x", "a", days=10)
    assert history.live(days(15), heads={"main": "b", "dev": "x"}) == "abx"
    assert history.live(days(15, dev=5), heads={"main": "b", "dev": "x"}) == "bx"
    assert history.live(days(1, main=25), heads={"main": "b", "dev": "x"}) == "abx"


def test_zero_days_of_a_branch_are_a_rule_beside_a_default() -> None:
    assert line(3, 2, 1).live(days(30, main=0), heads={"main": "c"}) == "c"


def test_a_tag_keeps_its_commit_and_not_the_ancestors() -> None:
    history = line(90, 80, 70)
    assert history.live(days(7), heads={"main": "c"}, kept="b") == "bc"


def test_a_dangling_leaf_lives_for_the_default_days_from_its_own_creation() -> None:
    history = line(90, 80)
    history.add("x", "a", days=6)
    history.add("y", "a", days=8)
    assert history.live(days(7, main=1), heads={"main": "b"}) == "abx"


def test_what_was_merged_in_expires_though_it_is_a_parent() -> None:
    history = line(90, 80)
    history.add("x", "a", days=60)
    history.add("m", "b", "x", days=1)
    live = history.retained(days(7), heads={"main": "m"})
    assert "".join(sorted(live)) == "bm"
    assert "".join(sorted(reachable_from(history.commits, live))) == "abmx"


def test_a_commit_that_its_client_dates_2001_is_as_old_as_the_engine_says() -> None:
    # There is nothing else: a node has no date of the client.
    assert "date" not in CommitNode.__struct_fields__


def test_a_try_that_its_operation_repeated_lives_for_a_grace() -> None:
    grace_days = GRACE_SECONDS / DAY
    history = line(90)
    history.add("f", "a", days=2 * grace_days, nonce="op")
    history.add("g", "a", days=grace_days / 2, nonce="op")
    history.add("w", "a", days=grace_days / 4, nonce="op")
    assert history.live(days(7), heads={"main": "w"}) == "agw"
    assert history.live(days(7), heads={"main": "w"}, pending="op") == "afgw"


def test_a_try_that_may_have_been_the_last_lives_like_any_leaf() -> None:
    history = line(90)
    history.add("f", "a", days=2, nonce="op")
    assert history.live(days(7, main=1), heads={"main": "a"}) == "af"


def test_files_of_ancestors_of_refs_are_kept_and_those_of_expired_leaves_are_not() -> None:
    history = line(90, 80, 70)
    history.add("x", "a", days=60)
    live = history.retained(days(7), heads={"main": "c"})
    assert "".join(sorted(reachable_from(history.commits, live))) == "abc"


ages = st.integers(0, 12)


@st.composite
def worlds(draw: st.DrawFn) -> tuple[History, dict[str, str], str, GcRules | None]:
    history = History()
    names = [chr(97 + index) for index in range(draw(st.integers(1, 9)))]
    age = 14
    for index, name in enumerate(names):
        parents = draw(st.lists(st.sampled_from(names[:index]), max_size=2, unique=True)) if index else []
        age = max(0, age - draw(st.integers(0, 4)))
        history.add(name, *parents, days=age + 0.5)
    heads = draw(st.dictionaries(st.sampled_from(["main", "dev", "old"]), st.sampled_from(names)))
    kept = "".join(draw(st.lists(st.sampled_from(names), max_size=2, unique=True)))
    rules = draw(
        st.none()
        | st.builds(
            GcRules,
            default_days=ages,
            branches=st.dictionaries(st.sampled_from(["main", "dev"]), ages, max_size=2),
        )
    )
    return history, heads, kept, rules


def naive(history: History, heads: Mapping[str, str], kept: str, rules: GcRules | None) -> set[str]:
    """Ask of every commit, by every way to it, whether it is live."""
    commits = {str(k): v for k, v in history.commits.items()}
    if rules is None:
        return set(commits)
    live = set(heads.values()) | set(kept)

    def young(name: str, limit: int) -> bool:
        return NOW - commits[name].created_at < limit * DAY * 1_000_000

    def walk(start: str, limit: int) -> None:
        child = start
        while commits[child].parents and young(child, limit):
            child = commits[child].parents[0]
            live.add(child)

    for branch, head in heads.items():
        walk(head, rules.branches.get(branch, rules.default_days))
    firsts = {str(c.parents[0]) for c in commits.values() if c.parents}
    for name in commits:
        if name not in firsts and name not in heads.values() and young(name, rules.default_days):
            live.add(name)
            walk(name, rules.default_days)
    return live


@given(worlds())
def test_retention_is_what_the_definition_says(
    world: tuple[History, dict[str, str], str, GcRules | None],
) -> None:
    history, heads, kept, rules = world
    live = history.retained(rules, heads=heads, kept=kept)
    assert live == naive(history, heads, kept, rules)
    reach: set[str] = set()
    waiting: list[str] = [*live]
    while waiting:
        name = waiting.pop()
        if name not in reach:
            reach.add(name)
            waiting += history.commits[CommitId(name)].parents
    assert reachable_from(history.commits, live) == reach
