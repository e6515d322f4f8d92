import pytest

from lakebed.errors import AlreadyExistsError, ErrorKind, NotFoundError, UnavailableError
from lakebed.format.records import encode_tag
from lakebed.kv.port import Expect
from lakebed.model.commits import DeletedTag, Tag
from lakebed.model.ids import BranchName, CommitId, TagName
from lakebed.model.repository import Repository
from lakebed.refs.keys import tag_key
from tests.unit.refs.world import Call, Fault, World

V1 = TagName("v1.0")


async def test_a_tag_names_its_commit(world: World, repo: Repository) -> None:
    commit = await world.commit(repo)
    created = await world.tags.create(repo, V1, commit.id)
    assert (created.name, created.commit_id, created.tentative) == (V1, commit.id, False)
    world.restart()
    assert await world.tags.get(repo, V1) == created


async def test_a_tag_that_never_was_or_was_deleted_is_not_found(world: World, repo: Repository) -> None:
    commit = await world.commit(repo)
    for _ in range(2):
        with pytest.raises(NotFoundError) as caught:
            await world.tags.get(repo, V1)
        assert caught.value.kind is ErrorKind.TAG_NOT_FOUND
        created = await world.tags.create(repo, V1, commit.id)
        assert await world.tags.delete(repo, V1) == created
    with pytest.raises(NotFoundError) as caught:
        await world.tags.delete(repo, V1)
    assert caught.value.kind is ErrorKind.TAG_NOT_FOUND


async def test_a_tag_needs_a_name_of_its_own(world: World, repo: Repository) -> None:
    commit = await world.commit(repo)
    await world.tags.create(repo, V1, commit.id)
    await world.branches.create(repo, BranchName("main"), commit.id)
    for name, kind in (
        (V1, ErrorKind.TAG_EXISTS),
        (TagName("main"), ErrorKind.BRANCH_EXISTS),
        (TagName(commit.id), ErrorKind.COMMIT_EXISTS),
    ):
        with pytest.raises(AlreadyExistsError) as caught:
            await world.tags.create(repo, name, commit.id)
        assert caught.value.kind is kind


async def test_the_name_of_a_deleted_branch_is_free_for_a_tag_and_the_other_way_round(
    world: World, repo: Repository
) -> None:
    commit = await world.commit(repo)
    await world.branches.create(repo, BranchName("x"), commit.id)
    await world.branches.delete(repo, BranchName("x"))
    await world.tags.create(repo, TagName("x"), commit.id)
    await world.tags.delete(repo, TagName("x"))
    await world.branches.create(repo, BranchName("x"), commit.id)


async def test_a_name_that_only_looks_like_a_commit_id_is_free(world: World, repo: Repository) -> None:
    commit = await world.commit(repo)
    await world.tags.create(repo, TagName("f" * 64), commit.id)


async def test_a_tag_needs_a_commit_that_exists(world: World, repo: Repository) -> None:
    with pytest.raises(NotFoundError) as caught:
        await world.tags.create(repo, V1, CommitId("0" * 64))
    assert caught.value.kind is ErrorKind.COMMIT_NOT_FOUND


async def test_a_creation_recognises_its_own_tag(world: World, repo: Repository) -> None:
    commit = await world.commit(repo)

    async def once(_call: Call) -> Fault:
        world.kv.hook = None
        return Fault.LOST_REPLY

    world.kv.hook = once
    created = await world.tags.create(repo, V1, commit.id)
    assert await world.tags.get(repo, V1) == created


async def test_a_creation_that_finds_no_tag_after_an_unknown_outcome_is_unknown(
    world: World, repo: Repository
) -> None:
    commit = await world.commit(repo)

    async def once(_call: Call) -> Fault:
        world.kv.hook = None
        return Fault.LOST_REQUEST

    world.kv.hook = once
    with pytest.raises(UnavailableError) as caught:
        await world.tags.create(repo, V1, commit.id)
    assert caught.value.kind is ErrorKind.OUTCOME_UNKNOWN


async def test_a_deleted_tag_leaves_no_record(world: World, repo: Repository) -> None:
    commit = await world.commit(repo)
    await world.tags.create(repo, V1, commit.id)
    await world.tags.delete(repo, V1)
    assert await world.memory.get(repo.partition, tag_key(V1)) is None
    await world.tags.create(repo, V1, commit.id)


async def test_the_cleaner_removes_tombstones_of_tags_that_an_older_lakebed_left(
    world: World,
) -> None:
    repo = await world.create_repository()
    value = encode_tag(DeletedTag(name=V1))
    await world.memory.swap(repo.partition, tag_key(V1), value, expected=Expect.ABSENT)
    await world.cleaner.clean_once()
    assert await world.memory.get(repo.partition, tag_key(V1)) is None


async def test_listing_pages_in_order_of_name_and_finishes_tentative_tags(
    world: World, repo: Repository
) -> None:
    commit = await world.commit(repo)
    for name in ("v1", "v2", "v3", "w"):
        await world.tags.create(repo, TagName(name), commit.id)
    await world.tags.delete(repo, TagName("v2"))
    for name, commit_id in (("v4", commit.id), ("v5", CommitId("0" * 64))):
        dead = Tag(name=TagName(name), commit_id=commit_id, tentative=True, created_by="dead")
        await world.memory.swap(repo.partition, tag_key(dead.name), encode_tag(dead), expected=Expect.ABSENT)

    async def names(**query: object) -> tuple[list[str], bool]:
        page = await world.tags.list(repo, **query)
        assert not any(tag.tentative for tag in page.results)
        return [tag.name for tag in page.results], page.has_more

    assert await names(amount=2) == (["v1", "v3"], True)
    assert await names(after="v3") == (["v4", "w"], False)
    assert await names(prefix="v") == (["v1", "v3", "v4"], False)
