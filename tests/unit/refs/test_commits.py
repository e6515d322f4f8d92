from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from lakebed.errors import AlreadyExistsError, ErrorKind, LakebedError, NotFoundError, UnavailableError
from lakebed.format.records import decode_commit, encode_commit
from lakebed.limits import SWAP_ATTEMPTS_MAX
from lakebed.model.commits import Commit
from lakebed.model.ids import CommitId
from lakebed.model.repository import Repository
from lakebed.refs.commits import Commits
from lakebed.refs.keys import commit_key
from tests.unit.refs.world import Call, Fault, World

NOWHERE = CommitId("0" * 64)


async def stored(world: World, repo: Repository, commit_id: CommitId) -> Commit | None:
    item = await world.memory.get(repo.partition, commit_key(commit_id))
    return decode_commit(item.value) if item is not None else None


async def condemn(world: World, repo: Repository, commit: Commit) -> None:
    item = await world.memory.get(repo.partition, commit_key(commit.id))
    assert item is not None
    value = encode_commit(replace(commit, condemned_by="run"))
    await world.memory.swap(repo.partition, item.key, value, expected=item.version)


async def test_a_commit_is_found_by_its_id(world: World, repo: Repository) -> None:
    commit = await world.commit(repo, message="hello")
    world.restart()
    assert await world.commits.get(repo, commit.id) == commit


async def test_a_commit_that_is_not_there_is_not_found(world: World, repo: Repository) -> None:
    for lookup in (
        world.commits.get(repo, NOWHERE),
        world.commits.get_many(repo, [NOWHERE]),
        world.commits.require_standing(repo, NOWHERE),
        world.commit(repo, NOWHERE),
    ):
        with pytest.raises(NotFoundError) as caught:
            await lookup
        assert caught.value.kind is ErrorKind.COMMIT_NOT_FOUND


async def test_a_commit_is_one_generation_above_its_highest_parent(world: World, repo: Repository) -> None:
    root = await world.commit(repo)
    one = await world.commit(repo, root.id)
    two = await world.commit(repo, one.id)
    merged = await world.commit(repo, root.id, two.id)
    assert [c.generation for c in (root, one, two, merged)] == [1, 2, 3, 4]


async def test_a_commit_is_created_after_its_parents_even_if_the_clock_went_back(
    world: World, repo: Repository
) -> None:
    root = await world.commit(repo)
    world.clock.advance(-3600)
    child = await world.commit(repo, root.id)
    assert child.created_at == root.created_at + 1


async def test_a_commit_read_once_is_not_read_again(world: World, repo: Repository) -> None:
    commit = await world.commit(repo)
    world.restart()
    await world.commits.get(repo, commit.id)
    world.kv.reads = 0
    assert await world.commits.get(repo, commit.id) == commit
    assert await world.commits.get_many(repo, [commit.id]) == [commit]
    assert world.kv.reads == 0


async def test_the_cache_is_bounded_and_drops_what_was_used_longest_ago(
    world: World, repo: Repository
) -> None:
    one, two, three = [await world.commit(repo) for _ in range(3)]
    commits = Commits(world.kv, cache_items=2)
    await commits.get(repo, one.id)
    await commits.get(repo, two.id)
    await commits.get(repo, one.id)
    await commits.get(repo, three.id)
    world.kv.reads = 0
    await commits.get(repo, one.id)
    assert world.kv.reads == 0
    await commits.get(repo, two.id)
    assert world.kv.reads == 1


async def test_many_commits_cost_one_round_trip_and_keep_their_order(world: World, repo: Repository) -> None:
    made = [await world.commit(repo) for _ in range(5)]
    world.restart()
    await world.commits.get(repo, made[1].id)
    world.kv.reads = 0
    wanted = [made[i] for i in (4, 1, 0, 4)]
    assert await world.commits.get_many(repo, [c.id for c in wanted]) == wanted
    assert world.kv.reads == 1


async def test_the_cache_of_one_repository_knows_nothing_of_another(world: World, repo: Repository) -> None:
    commit = await world.commit(repo)
    with pytest.raises(NotFoundError):
        await world.commits.get(replace(repo, uid="uid2"), commit.id)


async def test_standing_is_asked_of_the_record_and_not_of_the_cache(world: World, repo: Repository) -> None:
    commit = await world.commit(repo)
    fence = await world.commits.require_standing(repo, commit.id)
    item = await world.memory.get(repo.partition, commit_key(commit.id))
    assert item is not None
    assert fence.version == item.version

    await condemn(world, repo, commit)
    with pytest.raises(NotFoundError):
        await world.commits.require_standing(repo, commit.id)


async def test_adding_an_equal_commit_again_changes_nothing(world: World, repo: Repository) -> None:
    commit = await world.commit(repo)
    await condemn(world, repo, commit)
    await world.commits.add(repo, commit)
    found = await stored(world, repo, commit.id)
    assert found is not None
    assert found.condemned_by == "run"


async def test_another_commit_under_the_same_id_is_refused(world: World, repo: Repository) -> None:
    commit = await world.commit(repo)
    with pytest.raises(AlreadyExistsError) as caught:
        await world.commits.add(repo, replace(commit, message="other"))
    assert caught.value.kind is ErrorKind.COMMIT_EXISTS
    assert await stored(world, repo, commit.id) == commit


@pytest.mark.parametrize("fault", [Fault.LOST_REQUEST, Fault.LOST_REPLY])
async def test_a_commit_is_written_whatever_gets_lost(world: World, repo: Repository, fault: Fault) -> None:
    async def once(_call: Call) -> Fault:
        world.kv.hook = None
        return fault

    world.kv.hook = once
    commit = await world.commit(repo)
    assert await stored(world, repo, commit.id) == commit


@pytest.mark.parametrize(
    ("fault", "kind"),
    [(Fault.REFUSED, ErrorKind.STORE_UNAVAILABLE), (Fault.LOST_REQUEST, ErrorKind.OUTCOME_UNKNOWN)],
)
async def test_a_commit_that_cannot_be_written_says_so(
    world: World, repo: Repository, fault: Fault, kind: ErrorKind
) -> None:
    tries = 0

    async def always(_call: Call) -> Fault:
        nonlocal tries
        tries += 1
        return fault

    world.kv.hook = always
    with pytest.raises(UnavailableError) as caught:
        await world.commit(repo)
    assert caught.value.kind is kind
    assert tries <= SWAP_ATTEMPTS_MAX


@pytest.mark.parametrize("fault", [None, Fault.LOST_REQUEST, Fault.LOST_REPLY])
async def test_many_commits_are_added_and_none_overwritten(
    world: World, repo: Repository, fault: Fault | None
) -> None:
    old = await world.commit(repo)
    other = replace(repo, uid="uid2")
    new = [await world.commit(other) for _ in range(3)]

    async def once(_call: Call) -> Fault | None:
        world.kv.hook = None
        return fault

    world.kv.hook = once
    await world.commits.add_many(repo, [*new, old])
    assert [await stored(world, repo, c.id) for c in new] == new
    with pytest.raises(AlreadyExistsError):
        await world.commits.add_many(repo, [replace(old, message="other")])
    assert await stored(world, repo, old.id) == old


async def test_adding_many_passes_a_refusal_on(world: World, repo: Repository) -> None:
    commit = await world.commit(replace(repo, uid="uid2"))

    async def refuse(_call: Call) -> Fault:
        return Fault.REFUSED

    world.kv.hook = refuse
    with pytest.raises(LakebedError) as caught:
        await world.commits.add_many(repo, [commit])
    assert caught.value.kind is ErrorKind.STORE_UNAVAILABLE


async def test_a_scan_yields_every_commit_by_id(world: World, repo: Repository) -> None:
    made = sorted([(await world.commit(repo)).id for _ in range(5)])
    found = [c.id async for page in world.commits.scan(repo) for c in page]
    rest = [c.id async for page in world.commits.scan(repo, after=made[1]) for c in page]
    assert (found, rest) == (made, made[2:])


async def test_leaves_are_the_commits_that_are_nobodys_first_parent(world: World, repo: Repository) -> None:
    root = await world.commit(repo)
    left = await world.commit(repo, root.id)
    right = await world.commit(repo, root.id)
    merged = await world.commit(repo, left.id, right.id)
    found = [c.id async for page in world.commits.scan_leaves(repo) for c in page]
    assert found == sorted([right.id, merged.id])


async def test_a_page_of_commits_without_a_leaf_is_left_out(
    world: World, repo: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = await world.commit(repo)
    leaf = await world.commit(repo, root.id)
    original = world.commits.scan

    async def one_by_one(repo: Repository) -> AsyncIterator[list[Commit]]:
        async for page in original(repo):
            for commit in page:
                yield [commit]

    monkeypatch.setattr(world.commits, "scan", one_by_one)
    assert [page async for page in world.commits.scan_leaves(repo)] == [[leaf]]


async def test_without_commits_there_are_no_leaves(world: World, repo: Repository) -> None:
    assert [page async for page in world.commits.scan_leaves(repo)] == []


async def test_commits_are_found_by_the_beginning_of_their_id(world: World, repo: Repository) -> None:
    made = sorted([(await world.commit(repo)).id for _ in range(40)])
    prefix = made[0][:1]
    same = [each for each in made if each.startswith(prefix)]
    assert len(same) > 1
    assert await world.commits.find(repo, prefix, limit=100) == same
    assert await world.commits.find(repo, prefix, limit=1) == same[:1]
    assert await world.commits.find(repo, made[7], limit=2) == [made[7]]
