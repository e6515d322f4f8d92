"""Histories of any shape: merge bases and logs against a model that looks at everything."""

import asyncio
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from lakebed.errors import NotFoundError
from lakebed.kv.drivers.memory import MemoryKV
from lakebed.model.commits import Commit
from lakebed.model.ids import EMPTY_TREE, BranchName, CommitId, Nonce, RepoName, RepoUid
from lakebed.model.repository import Repository
from lakebed.refs.commits import Commits
from lakebed.refs.log import CommitLog, LogQuery
from lakebed.refs.merge_base import find_merge_base

REPO = Repository(
    name=RepoName("lake"),
    uid=RepoUid("u"),
    namespace="mem://lake",
    default_branch=BranchName("main"),
    created_at=0,
)

Shape = list[tuple[int, list[int]]]


@st.composite
def shapes(draw: st.DrawFn) -> Shape:
    """Dates and parents (by index) of commits; dates repeat and run backwards."""
    shape: Shape = []
    for index in range(draw(st.integers(1, 14))):
        parents = (
            draw(st.lists(st.integers(0, index - 1), max_size=3, unique=True))
            if index and draw(st.integers(0, 9))
            else []
        )
        shape.append((draw(st.integers(0, 6)), parents))
    return shape


async def build(shape: Shape) -> tuple[Commits, list[Commit]]:
    commits = Commits(MemoryKV())
    made: list[Commit] = []
    for index, (date, parents) in enumerate(shape):
        made.append(
            await commits.create(
                REPO,
                committer="",
                message=str(index),
                tree=EMPTY_TREE,
                date=date,
                metadata={},
                parents=[made[parent].id for parent in parents],
                nonce=Nonce(str(index)),
            )
        )
    return commits, made


def ancestors(by_id: dict[CommitId, Commit], start: CommitId) -> set[CommitId]:
    found: set[CommitId] = set()
    todo = [start]
    while todo:
        current = todo.pop()
        if current not in found:
            found.add(current)
            todo += by_id[current].parents
    return found


@given(shapes(), st.data())
def test_the_merge_base_is_a_best_common_ancestor(shape: Shape, data: st.DataObject) -> None:
    async def check() -> None:
        commits, made = await build(shape)
        by_id = {c.id: c for c in made}
        left, right = data.draw(st.sampled_from(made)), data.draw(st.sampled_from(made))
        common = ancestors(by_id, left.id) & ancestors(by_id, right.id)
        best = {c for c in common if not any(c in ancestors(by_id, o) for o in common - {c})}
        try:
            found = await find_merge_base(commits, REPO, left.id, right.id)
        except NotFoundError:
            assert not common
            return
        assert found.id in best
        assert found.generation == max(by_id[c].generation for c in best)
        assert (await find_merge_base(commits, REPO, right.id, left.id)) == found

    asyncio.run(check())


def naive_log(by_id: dict[CommitId, Commit], start: CommitId, *, first_parent: bool) -> list[CommitId]:
    """Of everything whose children were all shown or are not reached otherwise: the latest by date, then by creation, then by id."""
    shown: list[CommitId] = []
    open_: set[CommitId] = {start}
    while open_:
        current = max(open_, key=lambda c: (by_id[c].date, by_id[c].created_at, c))
        open_.remove(current)
        shown.append(current)
        parents = by_id[current].parents[:1] if first_parent else by_id[current].parents
        open_ |= {p for p in parents if p not in shown}
    return shown


@given(shapes(), st.booleans(), st.integers(1, 5), st.data())
def test_the_log_shows_every_ancestor_once_in_pages_of_any_size(
    shape: Shape, first_parent: bool, amount: int, data: st.DataObject
) -> None:
    async def check() -> None:
        commits, made = await build(shape)
        start = data.draw(st.sampled_from(made)).id
        log = CommitLog(commits)
        expected = naive_log({c.id: c for c in made}, start, first_parent=first_parent)
        found: list[CommitId] = []
        more = True
        while more:
            if data.draw(st.booleans()):
                log = CommitLog(commits)
            query = LogQuery(after=found[-1] if found else "", amount=amount, first_parent=first_parent)
            page = await log.page(REPO, start, query)
            found += [c.id for c in page.results]
            more = page.has_more
        assert found == expected
        if not first_parent:
            assert set(found) == ancestors({c.id: c for c in made}, start)

    with patch("lakebed.refs.log._SEEN_KEPT", data.draw(st.sampled_from([0, 3, 1024]))):
        asyncio.run(check())


@given(shapes())
def test_leaves_are_what_no_commit_has_as_its_first_parent(shape: Shape) -> None:
    async def check() -> None:
        commits, made = await build(shape)
        first = {c.parents[0] for c in made if c.parents}
        found = [c.id async for page in commits.scan_leaves(REPO) for c in page]
        assert found == sorted({c.id for c in made} - first)

    asyncio.run(check())
