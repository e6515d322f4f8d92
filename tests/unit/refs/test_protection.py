import hashlib

import pytest

from lakebed.errors import ConflictError, ErrorKind, InvalidInputError, PreconditionError
from lakebed.model.ids import BranchName
from lakebed.model.repository import BranchProtection, Repository
from lakebed.refs.keys import PROTECTION_KEY
from lakebed.refs.protection import COMMIT, STAGING_WRITE, matches
from tests.unit.refs.world import Call, Fault, World

MAIN = BranchProtection(rules={"main": (COMMIT, STAGING_WRITE)})
RELEASES = BranchProtection(rules={"release-*": (STAGING_WRITE,)})


@pytest.mark.parametrize(
    ("pattern", "branch", "expected"),
    [
        ("main", "main", True),
        ("main", "main2", False),
        ("main", "Main", False),
        ("*", "anything", True),
        ("release-*", "release-1-x", True),
        ("release-*", "a-release-1", False),
        ("v?", "v1", True),
        ("v?", "v10", False),
        ("v[0-9]", "v7", True),
        ("v[!0-9]", "v7", False),
        ("{main,dev}", "dev", True),
        ("{main,dev}", "prod", False),
        ("{a,b{c,d}}-x", "bd-x", True),
        ("{a,b{c,d}}-x", "b-x", False),
        ("{open", "{open", True),
    ],
)
def test_a_pattern_is_a_glob(pattern: str, branch: str, expected: bool) -> None:
    assert matches(pattern, branch) is expected


async def test_without_rules_nothing_is_protected_and_the_etag_is_empty(
    world: World, repo: Repository
) -> None:
    assert await world.protection.get(repo) == (BranchProtection(), "")
    assert not await world.protection.is_protected(repo, BranchName("main"), COMMIT)


async def test_rules_block_the_actions_they_name_on_the_branches_they_match(
    world: World, repo: Repository
) -> None:
    await world.protection.set(repo, BranchProtection(rules={**MAIN.rules, **RELEASES.rules}))

    async def blocked(branch: str, action: str) -> bool:
        return await world.protection.is_protected(repo, BranchName(branch), action)

    assert await blocked("main", COMMIT)
    assert await blocked("main", STAGING_WRITE)
    assert await blocked("release-1", STAGING_WRITE)
    assert not await blocked("release-1", COMMIT)
    assert not await blocked("dev", COMMIT)


async def test_the_etag_is_the_hash_of_what_is_stored(world: World, repo: Repository) -> None:
    await world.protection.set(repo, MAIN)
    item = await world.memory.get(repo.partition, PROTECTION_KEY)
    assert item is not None
    assert await world.protection.get(repo) == (MAIN, hashlib.sha256(item.value).hexdigest())


async def test_if_match_lets_two_editors_notice_each_other(world: World, repo: Repository) -> None:
    await world.protection.set(repo, MAIN, if_match="")
    with pytest.raises(PreconditionError) as caught:
        await world.protection.set(repo, RELEASES, if_match="")
    assert caught.value.kind is ErrorKind.CONDITION_FAILED
    _, etag = await world.protection.get(repo)
    await world.protection.set(repo, RELEASES, if_match=etag)
    with pytest.raises(PreconditionError):
        await world.protection.set(repo, MAIN, if_match=etag)
    assert (await world.protection.get(repo))[0] == RELEASES
    await world.protection.set(repo, MAIN)
    assert (await world.protection.get(repo))[0] == MAIN


async def test_if_match_holds_against_an_editor_who_comes_in_between(world: World, repo: Repository) -> None:
    async def rival(_call: Call) -> None:
        world.kv.hook = None
        await world.protection.set(repo, RELEASES)

    world.kv.hook = rival
    with pytest.raises(PreconditionError):
        await world.protection.set(repo, MAIN, if_match="")
    assert (await world.protection.get(repo))[0] == RELEASES


async def test_rules_that_never_get_written_say_so(world: World, repo: Repository) -> None:
    async def always(_call: Call) -> Fault:
        return Fault.CONFLICT

    world.kv.hook = always
    with pytest.raises(ConflictError) as caught:
        await world.protection.set(repo, MAIN)
    assert caught.value.kind is ErrorKind.TOO_MANY_RETRIES


@pytest.mark.parametrize("fault", [Fault.LOST_REPLY, Fault.LOST_REQUEST])
async def test_rules_are_set_whatever_gets_lost(world: World, repo: Repository, fault: Fault) -> None:
    async def once(_call: Call) -> Fault:
        world.kv.hook = None
        return fault

    world.kv.hook = once
    await world.protection.set(repo, MAIN, if_match="")
    assert (await world.protection.get(repo))[0] == MAIN


@pytest.mark.parametrize("rules", [{"": (COMMIT,)}, {"main": ("dance",)}, {"{a,b}" * 7: (COMMIT,)}])
async def test_rules_that_mean_nothing_are_refused(
    world: World, repo: Repository, rules: dict[str, tuple[str, ...]]
) -> None:
    with pytest.raises(InvalidInputError) as caught:
        await world.protection.set(repo, BranchProtection(rules=rules))
    assert caught.value.kind is ErrorKind.INVALID_ARGUMENT
