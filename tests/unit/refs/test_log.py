import pytest

from lakebed.errors import ErrorKind, NotFoundError
from lakebed.limits import LOG_WALKS_KEPT
from lakebed.model.commits import Commit
from lakebed.model.ids import CommitId
from lakebed.model.repository import Repository
from lakebed.refs.log import CommitLog, LogQuery
from tests.unit.refs.world import World

DAY = 86_400


async def chain(world: World, repo: Repository, dates: list[int]) -> list[Commit]:
    """Commits with these dates, each on the one before."""
    made: list[Commit] = []
    for date in dates:
        made.append(await world.commit(repo, *[c.id for c in made[-1:]], date=date, message=str(date)))
    return made


async def messages(world: World, repo: Repository, start: Commit, **query: object) -> list[str]:
    page = await world.log.page(repo, start.id, LogQuery(**query))
    return [commit.message for commit in page.results]


async def test_history_is_shown_newest_first(world: World, repo: Repository) -> None:
    *_, head = await chain(world, repo, [1, 2, 3])
    assert await messages(world, repo, head) == ["3", "2", "1"]


async def test_of_two_commits_with_one_date_the_greater_id_comes_first(
    world: World, repo: Repository
) -> None:
    (root,) = await chain(world, repo, [1])
    sides = [await world.commit(repo, root.id, date=5) for _ in range(6)]
    merge = await world.commit(repo, *[c.id for c in sides], date=9)
    page = await world.log.page(repo, merge.id, LogQuery())
    assert [c.id for c in page.results] == [
        merge.id,
        *sorted([c.id for c in sides], reverse=True),
        root.id,
    ]


async def test_a_commit_never_comes_before_its_descendants_whatever_its_date(
    world: World, repo: Repository
) -> None:
    *_, head = await chain(world, repo, [50, 3, 40])
    assert await messages(world, repo, head) == ["40", "3", "50"]


async def test_a_commit_that_is_reached_twice_is_shown_once(world: World, repo: Repository) -> None:
    (root,) = await chain(world, repo, [1])
    left = await world.commit(repo, root.id, date=2, message="left")
    right = await world.commit(repo, root.id, date=3, message="right")
    merge = await world.commit(repo, left.id, right.id, left.id, date=4, message="merge")
    assert await messages(world, repo, merge) == ["merge", "right", "left", "1"]
    assert await messages(world, repo, merge, first_parent=True) == ["merge", "left", "1"]


async def test_pages_follow_one_another_without_gap_or_overlap(world: World, repo: Repository) -> None:
    commits = await chain(world, repo, list(range(10)))
    side = await world.commit(repo, commits[4].id, date=7, message="side")
    merge = await world.commit(repo, commits[-1].id, side.id, date=20, message="merge")
    whole = [c.id for c in (await world.log.page(repo, merge.id, LogQuery())).results]
    for amount in (1, 2, 3, 12):
        found: list[CommitId] = []
        more = True
        while more:
            page = await world.log.page(
                repo, merge.id, LogQuery(after=found[-1] if found else "", amount=amount)
            )
            found += [c.id for c in page.results]
            more = page.has_more
        assert found == whole


async def test_a_page_is_the_same_with_and_without_a_kept_walk(world: World, repo: Repository) -> None:
    *_, head = await chain(world, repo, list(range(10)))
    first = await world.log.page(repo, head.id, LogQuery(amount=3))
    query = LogQuery(amount=3, after=first.results[-1].id)
    kept = await world.log.page(repo, head.id, query)
    again = await world.log.page(repo, head.id, query)
    fresh = await CommitLog(world.commits).page(repo, head.id, query)
    assert kept == again == fresh
    assert [c.message for c in kept.results] == ["6", "5", "4"]


async def test_the_next_page_goes_on_where_the_last_one_stopped(world: World, repo: Repository) -> None:
    *_, head = await chain(world, repo, list(range(50)))
    first = await world.log.page(repo, head.id, LogQuery(amount=40))
    world.commits._cache.clear()
    world.kv.reads = 0
    await world.log.page(repo, head.id, LogQuery(amount=5, after=first.results[-1].id))
    assert world.kv.reads <= 6


async def test_only_so_many_walks_are_kept(world: World, repo: Repository) -> None:
    commits = await chain(world, repo, list(range(LOG_WALKS_KEPT + 10)))
    for head in commits:
        await world.log.page(repo, head.id, LogQuery(amount=1))
    assert len(world.log._walks) == LOG_WALKS_KEPT


async def test_a_long_walk_forgets_commits_it_cannot_meet_again(
    world: World, repo: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakebed.refs.log._SEEN_KEPT", 8)
    commits = await chain(world, repo, list(range(100)))
    old = commits[10]
    side = await world.commit(repo, old.id, date=1000, message="side")
    merge = await world.commit(repo, commits[-1].id, side.id, date=1001, message="merge")
    page = await world.log.page(repo, merge.id, LogQuery(amount=95))
    assert page.has_more
    (walk,) = world.log._walks.values()
    assert len(walk._seen) < 20
    assert len({c.id for c in page.results}) == 95


async def test_limit_stops_at_the_amount_and_says_nothing_of_more(world: World, repo: Repository) -> None:
    *_, head = await chain(world, repo, [1, 2, 3])
    page = await world.log.page(repo, head.id, LogQuery(amount=2, limit=True))
    assert (len(page.results), page.has_more) == (2, False)
    page = await world.log.page(repo, head.id, LogQuery(amount=2))
    assert (len(page.results), page.has_more) == (2, True)
    page = await world.log.page(repo, head.id, LogQuery(amount=3))
    assert (len(page.results), page.has_more) == (3, False)


async def test_since_shows_what_is_not_older(world: World, repo: Repository) -> None:
    *_, head = await chain(world, repo, [DAY, 2 * DAY, 3 * DAY])
    assert await messages(world, repo, head, since=2 * DAY) == [str(3 * DAY), str(2 * DAY)]
    assert await messages(world, repo, head, since=2 * DAY + 0.5) == [str(3 * DAY)]
    assert await messages(world, repo, head, since=9 * DAY) == []


async def test_stop_at_is_the_last_commit_shown(world: World, repo: Repository) -> None:
    one, two, three = await chain(world, repo, [1, 2, 3])
    assert await messages(world, repo, three, stop_at=two.id) == ["3", "2"]
    assert await messages(world, repo, three, stop_at=two.id, after=three.id) == ["2"]
    assert await messages(world, repo, three, stop_at=two.id, after=two.id) == []
    assert await messages(world, repo, three, stop_at=one.id, since=2) == ["3", "2"]
    page = await world.log.page(repo, three.id, LogQuery(stop_at=two.id, amount=2))
    assert not page.has_more


async def test_an_unknown_cursor_is_not_found(world: World, repo: Repository) -> None:
    *_, head = await chain(world, repo, [1, 2])
    with pytest.raises(NotFoundError) as caught:
        await messages(world, repo, head, after="f" * 64)
    assert caught.value.kind is ErrorKind.REF_NOT_FOUND


async def test_commits_of_one_second_are_shown_in_the_order_of_their_creation(
    world: World, repo: Repository
) -> None:
    (root,) = await chain(world, repo, [1])
    sides = []
    for _ in range(6):
        world.clock.advance(0.01)
        sides.append(await world.commit(repo, root.id, date=5))
    merge = await world.commit(repo, *[c.id for c in sides], date=9)
    page = await world.log.page(repo, merge.id, LogQuery())
    assert [c.id for c in page.results] == [merge.id, *[c.id for c in reversed(sides)], root.id]


async def test_a_filter_shows_commits_that_change_what_is_looked_for_and_no_merges(
    world: World, repo: Repository
) -> None:
    commits = await chain(world, repo, list(range(8)))
    merge = await world.commit(repo, commits[-1].id, commits[0].id, date=9, message="merge")
    asked: list[str] = []

    async def even(commit: Commit) -> bool:
        asked.append(commit.message)
        return int(commit.message) % 2 == 0

    async def page(**query: object) -> tuple[list[str], bool]:
        found = await world.log.page(repo, merge.id, LogQuery(**query), changed=even)
        return [c.message for c in found.results], found.has_more

    assert await page() == (["6", "4", "2", "0"], False)
    assert "merge" not in asked
    assert await page(amount=2) == (["6", "4"], True)
    assert await page(amount=2, after=commits[4].id) == (["2", "0"], False)
    assert await page(amount=1, limit=True) == (["6"], False)

    asked.clear()
    await page(amount=1, limit=True)
    assert asked == ["7", "6"]


async def test_a_walk_with_one_filter_hides_nothing_from_another(world: World, repo: Repository) -> None:
    commits = await chain(world, repo, list(range(6)))

    async def even(commit: Commit) -> bool:
        return int(commit.message) % 2 == 0

    first = await world.log.page(repo, commits[-1].id, LogQuery(amount=1), changed=even)
    assert await messages(world, repo, commits[-1], after=first.results[-1].id) == ["3", "2", "1", "0"]


async def test_the_log_of_nothing_is_not_found(world: World, repo: Repository) -> None:
    with pytest.raises(NotFoundError):
        await world.log.page(repo, CommitId("0" * 64), LogQuery())
