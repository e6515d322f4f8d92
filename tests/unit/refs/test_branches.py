from dataclasses import replace

import pytest

from lakebed.env.clock import Instant
from lakebed.errors import (
    AlreadyExistsError,
    ConflictError,
    DeniedError,
    ErrorKind,
    LakebedError,
    NotFoundError,
    UnavailableError,
)
from lakebed.format.records import decode_branch, decode_commit, encode_branch, encode_commit
from lakebed.kv.port import Expect, Row
from lakebed.limits import SWAP_ATTEMPTS_MAX
from lakebed.model.branch import Branch, DeletedBranch
from lakebed.model.ids import BranchName, CommitId, StagingToken, TagName
from lakebed.model.layers import TokenLayer
from lakebed.model.repository import Repository
from lakebed.refs.keys import branch_key, commit_key
from tests.unit.refs.world import Call, Fault, Late, World

DEV = BranchName("dev")


async def make(world: World, repo: Repository, name: str = "dev") -> Branch:
    commit = await world.commit(repo)
    return (await world.branches.create(repo, BranchName(name), commit.id)).value


async def condemn(world: World, repo: Repository, commit_id: CommitId) -> None:
    item = await world.memory.get(repo.partition, commit_key(commit_id))
    assert item is not None
    condemned = replace(decode_commit(item.value), condemned_by="run")
    await world.memory.swap(repo.partition, item.key, encode_commit(condemned), expected=item.version)


def stage(token: str):
    return lambda branch, _now: replace(branch, staging_token=StagingToken(token))


def has(token: str):
    return lambda branch: branch.staging_token == token


async def test_a_created_branch_is_found_by_everyone(world: World, repo: Repository) -> None:
    created = await make(world, repo)

    world.restart()
    found = await world.branches.get(repo, DEV)

    assert found.value == created
    assert not found.value.tentative


async def test_reading_a_branch_costs_one_read(world: World, repo: Repository) -> None:
    await make(world, repo)
    world.kv.reads = 0

    await world.branches.get(repo, DEV)

    assert world.kv.reads == 1


async def test_a_branch_that_never_was_is_not_found(world: World, repo: Repository) -> None:
    with pytest.raises(NotFoundError) as caught:
        await world.branches.get(repo, DEV)
    assert caught.value.kind is ErrorKind.BRANCH_NOT_FOUND
    assert await world.branches.find(repo, DEV) is None


async def test_two_branches_cannot_have_one_name(world: World, repo: Repository) -> None:
    await make(world, repo)
    with pytest.raises(AlreadyExistsError) as caught:
        await make(world, repo)
    assert caught.value.kind is ErrorKind.BRANCH_EXISTS


async def test_a_branch_cannot_have_the_name_of_a_tag(world: World, repo: Repository) -> None:
    commit = await world.commit(repo)
    await world.tags.create(repo, TagName("dev"), commit.id)
    with pytest.raises(AlreadyExistsError) as caught:
        await world.branches.create(repo, DEV, commit.id)
    assert caught.value.kind is ErrorKind.TAG_EXISTS


async def test_a_branch_cannot_have_the_name_of_a_commit(world: World, repo: Repository) -> None:
    commit = await world.commit(repo)
    with pytest.raises(AlreadyExistsError) as caught:
        await world.branches.create(repo, BranchName(commit.id), commit.id)
    assert caught.value.kind is ErrorKind.COMMIT_EXISTS


async def test_a_branch_needs_a_commit_that_exists(world: World, repo: Repository) -> None:
    with pytest.raises(NotFoundError) as caught:
        await world.branches.create(repo, DEV, CommitId("0" * 64))
    assert caught.value.kind is ErrorKind.COMMIT_NOT_FOUND
    with pytest.raises(NotFoundError):
        await world.branches.get(repo, DEV)


async def test_a_condemned_commit_gets_no_branch(world: World, repo: Repository) -> None:
    commit = await world.commit(repo)
    await condemn(world, repo, commit.id)
    with pytest.raises(NotFoundError, match="expired"):
        await world.branches.create(repo, DEV, commit.id)


async def test_a_commit_condemned_just_before_the_swap_gets_no_branch(world: World, repo: Repository) -> None:
    commit = await world.commit(repo)

    async def collector(call: Call) -> None:
        if call.key == branch_key(DEV):
            world.kv.hook = None
            await condemn(world, repo, commit.id)

    world.kv.hook = collector
    with pytest.raises(NotFoundError):
        await world.branches.create(repo, DEV, commit.id)

    world.restart()
    with pytest.raises(NotFoundError):
        await world.branches.get(repo, DEV)


async def test_a_swap_returns_what_the_next_read_finds(world: World, repo: Repository) -> None:
    await make(world, repo)
    old = await world.branches.get(repo, DEV)

    new = await world.branches.swap(repo, old, replace(old.value, hidden=True))

    assert new == await world.branches.get(repo, DEV)
    assert new.value.hidden


async def test_a_swap_of_an_old_version_is_a_conflict(world: World, repo: Repository) -> None:
    await make(world, repo)
    old = await world.branches.get(repo, DEV)
    await world.branches.swap(repo, old, replace(old.value, hidden=True))
    with pytest.raises(ConflictError):
        await world.branches.swap(repo, old, old.value)


async def test_stored_times_never_go_back(world: World, repo: Repository) -> None:
    await make(world, repo)
    old = await world.branches.get(repo, DEV)
    world.clock.advance(-3600)

    new = await world.branches.swap(repo, old, replace(old.value, hidden=True))

    assert new.value.updated_at == old.value.updated_at + 1


async def test_update_tells_the_change_the_time(world: World, repo: Repository) -> None:
    await make(world, repo)
    seen: list[Instant] = []

    def change(branch: Branch, now: Instant) -> Branch:
        seen.append(now)
        return replace(branch, hidden=True)

    await world.branches.update(repo, DEV, change, landed=lambda b: b.hidden)
    assert seen == [world.clock.now()]


async def test_update_does_nothing_if_it_landed_before(world: World, repo: Repository) -> None:
    await make(world, repo)
    first = await world.branches.update(repo, DEV, stage("a"), landed=has("a"))
    assert await world.branches.update(repo, DEV, stage("b"), landed=has("a")) == first


async def test_update_does_nothing_if_the_change_returns_its_argument(world: World, repo: Repository) -> None:
    await make(world, repo)
    before = await world.branches.get(repo, DEV)
    after = await world.branches.update(repo, DEV, lambda branch, _now: branch, landed=lambda _branch: False)
    assert after == before


async def test_update_starts_over_when_somebody_else_was_faster(world: World, repo: Repository) -> None:
    await make(world, repo)

    async def rival(_call: Call) -> None:
        world.kv.hook = None
        await world.branches.update(
            repo, DEV, lambda b, _: replace(b, hidden=True), landed=lambda b: b.hidden
        )

    world.kv.hook = rival
    updated = await world.branches.update(repo, DEV, stage("mine"), landed=has("mine"))

    assert updated.value.hidden
    assert updated.value.staging_token == "mine"


async def test_update_gives_up_after_many_lost_races(world: World, repo: Repository) -> None:
    await make(world, repo)
    tries = 0

    async def always(_call: Call) -> Fault:
        nonlocal tries
        tries += 1
        return Fault.CONFLICT

    world.kv.hook = always
    with pytest.raises(ConflictError) as caught:
        await world.branches.update(repo, DEV, stage("mine"), landed=has("mine"))
    assert caught.value.kind is ErrorKind.TOO_MANY_RETRIES
    assert tries == SWAP_ATTEMPTS_MAX


@pytest.mark.parametrize("fault", [Fault.LOST_REQUEST, Fault.LOST_REPLY])
async def test_update_lands_once_after_an_unknown_outcome(
    world: World, repo: Repository, fault: Fault
) -> None:
    await make(world, repo)

    async def once(_call: Call) -> Fault:
        world.kv.hook = None
        return fault

    world.kv.hook = once
    updated = await world.branches.update(
        repo,
        DEV,
        lambda b, _: replace(b, next_seq=b.next_seq + 1, last_token=7),
        landed=lambda b: b.last_token == 7,
    )
    assert updated.value.next_seq == 2
    assert updated == await world.branches.get(repo, DEV)


@pytest.mark.parametrize("fault", [Fault.LOST_REQUEST, Fault.LOST_REPLY])
async def test_update_never_writes_again_on_a_record_that_moved_after_an_unknown_outcome(
    world: World, repo: Repository, fault: Fault
) -> None:
    await make(world, repo)

    async def lose(_call: Call) -> Fault:
        world.kv.hook = None
        world.kv.read_hook = rival
        return fault

    async def rival(_call: Call) -> None:
        world.kv.read_hook = None
        current = await world.branches.get(repo, DEV)
        await world.branches.swap(repo, current, replace(current.value, staging_token=StagingToken("rival")))

    world.kv.hook = lose
    with pytest.raises(UnavailableError) as caught:
        await world.branches.update(repo, DEV, stage("mine"), landed=has("mine"))
    assert caught.value.kind is ErrorKind.OUTCOME_UNKNOWN
    assert (await world.branches.get(repo, DEV)).value.staging_token == "rival"


async def test_update_recognises_its_own_swap_that_arrived_late(world: World, repo: Repository) -> None:
    await make(world, repo)
    world.kv.hook = Late()
    updated = await world.branches.update(
        repo,
        DEV,
        lambda b, _: replace(b, next_seq=b.next_seq + 1, last_token=7),
        landed=lambda b: b.last_token == 7,
    )
    assert updated.value.next_seq == 2


async def test_a_creation_that_finds_no_record_after_an_unknown_outcome_is_unknown(
    world: World, repo: Repository
) -> None:
    """The branch may have been there, been deleted, and its tombstone dropped: nothing is left to tell."""
    commit = await world.commit(repo)
    late: list[Call] = []

    async def lose(call: Call) -> Fault | None:
        if call.key != branch_key(DEV):
            return None
        late.append(call)
        return Fault.LOST_REQUEST

    world.kv.hook = lose
    with pytest.raises(UnavailableError) as caught:
        await world.branches.create(repo, DEV, commit.id)
    assert caught.value.kind is ErrorKind.OUTCOME_UNKNOWN
    assert len(late) == 1, "a second copy could create the branch again after somebody deleted it"


async def test_a_creation_over_a_tombstone_recognises_its_own_branch_that_arrived_late(
    world: World, repo: Repository
) -> None:
    commit = await world.commit(repo)
    await world.branches.create(repo, DEV, commit.id)
    await world.branches.delete(repo, DEV)
    late: list[Call] = []

    async def delay(call: Call) -> Fault | None:
        if call.key != branch_key(DEV):
            return None
        late.append(call)
        if len(late) == 1:
            return Fault.LOST_REQUEST
        if len(late) == 2:
            await late[0].action()
        return None

    world.kv.hook = delay
    created = await world.branches.create(repo, DEV, commit.id)
    world.restart()
    assert await world.branches.get(repo, DEV) == created


async def test_a_creation_passes_on_that_the_store_cannot_be_read(world: World, repo: Repository) -> None:
    commit = await world.commit(repo)

    async def refuse(call: Call) -> Fault | None:
        return Fault.REFUSED if call.key == branch_key(DEV) else None

    world.kv.read_hook = refuse
    with pytest.raises(UnavailableError) as caught:
        await world.branches.create(repo, DEV, commit.id)
    assert caught.value.kind is ErrorKind.STORE_UNAVAILABLE


async def test_update_of_a_branch_deleted_after_an_unknown_outcome_is_unknown(
    world: World, repo: Repository
) -> None:
    await make(world, repo)

    async def lose(call: Call) -> Fault | None:
        if call.key != branch_key(DEV):
            return None
        world.kv.hook = None
        world.kv.read_hook = rival
        return Fault.LOST_REPLY

    async def rival(_call: Call) -> None:
        world.kv.read_hook = None
        await world.branches.delete(repo, DEV)

    world.kv.hook = lose
    with pytest.raises(UnavailableError) as caught:
        await world.branches.update(repo, DEV, stage("mine"), landed=has("mine"))
    assert caught.value.kind is ErrorKind.OUTCOME_UNKNOWN


async def test_a_refusal_after_an_unknown_outcome_is_no_promise(world: World, repo: Repository) -> None:
    await make(world, repo)
    faults = [Fault.LOST_REQUEST] + [Fault.REFUSED] * SWAP_ATTEMPTS_MAX

    async def next_fault(_call: Call) -> Fault:
        return faults.pop(0)

    world.kv.hook = next_fault
    with pytest.raises(UnavailableError) as caught:
        await world.branches.update(repo, DEV, stage("mine"), landed=has("mine"))
    assert caught.value.kind is ErrorKind.OUTCOME_UNKNOWN


async def test_a_refusal_that_is_sure_is_passed_on(world: World, repo: Repository) -> None:
    await make(world, repo)

    async def refuse(_call: Call) -> Fault:
        return Fault.REFUSED

    world.kv.hook = refuse
    with pytest.raises(UnavailableError) as caught:
        await world.branches.update(repo, DEV, stage("mine"), landed=has("mine"))
    assert caught.value.kind is ErrorKind.STORE_UNAVAILABLE


async def test_a_change_may_raise_to_stop(world: World, repo: Repository) -> None:
    await make(world, repo)

    def stop(_branch: Branch, _now: Instant) -> Branch:
        raise ConflictError(ErrorKind.VERSION_CHANGED, "stop")

    with pytest.raises(ConflictError, match="stop"):
        await world.branches.update(repo, DEV, stop, landed=lambda _b: False)


async def test_deleting_retires_every_layer_and_keeps_the_counters(world: World, repo: Repository) -> None:
    await make(world, repo)
    layer = TokenLayer(token=StagingToken("sealed"), seq=4)
    await world.branches.update(
        repo,
        DEV,
        lambda b, _: replace(
            b, staging_token=StagingToken("open"), sealed=(layer,), next_seq=5, last_token=9, min_era=3
        ),
        landed=has("open"),
    )

    await world.branches.delete(repo, DEV)

    found = await world.branches.find(repo, DEV)
    assert found is not None
    tombstone = found.value
    assert isinstance(tombstone, DeletedBranch)
    assert [r.layer for r in tombstone.retired] == [TokenLayer(token=StagingToken("open"), seq=5), layer]
    assert (tombstone.next_seq, tombstone.last_token, tombstone.min_era) == (6, 9, 3)


async def test_a_namesake_carries_on_what_the_deleted_branch_left(world: World, repo: Repository) -> None:
    old = await make(world, repo)
    await world.branches.update(repo, DEV, stage("open"), landed=has("open"))
    await world.branches.delete(repo, DEV)
    left = await world.branches.find(repo, DEV)
    assert left is not None

    new = await make(world, repo)

    assert new.retired == left.value.retired
    assert new.next_seq == left.value.next_seq == 2
    assert new.incarnation != old.incarnation
    assert new.staging_token is None


async def test_an_old_incarnation_cannot_be_swapped_after_the_name_was_taken_again(
    world: World, repo: Repository
) -> None:
    await make(world, repo)
    old = await world.branches.get(repo, DEV)
    await world.branches.delete(repo, DEV)
    await make(world, repo)
    with pytest.raises(ConflictError):
        await world.branches.swap(repo, old, old.value)


async def test_deleting_a_branch_that_is_not_there_is_not_found(world: World, repo: Repository) -> None:
    await make(world, repo)
    await world.branches.delete(repo, DEV)
    with pytest.raises(NotFoundError):
        await world.branches.delete(repo, DEV)


async def test_the_default_branch_cannot_be_deleted(world: World, repo: Repository) -> None:
    await make(world, repo, "main")
    with pytest.raises(DeniedError) as caught:
        await world.branches.delete(repo, BranchName("main"))
    assert caught.value.kind is ErrorKind.DEFAULT_BRANCH


@pytest.mark.parametrize("fault", [Fault.LOST_REQUEST, Fault.LOST_REPLY, Fault.CONFLICT])
async def test_a_deletion_ends_with_the_branch_gone_whatever_gets_lost(
    world: World, repo: Repository, fault: Fault
) -> None:
    await make(world, repo)

    async def once(_call: Call) -> Fault:
        world.kv.hook = None
        return fault

    world.kv.hook = once
    await world.branches.delete(repo, DEV)
    with pytest.raises(NotFoundError):
        await world.branches.get(repo, DEV)


async def test_a_deletion_leaves_a_namesake_alone_that_came_after_its_lost_reply(
    world: World, repo: Repository
) -> None:
    await make(world, repo)

    async def lose(call: Call) -> Fault | None:
        if call.key != branch_key(DEV):
            return None
        world.kv.hook = None
        world.kv.read_hook = rival
        return Fault.LOST_REPLY

    async def rival(_call: Call) -> None:
        world.kv.read_hook = None
        await make(world, repo)

    world.kv.hook = lose
    await world.branches.delete(repo, DEV)
    assert (await world.branches.get(repo, DEV)).value.name == DEV


@pytest.mark.parametrize("lost", [1, 2])
async def test_a_creation_recognises_its_own_branch(world: World, repo: Repository, lost: int) -> None:
    commit = await world.commit(repo)
    writes = 0

    async def lose(call: Call) -> Fault | None:
        nonlocal writes
        writes += call.key == branch_key(DEV)
        return Fault.LOST_REPLY if writes == lost else None

    world.kv.hook = lose
    created = await world.branches.create(repo, DEV, commit.id)

    world.restart()
    assert await world.branches.get(repo, DEV) == created


async def test_a_creation_does_not_take_anothers_branch_for_its_own(world: World, repo: Repository) -> None:
    commit = await world.commit(repo)

    async def lose(call: Call) -> Fault | None:
        if call.key != branch_key(DEV):
            return None
        world.kv.hook = None
        await world.branches.create(repo, DEV, commit.id)
        return Fault.LOST_REQUEST

    world.kv.hook = lose
    with pytest.raises(UnavailableError) as caught:
        await world.branches.create(repo, DEV, commit.id)
    assert caught.value.kind is ErrorKind.OUTCOME_UNKNOWN


async def test_a_creation_whose_branch_came_and_went_is_unknown(world: World, repo: Repository) -> None:
    commit = await world.commit(repo)

    async def lose(call: Call) -> Fault | None:
        if call.key != branch_key(DEV):
            return None
        world.kv.hook = None
        await world.branches.create(repo, DEV, commit.id)
        await world.branches.delete(repo, DEV)
        return Fault.LOST_REQUEST

    world.kv.hook = lose
    with pytest.raises(UnavailableError) as caught:
        await world.branches.create(repo, DEV, commit.id)
    assert caught.value.kind is ErrorKind.OUTCOME_UNKNOWN


@pytest.mark.parametrize("kind", ["read", "commit"])
async def test_what_fails_after_an_unknown_creation_is_no_promise(
    world: World, repo: Repository, kind: str
) -> None:
    commit = await world.commit(repo)

    async def lose(call: Call) -> Fault | None:
        if call.key != branch_key(DEV):
            return None
        world.kv.hook = None
        if kind == "commit":
            await condemn(world, repo, commit.id)
        else:
            world.kv.read_hook = refuse
        return Fault.LOST_REQUEST

    async def refuse(_call: Call) -> Fault:
        return Fault.REFUSED

    world.kv.hook = lose
    with pytest.raises(UnavailableError) as caught:
        await world.branches.create(repo, DEV, commit.id)
    assert caught.value.kind is ErrorKind.OUTCOME_UNKNOWN


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (Fault.CONFLICT, ErrorKind.TOO_MANY_RETRIES),
        (Fault.LOST_REQUEST, ErrorKind.OUTCOME_UNKNOWN),
        (Fault.REFUSED, ErrorKind.STORE_UNAVAILABLE),
    ],
)
async def test_a_creation_that_never_succeeds_says_so(
    world: World, repo: Repository, fault: Fault, kind: ErrorKind
) -> None:
    commit = await world.commit(repo)

    async def always(_call: Call) -> Fault:
        return fault

    world.kv.hook = always
    with pytest.raises(LakebedError) as caught:
        await world.branches.create(repo, DEV, commit.id)
    assert caught.value.kind is kind


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (Fault.CONFLICT, ErrorKind.TOO_MANY_RETRIES),
        (Fault.LOST_REQUEST, ErrorKind.OUTCOME_UNKNOWN),
        (Fault.REFUSED, ErrorKind.STORE_UNAVAILABLE),
    ],
)
async def test_a_deletion_that_never_succeeds_says_so(
    world: World, repo: Repository, fault: Fault, kind: ErrorKind
) -> None:
    await make(world, repo)

    async def always(_call: Call) -> Fault:
        return fault

    world.kv.hook = always
    with pytest.raises(LakebedError) as caught:
        await world.branches.delete(repo, DEV)
    assert caught.value.kind is kind


async def tentative(world: World, repo: Repository) -> CommitId:
    """A branch whose creator died after its first swap."""
    commit = await world.commit(repo)
    branch = Branch(name=DEV, incarnation="dead", commit_id=commit.id, tentative=True, created_by="dead")
    await world.memory.swap(repo.partition, branch_key(DEV), encode_branch(branch), expected=Expect.ABSENT)
    return commit.id


async def test_whoever_reads_a_tentative_branch_finishes_it(world: World, repo: Repository) -> None:
    await tentative(world, repo)
    assert not (await world.branches.get(repo, DEV)).value.tentative
    item = await world.memory.get(repo.partition, branch_key(DEV))
    assert item is not None
    record = decode_branch(item.value)
    assert isinstance(record, Branch)
    assert not record.tentative


async def test_a_tentative_branch_on_a_condemned_commit_ends_as_a_tombstone(
    world: World, repo: Repository
) -> None:
    await condemn(world, repo, await tentative(world, repo))
    with pytest.raises(NotFoundError):
        await world.branches.get(repo, DEV)
    found = await world.branches.find(repo, DEV)
    assert found is not None
    assert isinstance(found.value, DeletedBranch)


async def test_a_listing_finishes_tentative_branches(world: World, repo: Repository) -> None:
    await tentative(world, repo)
    assert [b.tentative for b in (await world.branches.list(repo)).results] == [False]


async def test_a_listing_leaves_out_a_tentative_branch_whose_commit_is_condemned(
    world: World, repo: Repository
) -> None:
    await condemn(world, repo, await tentative(world, repo))
    assert (await world.branches.list(repo)).results == ()


async def test_a_creation_clears_a_dead_attempt_away(world: World, repo: Repository) -> None:
    await condemn(world, repo, await tentative(world, repo))
    created = await make(world, repo)
    assert created.created_by != "dead"


async def test_a_creation_finds_the_name_taken_by_an_attempt_it_finishes(
    world: World, repo: Repository
) -> None:
    await tentative(world, repo)
    with pytest.raises(AlreadyExistsError):
        await make(world, repo)


@pytest.mark.parametrize("fault", [Fault.LOST_REQUEST, Fault.LOST_REPLY, Fault.CONFLICT])
async def test_finishing_goes_on_whatever_gets_lost(world: World, repo: Repository, fault: Fault) -> None:
    await tentative(world, repo)

    async def once(_call: Call) -> Fault:
        world.kv.hook = None
        return fault

    world.kv.hook = once
    assert (await world.branches.get(repo, DEV)).value.created_by == "dead"


async def test_two_helpers_agree_on_what_won(world: World, repo: Repository) -> None:
    await tentative(world, repo)

    async def helper(_call: Call) -> None:
        world.kv.hook = None
        await world.branches.get(repo, DEV)

    world.kv.hook = helper
    assert not (await world.branches.get(repo, DEV)).value.tentative


async def test_a_helper_that_comes_too_late_finds_nothing(world: World, repo: Repository) -> None:
    commit_id = await tentative(world, repo)

    async def helper(_call: Call) -> None:
        world.kv.hook = None
        await condemn(world, repo, commit_id)
        with pytest.raises(NotFoundError):
            await world.branches.get(repo, DEV)

    world.kv.hook = helper
    with pytest.raises(NotFoundError):
        await world.branches.get(repo, DEV)


async def test_finishing_survives_a_swap_that_keeps_the_branch_tentative(
    world: World, repo: Repository
) -> None:
    await tentative(world, repo)

    async def drained(call: Call) -> None:
        world.kv.hook = None
        item = await world.memory.get(repo.partition, call.key)
        assert item is not None
        await world.memory.swap(repo.partition, call.key, item.value, expected=item.version)

    world.kv.hook = drained
    assert not (await world.branches.get(repo, DEV)).value.tentative


@pytest.mark.parametrize(
    ("fault", "kind"),
    [(Fault.CONFLICT, ErrorKind.TOO_MANY_RETRIES), (Fault.REFUSED, ErrorKind.STORE_UNAVAILABLE)],
)
async def test_finishing_that_never_succeeds_says_so(
    world: World, repo: Repository, fault: Fault, kind: ErrorKind
) -> None:
    await tentative(world, repo)

    async def always(_call: Call) -> Fault:
        return fault

    world.kv.hook = always
    with pytest.raises(LakebedError) as caught:
        await world.branches.get(repo, DEV)
    assert caught.value.kind is kind


async def test_a_tentative_branch_that_somebody_finished_and_deleted_is_unknown_to_its_creator(
    repo: Repository,
) -> None:
    world = World(fences=False)
    commit = await world.commit(repo)
    writes = 0

    async def meddler(call: Call) -> None:
        nonlocal writes
        writes += call.key == branch_key(DEV)
        if writes == 2:
            world.kv.hook = None
            await world.branches.get(repo, DEV)
            await world.branches.delete(repo, DEV)

    world.kv.hook = meddler
    with pytest.raises(UnavailableError) as caught:
        await world.branches.create(repo, DEV, commit.id)
    assert caught.value.kind is ErrorKind.OUTCOME_UNKNOWN


@pytest.mark.parametrize("fault", [Fault.REFUSED, Fault.CONFLICT])
async def test_a_creator_that_cannot_finish_its_tentative_branch_promises_nothing(
    repo: Repository, fault: Fault
) -> None:
    world = World(fences=False)
    commit = await world.commit(repo)
    writes = 0

    async def hook(call: Call) -> Fault | None:
        nonlocal writes
        writes += call.key == branch_key(DEV)
        return fault if writes > 1 else None

    world.kv.hook = hook
    with pytest.raises(UnavailableError) as caught:
        await world.branches.create(repo, DEV, commit.id)
    assert caught.value.kind is ErrorKind.OUTCOME_UNKNOWN
    world.restart()
    assert (await world.branches.get(repo, DEV)).value.commit_id == commit.id


async def test_a_tentative_branch_is_invisible_until_its_commit_was_read_again(repo: Repository) -> None:
    world = World(fences=False)
    commit = await world.commit(repo)
    seen: list[bool] = []

    async def watch(call: Call) -> None:
        item = await world.memory.get(repo.partition, call.key)
        if item is not None:
            record = decode_branch(item.value)
            assert isinstance(record, Branch)
            seen.append(record.tentative)

    world.kv.hook = watch
    await world.branches.create(repo, DEV, commit.id)
    assert seen == [True]


async def test_rows_are_fenced_on_the_staging_token_and_commit(repo: Repository) -> None:
    world = World()
    await make(world, repo)
    staged = await world.branches.update(repo, DEV, stage("t1"), landed=has("t1"))
    fence = world.branches.fence(repo, staged.value)
    both = world.branches.fence(repo, staged.value, commit=True)
    for each in (fence, both):
        await world.memory.set_rows("t1", [Row(b"k", b"v")], fence=each)

    commit = await world.commit(repo)
    await world.branches.update(
        repo, DEV, lambda b, _: replace(b, commit_id=commit.id), landed=lambda b: b.commit_id == commit.id
    )
    await world.memory.set_rows("t1", [Row(b"k", b"v")], fence=fence)
    with pytest.raises(ConflictError):
        await world.memory.set_rows("t1", [Row(b"k", b"v")], fence=both)

    await world.branches.update(repo, DEV, stage("t2"), landed=has("t2"))
    with pytest.raises(ConflictError):
        await world.memory.set_rows("t1", [Row(b"k", b"v")], fence=fence)


async def test_deleting_a_branch_loses_its_fences(repo: Repository) -> None:
    world = World()
    await make(world, repo)
    staged = await world.branches.update(repo, DEV, stage("t1"), landed=has("t1"))
    await world.branches.delete(repo, DEV)
    await make(world, repo)
    with pytest.raises(ConflictError):
        await world.memory.set_rows("t1", [Row(b"k", b"v")], fence=world.branches.fence(repo, staged.value))


async def test_listing_pages_in_order_of_name_without_hidden_and_deleted_ones(
    world: World, repo: Repository
) -> None:
    commit = await world.commit(repo)
    for name in ("a", "aa", "b-1", "b-2", "b-3", "c"):
        await world.branches.create(repo, BranchName(name), commit.id, hidden=name == "b-2")
    await world.branches.delete(repo, BranchName("a"))

    async def names(**query: object) -> tuple[list[str], bool]:
        page = await world.branches.list(repo, **query)
        return [b.name for b in page.results], page.has_more

    assert await names() == (["aa", "b-1", "b-3", "c"], False)
    assert await names(show_hidden=True) == (["aa", "b-1", "b-2", "b-3", "c"], False)
    assert await names(amount=1) == (["aa"], True)
    assert await names(after="b-1", amount=2) == (["b-3", "c"], False)
    assert await names(prefix="b-", after="b-1") == (["b-3"], False)
    assert await names(prefix="b-", after="a") == (["b-1", "b-3"], False)
    assert await names(prefix="x") == ([], False)


async def test_listing_by_commit_has_hidden_branches_and_no_deleted_ones(
    world: World, repo: Repository
) -> None:
    commits = sorted([(await world.commit(repo)).id, (await world.commit(repo)).id])
    for name, commit_id in (("z", commits[0]), ("a", commits[1]), ("m", commits[0]), ("gone", commits[0])):
        await world.branches.create(repo, BranchName(name), commit_id, hidden=name == "m")
    await world.branches.delete(repo, BranchName("gone"))
    assert [b.name for b in await world.branches.list_by_commit(repo)] == ["m", "z", "a"]
