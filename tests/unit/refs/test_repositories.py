from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from lakebed.errors import (
    AlreadyExistsError,
    ConflictError,
    ErrorKind,
    InvalidInputError,
    LakebedError,
    NotFoundError,
    UnavailableError,
)
from lakebed.format.rows import OPEN_KEY, row_key
from lakebed.kv.port import Row
from lakebed.limits import CREATING_TIMEOUT_SECONDS, GRACE_SECONDS, SWAP_ATTEMPTS_MAX
from lakebed.model.ids import EMPTY_TREE, BranchName, RepoName, StagingToken, TagName
from lakebed.model.layers import TokenLayer
from lakebed.model.repository import CreatingRepository, GoneRepository, Repository
from lakebed.objects.places import Places
from tests.unit.refs.world import Call, Crash, Fault, Late, World

LAKE = RepoName("lake")
MAIN = BranchName("main")
# More writes than any creation or deletion does.
STEPS = 12


class Steps:
    """Numbers the writes to the KV and the stores, and does something at one of them."""

    def __init__(self, world: World, at: int, action: Any) -> None:
        self.world = world
        self.at = at
        self.action = action
        self.count = 0
        self.reached = False
        world.kv.hook = world.store_hook = self

    async def __call__(self, _call: Call) -> Fault | None:
        self.count += 1
        if self.count != self.at:
            return None
        self.reached = True
        return await self.action() if callable(self.action) else self.action


async def live(world: World, name: RepoName = LAKE) -> Repository | None:
    try:
        return await world.repositories.get(name)
    except NotFoundError:
        return None


async def require_whole(world: World, repo: Repository) -> None:
    """A live repository has its marker, its default branch and the first commit."""
    assert f"{repo.namespace.removeprefix('mem://')}/_lakebed/owner-{repo.uid}" in await world.objects()
    if not repo.bare:
        branch = await world.branches.get(repo, repo.default_branch)
        assert (await world.commits.get(repo, branch.value.commit_id)).generation == 1


async def require_nothing_left(world: World) -> None:
    """After everything became due and was cleaned, only tombstones of names are left."""
    for _ in range(2):
        await world.clean_late()
    repo = await live(world)
    if repo is not None:
        await require_whole(world, repo)
        await world.repositories.delete(repo, delete_data=True)
        await world.clean_late()
    assert await world.partitions() <= {"lakebed"}
    assert await world.objects() == []
    found = await world.repositories.find(LAKE)
    assert found is None or isinstance(found.value, GoneRepository)
    await require_whole(world, await world.create_repository())


async def with_staged_data(world: World) -> Repository:
    """A repository with rows in a staging token, a sealed one and a retired one."""
    repo = await world.create_repository()
    branch = await world.branches.get(repo, MAIN)
    tokens = [StagingToken(f"lake-main:{n}") for n in ("open", "sealed", "old")]
    staged = replace(
        branch.value,
        staging_token=tokens[0],
        sealed=(TokenLayer(token=tokens[1], seq=1),),
        next_seq=2,
    )
    await world.branches.swap(repo, branch, staged)
    commit = await world.commit(repo, branch.value.commit_id)
    other = await world.branches.create(repo, BranchName("gone"), commit.id)
    await world.branches.swap(repo, other, replace(other.value, staging_token=tokens[2]))
    await world.branches.delete(repo, BranchName("gone"))
    for token in tokens:
        await world.memory.set_rows(token, [Row(OPEN_KEY, b""), Row(row_key("a"), b"x")])
    store = await world.open_store(repo.namespace)
    await store.put("data/slice/object", b"bytes")
    return repo


async def test_a_new_repository_has_a_first_commit_and_a_default_branch(world: World) -> None:
    repo = await world.create_repository()
    assert await world.repositories.get(LAKE) == repo
    branch = (await world.branches.get(repo, MAIN)).value
    commit = await world.commits.get(repo, branch.commit_id)
    assert (commit.message, commit.tree, commit.generation, commit.parents) == (
        "Repository created",
        EMPTY_TREE,
        1,
        (),
    )
    assert commit.committer == ""
    await require_whole(world, repo)


async def test_the_default_branch_of_a_new_repository_can_be_fenced_and_swapped() -> None:
    world = World()
    repo = await world.create_repository()
    updated = await world.branches.update(
        repo,
        MAIN,
        lambda b, _: replace(b, staging_token=StagingToken("t")),
        landed=lambda b: b.staging_token == "t",
    )
    await world.memory.set_rows(
        "t", [Row(b"k", b"")], fence=world.branches.fence(repo, updated.value, commit=True)
    )


async def test_a_bare_repository_has_neither_branch_nor_commit_and_may_hold_data(world: World) -> None:
    store = await world.open_store("mem://bucket/lake")
    await store.put("data/old", b"")
    repo = await world.create_repository(bare=True)
    assert repo.bare
    assert (await world.branches.list(repo)).results == ()
    assert [page async for page in world.commits.scan(repo)] == []
    await require_whole(world, repo)


async def test_flags_are_kept(world: World) -> None:
    await world.create_repository(read_only=True)
    world.restart()
    repo = await world.repositories.get(LAKE)
    assert (repo.read_only, repo.bare) == (True, False)


async def test_a_name_can_be_taken_once(world: World) -> None:
    await world.create_repository()
    with pytest.raises(AlreadyExistsError) as caught:
        await world.create_repository(namespace="mem://bucket/other")
    assert caught.value.kind is ErrorKind.REPO_EXISTS


@pytest.mark.parametrize(
    "text", ["lake", "mem://", "mem://a/../b", "mem://a//b", "mem:///", "://x", "mem://a b"]
)
async def test_a_namespace_that_is_none_is_refused(world: World, text: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        await world.create_repository(namespace=text)
    assert caught.value.kind is ErrorKind.INVALID_NAMESPACE
    assert await world.partitions() == set()


@pytest.mark.parametrize(
    "other", ["mem://bucket/lake", "mem://bucket/lake/", "mem://bucket", "mem://bucket/lake/in/side"]
)
@pytest.mark.parametrize("bare", [True, False])
async def test_a_namespace_in_use_above_or_below_another_is_refused(
    world: World, other: str, bare: bool
) -> None:
    await world.create_repository()
    before = await world.objects()
    with pytest.raises(InvalidInputError) as caught:
        await world.create_repository("other", other, bare=bare)
    assert caught.value.kind is ErrorKind.NAMESPACE_IN_USE
    assert await world.objects() == before
    assert await live(world, RepoName("other")) is None


async def test_namespaces_that_only_begin_alike_are_different(world: World) -> None:
    await world.create_repository()
    await world.create_repository("other", "mem://bucket/lake2")
    await world.create_repository("third", "mem://bucke")


@pytest.mark.parametrize("where", ["lake/", "lake/in/side/", ""])
@pytest.mark.parametrize("bare", [True, False])
async def test_the_marker_of_another_installation_is_seen_in_above_and_below(
    world: World, where: str, bare: bool
) -> None:
    await world.whole.put(f"bucket/{where}_lakebed/owner-stranger", b"")
    with pytest.raises(InvalidInputError) as caught:
        await world.create_repository(bare=bare)
    assert caught.value.kind is ErrorKind.NAMESPACE_IN_USE
    assert await world.objects() == [f"bucket/{where}_lakebed/owner-stranger"]


async def test_a_namespace_that_holds_anything_is_refused(world: World) -> None:
    await world.whole.put("bucket/lake/readme", b"")
    with pytest.raises(InvalidInputError) as caught:
        await world.create_repository()
    assert caught.value.kind is ErrorKind.NAMESPACE_IN_USE
    assert await world.objects() == ["bucket/lake/readme"]


async def test_after_a_refusal_the_same_name_and_place_can_be_tried_again_at_once(world: World) -> None:
    await world.whole.put("bucket/lake/readme", b"")
    with pytest.raises(InvalidInputError):
        await world.create_repository()
    await world.whole.delete(["bucket/lake/readme"])
    await require_whole(world, await world.create_repository())


@pytest.mark.parametrize("place", ["mem://bucket/lake", "mem://bucket", "mem://bucket/lake/in"])
async def test_a_record_protects_its_namespace_even_if_somebody_removed_the_marker(
    world: World, place: str
) -> None:
    repo = await world.create_repository()
    await world.whole.delete([f"bucket/lake/_lakebed/owner-{repo.uid}"])
    with pytest.raises(InvalidInputError) as caught:
        await world.create_repository("other", place)
    assert caught.value.kind is ErrorKind.NAMESPACE_IN_USE
    assert await world.objects() == []


async def test_the_cleaner_leaves_a_creation_alone_that_is_not_stale(world: World) -> None:
    fences = world.memory.capabilities.fences
    for at in range(1, STEPS):
        world = World(fences=fences, seed=at)

        async def clean(world: World = world) -> None:
            await world.cleaner.clean_once()

        steps = Steps(world, at, clean)
        await require_whole(world, await world.create_repository())
        if not steps.reached:
            break
    else:
        pytest.fail("a creation has more steps than the test knows")


async def test_two_spellings_of_one_place_are_one_place(world: World) -> None:
    await world.create_repository("first", "mem://bucket/lake")

    class Aliased(Places):
        def canonical(self, namespace: str) -> str:
            return namespace.replace("alias", "bucket/lake")

    world.repositories.places = Aliased()
    with pytest.raises(InvalidInputError) as caught:
        await world.create_repository("second", "mem://alias/deeper")
    assert caught.value.kind is ErrorKind.NAMESPACE_IN_USE


async def test_a_store_that_cannot_be_opened_leaves_no_trace(world: World) -> None:
    async def refuse(_namespace: str) -> Any:
        raise InvalidInputError(ErrorKind.INVALID_NAMESPACE, "no such scheme")

    world.repositories._open_store = refuse
    with pytest.raises(InvalidInputError):
        await world.create_repository()
    assert await world.partitions() == set()


async def test_listing_pages_and_searches_live_repositories_by_name(world: World) -> None:
    for name in ("a-lake", "b-lake", "b-pond", "c-lake", "c-pond"):
        await world.create_repository(name, f"mem://{name}")
    await world.repositories.delete(await world.repositories.get(RepoName("c-lake")))

    async def names(**query: Any) -> tuple[list[str], bool]:
        page = await world.repositories.list(**query)
        return [repo.name for repo in page.results], page.has_more

    assert await names() == (["a-lake", "b-lake", "b-pond", "c-pond"], False)
    assert await names(amount=2) == (["a-lake", "b-lake"], True)
    assert await names(after="b-lake", amount=2) == (["b-pond", "c-pond"], False)
    assert await names(prefix="b-") == (["b-lake", "b-pond"], False)
    assert await names(search="pond") == (["b-pond", "c-pond"], False)


async def test_a_deleted_repository_is_gone_for_everyone_and_its_name_free_at_once(world: World) -> None:
    old = await world.create_repository()
    await world.repositories.delete(old)
    assert await live(world) is None
    new = await world.create_repository(namespace="mem://bucket/new")
    assert new.uid != old.uid


async def test_deleting_again_is_not_found_and_leaves_a_namesake_alone(world: World) -> None:
    old = await world.create_repository()
    await world.repositories.delete(old)
    with pytest.raises(NotFoundError):
        await world.repositories.delete(old)
    new = await world.create_repository(namespace="mem://bucket/new")
    with pytest.raises(NotFoundError):
        await world.repositories.delete(old)
    assert await live(world) == new


async def test_a_place_is_free_when_its_repository_is_cleaned(world: World) -> None:
    await world.repositories.delete(await world.create_repository())
    with pytest.raises(InvalidInputError) as caught:
        await world.create_repository("other")
    assert caught.value.kind is ErrorKind.NAMESPACE_IN_USE
    await world.clean()
    await world.create_repository("other")


async def test_a_creation_recognises_its_own_record_that_arrived_late(world: World) -> None:
    world.kv.hook = Late()
    repo = await world.create_repository()
    await require_whole(world, repo)


async def test_a_deletion_whose_reply_was_lost_leaves_a_namesake_alone(world: World) -> None:
    old = await world.create_repository()

    async def lose(call: Call) -> Fault:
        world.kv.hook = None
        await call.action()
        await world.create_repository(namespace="mem://bucket/new")
        return Fault.LOST_REQUEST

    world.kv.hook = lose
    await world.repositories.delete(old)
    new = await live(world)
    assert new is not None
    assert new.uid != old.uid


async def test_a_marker_that_is_there_already_is_the_own_one(world: World) -> None:
    async def retried(call: Call) -> None:
        world.store_hook = None
        if call.method == "put":
            await call.action()

    world.store_hook = retried
    await require_whole(world, await world.create_repository())


async def test_a_repository_in_deletion_says_so_and_is_finished_by_a_namesake(world: World) -> None:
    repo = await world.create_repository()
    steps = Steps(world, 1, Fault.CRASH_AFTER)
    with pytest.raises(Crash):
        await world.repositories.delete(repo)
    assert steps.reached
    world.restart()
    with pytest.raises(NotFoundError) as caught:
        await world.repositories.get(LAKE)
    assert caught.value.kind is ErrorKind.REPO_IN_DELETION
    new = await world.create_repository(namespace="mem://bucket/new")
    assert await live(world) == new


async def test_a_deletion_that_died_half_way_can_be_repeated(world: World) -> None:
    repo = await world.create_repository()
    Steps(world, 1, Fault.CRASH_AFTER)
    with pytest.raises(Crash):
        await world.repositories.delete(repo)
    world.restart()
    await world.repositories.delete(repo)
    await require_nothing_left(world)


async def test_a_fresh_creation_by_somebody_else_blocks_the_name_and_a_stale_one_does_not(
    world: World,
) -> None:
    Steps(world, 2, Fault.CRASH_BEFORE)
    with pytest.raises(Crash):
        await world.create_repository()
    world.restart()
    with pytest.raises(AlreadyExistsError, match="being created"):
        await world.create_repository(namespace="mem://bucket/new")
    assert await live(world) is None

    world.clock.advance(CREATING_TIMEOUT_SECONDS + 1)
    await require_whole(world, await world.create_repository(namespace="mem://bucket/new"))


@pytest.mark.parametrize("bare", [False, True])
@pytest.mark.parametrize("fault", list(Fault))
async def test_whatever_happens_at_any_step_of_a_creation_nothing_is_left_over(
    world: World, fault: Fault, bare: bool
) -> None:
    fences = world.memory.capabilities.fences
    for at in range(1, STEPS):
        world = World(fences=fences, seed=at)
        steps = Steps(world, at, fault)
        try:
            created = await world.create_repository(bare=bare)
        except (Crash, LakebedError):
            created = None
        world.restart()
        assert created is None or await live(world) == created
        await require_nothing_left(world)
        if not steps.reached:
            break
    else:
        pytest.fail("a creation has more steps than the test knows")


@pytest.mark.parametrize("fault", list(Fault))
async def test_whatever_happens_at_any_step_of_a_refused_creation_nothing_is_left_over(
    world: World, fault: Fault
) -> None:
    fences = world.memory.capabilities.fences
    for at in range(1, STEPS):
        world = World(fences=fences, seed=at)
        await world.whole.put("bucket/lake/readme", b"")
        steps = Steps(world, at, fault)
        with pytest.raises((Crash, LakebedError)):
            await world.create_repository()
        world.restart()
        await world.whole.delete(["bucket/lake/readme"])
        await require_nothing_left(world)
        if not steps.reached:
            break
    else:
        pytest.fail("a creation has more steps than the test knows")


@pytest.mark.parametrize("delete_data", [True, False])
@pytest.mark.parametrize("fault", list(Fault))
async def test_whatever_happens_at_any_step_of_a_deletion_nothing_is_left_over(
    world: World, fault: Fault, delete_data: bool
) -> None:
    fences = world.memory.capabilities.fences
    for at in range(1, STEPS):
        world = World(fences=fences, seed=at)
        repo = await with_staged_data(world)
        steps = Steps(world, at, fault)
        done = True
        try:
            await world.repositories.delete(repo, delete_data=delete_data)
        except (Crash, LakebedError):
            done = False
        world.restart()
        if done:
            assert await live(world) is None
        await world.clean()
        if not delete_data:
            await world.whole.delete(["bucket/lake/data/slice/object"])
        await require_nothing_left(world)
        if not steps.reached:
            break
    else:
        pytest.fail("a deletion has more steps than the test knows")


@pytest.mark.parametrize("fault", list(Fault))
async def test_whatever_happens_at_any_step_of_the_cleaner_nothing_is_left_over(
    world: World, fault: Fault
) -> None:
    fences = world.memory.capabilities.fences
    for at in range(1, 3 * STEPS):
        world = World(fences=fences, seed=at)
        repo = await with_staged_data(world)
        await world.repositories.delete(repo, delete_data=True)
        steps = Steps(world, at, fault)
        with suppress(Crash, LakebedError):
            await world.clean()
        world.restart()
        await require_nothing_left(world)
        if not steps.reached:
            break
    else:
        pytest.fail("the cleaner has more steps than the test knows")


@pytest.mark.parametrize("grace", [0.0, 2 * GRACE_SECONDS])
async def test_a_creation_that_was_given_up_at_any_step_never_goes_live(world: World, grace: float) -> None:
    fences = world.memory.capabilities.fences
    for at in range(2, STEPS):
        world = World(fences=fences, seed=at)

        async def give_up(world: World = world) -> None:
            world.kv.hook = world.store_hook = None
            found = await world.repositories.find(LAKE)
            if found is None or not isinstance(found.value, CreatingRepository):
                return
            world.clock.advance(CREATING_TIMEOUT_SECONDS + 1)
            done = await world.cleaner.clean_once()
            assert done.given_up == 1
            world.clock.advance(grace)
            await world.cleaner.clean_once()

        steps = Steps(world, at, give_up)
        created = None
        with suppress(ConflictError):
            created = await world.create_repository()
        if not steps.reached:
            assert created is not None
            break
        assert created is None
        assert await live(world) is None
        await require_nothing_left(world)
    else:
        pytest.fail("a creation has more steps than the test knows")


@pytest.mark.parametrize("at", range(3, STEPS))
async def test_what_a_given_up_creation_would_still_write_is_refused_by_its_fence(at: int) -> None:
    world = World()

    async def give_up_and_crash() -> Fault | None:
        world.kv.hook = world.store_hook = None
        found = await world.repositories.find(LAKE)
        if found is None or not isinstance(found.value, CreatingRepository):
            return None
        for _ in range(3):
            await world.clean()
        return Fault.CRASH_AFTER

    Steps(world, at, give_up_and_crash)
    with suppress(Crash, ConflictError):
        await world.create_repository()
    world.restart()
    repo = await live(world)
    assert await world.partitions() <= {"lakebed", repo.partition if repo is not None else "cleanup"}


@pytest.mark.parametrize("installation", ["same", "another"])
@pytest.mark.parametrize("rival_place", ["mem://bucket/lake", "mem://bucket", "mem://bucket/lake/in"])
async def test_two_who_want_the_same_place_never_both_get_it(
    world: World, rival_place: str, installation: str
) -> None:
    fences = world.memory.capabilities.fences
    for at in range(1, STEPS):
        world = World(fences=fences, seed=at)
        rival = World(seed=at + 100)
        rival.whole, rival.clock = world.whole, world.clock
        if installation == "same":
            rival.memory = world.memory
        rival.restart()

        async def run(rival: World = rival) -> None:
            with suppress(InvalidInputError):
                await rival.create_repository("rival", rival_place)

        steps = Steps(world, at, run)
        with suppress(InvalidInputError):
            await world.create_repository()
        found = {repo.uid for each in (world, rival) for repo in (await each.repositories.list()).results}
        assert len(found) < 2
        if not steps.reached:
            break
    else:
        pytest.fail("a creation has more steps than the test knows")


async def test_a_writer_that_holds_a_deleted_repository_never_meets_its_namesake(world: World) -> None:
    old = await world.create_repository()
    commit = await world.commit(old)
    writer = await world.branches.create(old, BranchName("dev"), commit.id)
    await world.repositories.delete(old)
    new = await world.create_repository(namespace="mem://bucket/new")

    await world.branches.swap(old, writer, replace(writer.value, hidden=True))
    late = await world.commit(old, commit.id)
    await world.tags.create(old, TagName("late"), late.id)
    await world.protection.get(old)
    await world.metadata.set(old, {"late": "yes"})

    assert [b.name for b in (await world.branches.list(new)).results] == ["main"]
    assert (await world.tags.list(new)).results == ()
    assert await world.metadata.get(new) == {}
    for lookup in (
        world.commits.get(new, commit.id),
        world.commits.get(new, late.id),
        world.branches.get(new, BranchName("dev")),
    ):
        with pytest.raises(NotFoundError):
            await lookup

    await world.clean()
    assert await world.partitions() == {"lakebed", new.partition}
    with pytest.raises(ConflictError):
        await world.branches.swap(old, writer, writer.value)
    await require_whole(world, new)


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (Fault.CONFLICT, ErrorKind.TOO_MANY_RETRIES),
        (Fault.LOST_REQUEST, ErrorKind.OUTCOME_UNKNOWN),
        (Fault.REFUSED, ErrorKind.STORE_UNAVAILABLE),
    ],
)
async def test_a_deletion_that_never_succeeds_says_so(world: World, fault: Fault, kind: ErrorKind) -> None:
    repo = await world.create_repository()

    async def always(_call: Call) -> Fault:
        return fault

    world.kv.hook = always
    with pytest.raises(LakebedError) as caught:
        await world.repositories.delete(repo)
    assert caught.value.kind is kind
    assert await live(world) == repo


async def test_a_deletion_that_cannot_be_finished_counts_and_is_left_to_the_cleaner(world: World) -> None:
    repo = await world.create_repository()

    async def only_the_record(call: Call) -> Fault | None:
        return Fault.LOST_REQUEST if call.where == "lakebed" and await live(world) is None else None

    world.kv.hook = only_the_record
    await world.repositories.delete(repo)
    assert await live(world) is None
    assert (await world.cleaner.clean_once()).failed == 1
    world.restart()
    await require_nothing_left(world)


async def test_a_claim_that_never_succeeds_says_so(world: World) -> None:
    tries = 0

    async def always(_call: Call) -> Fault:
        nonlocal tries
        tries += 1
        return Fault.CONFLICT

    world.kv.hook = always
    with pytest.raises(ConflictError) as caught:
        await world.create_repository()
    assert caught.value.kind is ErrorKind.TOO_MANY_RETRIES
    assert tries == SWAP_ATTEMPTS_MAX


async def test_a_swap_whose_reply_and_whose_record_cannot_be_read_is_unknown(world: World) -> None:
    async def lose(_call: Call) -> Fault:
        world.kv.read_hook = refuse
        return Fault.LOST_REPLY

    async def refuse(_call: Call) -> Fault:
        return Fault.REFUSED

    world.kv.hook = lose
    with pytest.raises(UnavailableError) as caught:
        await world.create_repository()
    assert caught.value.kind is ErrorKind.OUTCOME_UNKNOWN
