import pytest

from lakebed.auth.arns import EVERYTHING
from lakebed.errors import AlreadyExistsError, ErrorKind, InvalidInputError, LakebedError, NotFoundError
from lakebed.limits import AUTH_LINKS_MAX
from lakebed.model.auth import acl_policy_id
from lakebed.refs.listing import Listing
from tests.unit.auth.world import START, World, allow, deny


def ids(page: Listing) -> list[str]:
    return [each.id for each in page.results]


async def fails(kind: ErrorKind, call) -> None:
    with pytest.raises(LakebedError) as caught:
        await call
    assert caught.value.kind is kind


async def test_a_user_is_what_was_created(world: World) -> None:
    created = await world.auth.users.create("ann@x.org", friendly_name="Ann", email="ann@x.org")
    assert created.created_at == START
    assert await world.auth.users.get("ann@x.org") == created
    assert (created.friendly_name, created.email, created.source) == ("Ann", "ann@x.org", "internal")


@pytest.mark.parametrize("bad", ["", "a/b", "a b", "a:b", "é", "*", "x" * 128, "a\n"])
async def test_an_id_that_breaks_the_rules_is_refused(world: World, bad: str) -> None:
    for call in (
        world.auth.users.create(bad),
        world.auth.groups.create(bad),
        world.auth.policies.create(bad, [allow("fs:*")]),
        world.auth.users.get(bad),
    ):
        with pytest.raises(InvalidInputError):
            await call


async def test_a_name_is_taken_once(world: World) -> None:
    auth = world.auth
    await auth.users.create("x")
    await auth.groups.create("x")
    await auth.policies.create("x", [allow("fs:*")])
    await fails(ErrorKind.USER_EXISTS, auth.users.create("x"))
    await fails(ErrorKind.GROUP_EXISTS, auth.groups.create("x"))
    await fails(ErrorKind.POLICY_EXISTS, auth.policies.create("x", [allow("fs:*")]))


async def test_what_does_not_exist_is_not_found(world: World) -> None:
    auth = world.auth
    await fails(ErrorKind.USER_NOT_FOUND, auth.users.get("x"))
    await fails(ErrorKind.USER_NOT_FOUND, auth.users.delete("x"))
    await fails(ErrorKind.USER_NOT_FOUND, auth.users.groups("x"))
    await fails(ErrorKind.GROUP_NOT_FOUND, auth.groups.get("x"))
    await fails(ErrorKind.GROUP_NOT_FOUND, auth.groups.delete("x"))
    await fails(ErrorKind.GROUP_NOT_FOUND, auth.groups.members("x"))
    await fails(ErrorKind.POLICY_NOT_FOUND, auth.policies.get("x"))
    await fails(ErrorKind.POLICY_NOT_FOUND, auth.policies.update("x", [allow("fs:*")]))
    await fails(ErrorKind.POLICY_NOT_FOUND, auth.policies.delete("x"))
    await auth.users.create("ann")
    await auth.groups.create("team")
    await fails(ErrorKind.GROUP_NOT_FOUND, auth.groups.add_member("x", "ann"))
    await fails(ErrorKind.USER_NOT_FOUND, auth.groups.add_member("team", "x"))
    await fails(ErrorKind.MEMBERSHIP_NOT_FOUND, auth.groups.remove_member("team", "ann"))
    await fails(ErrorKind.POLICY_NOT_FOUND, auth.attachments.attach_to_user("ann", "x"))
    await fails(ErrorKind.POLICY_NOT_FOUND, auth.attachments.attach_to_group("team", "x"))
    await auth.policies.create("p", [allow("fs:*")])
    await fails(ErrorKind.ATTACHMENT_NOT_FOUND, auth.attachments.detach_from_user("ann", "p"))
    await fails(ErrorKind.ATTACHMENT_NOT_FOUND, auth.attachments.detach_from_group("team", "p"))


async def test_pages_go_on_after_the_last_id_and_skip_what_was_deleted(world: World) -> None:
    users = world.auth.users
    for name in ["a1", "a2", "a3", "a4", "b1"]:
        await users.create(name)
    await users.delete("a2")
    first = await users.list(amount=2)
    assert (ids(first), first.has_more) == (["a1", "a3"], True)
    second = await users.list(amount=2, after="a3")
    assert (ids(second), second.has_more) == (["a4", "b1"], False)
    assert ids(await users.list(prefix="a", after="a1")) == ["a3", "a4"]
    assert ids(await users.list(prefix="c")) == []


async def test_every_list_has_pages(installed: World) -> None:
    auth = installed.auth
    groups = await auth.groups.list(amount=3)
    assert (ids(groups), groups.has_more) == (["Admins", "Developers", "SuperUsers"], True)
    assert ids(await auth.groups.list(after="SuperUsers")) == ["Viewers"]
    assert ids(await auth.policies.list(prefix="RepoManagement")) == [
        "RepoManagementFullAccess",
        "RepoManagementReadAll",
    ]
    for name in ["ann", "bob", "cyd"]:
        await auth.users.create(name)
        await auth.groups.add_member("Viewers", name)
    members = await auth.groups.members("Viewers", amount=2)
    assert (ids(members), members.has_more) == (["ann", "bob"], True)
    assert ids(await auth.groups.members("Viewers", after="bob")) == ["cyd"]
    await auth.groups.add_member("Developers", "ann")
    assert ids(await auth.users.groups("ann")) == ["Developers", "Viewers"]
    assert ids(await auth.users.groups("ann", after="Developers")) == ["Viewers"]
    mine = await auth.attachments.of_user("ann", effective=True, amount=2)
    assert (ids(mine), mine.has_more) == (["AuthManageOwnCredentials", "FSReadAll"], True)
    assert ids(await auth.attachments.of_group("Viewers", prefix="FS")) == ["FSReadAll"]
    keys = [(await auth.credentials.create("ann")).id for _ in range(3)]
    assert ids(await auth.credentials.list("ann")) == sorted(keys)
    assert ids(await auth.credentials.list("ann", after=min(keys), amount=1)) == [sorted(keys)[1]]


async def test_members_come_and_go(world: World) -> None:
    auth = world.auth
    await auth.groups.create("team", description="us")
    await auth.users.create("ann")
    await auth.groups.add_member("team", "ann")
    await fails(ErrorKind.MEMBERSHIP_EXISTS, auth.groups.add_member("team", "ann"))
    assert ids(await auth.groups.members("team")) == ["ann"]
    await auth.groups.remove_member("team", "ann")
    assert ids(await auth.groups.members("team")) == []
    assert ids(await auth.users.groups("ann")) == []


async def test_effective_policies_are_ones_own_and_those_of_ones_groups_each_once(world: World) -> None:
    auth = world.auth
    for name in ["own", "shared", "theirs"]:
        await auth.policies.create(name, [allow("fs:*")])
    await auth.users.create("ann")
    for name in ["g1", "g2"]:
        await auth.groups.create(name)
        await auth.groups.add_member(name, "ann")
        await auth.attachments.attach_to_group(name, "shared")
    await auth.attachments.attach_to_group("g2", "theirs")
    await auth.attachments.attach_to_user("ann", "own")
    await auth.attachments.attach_to_user("ann", "shared")
    await fails(ErrorKind.ATTACHMENT_EXISTS, auth.attachments.attach_to_user("ann", "own"))
    await fails(ErrorKind.ATTACHMENT_EXISTS, auth.attachments.attach_to_group("g2", "theirs"))
    assert ids(await auth.attachments.of_user("ann")) == ["own", "shared"]
    assert ids(await auth.attachments.of_user("ann", effective=True)) == ["own", "shared", "theirs"]
    await auth.attachments.detach_from_group("g2", "theirs")
    await auth.attachments.detach_from_user("ann", "shared")
    assert ids(await auth.attachments.of_user("ann")) == ["own"]
    assert ids(await auth.attachments.of_user("ann", effective=True)) == ["own", "shared"]


async def test_an_updated_policy_stays_attached(world: World) -> None:
    auth = world.auth
    before = await auth.policies.create("p", [allow("fs:*")])
    await auth.users.create("ann")
    await auth.attachments.attach_to_user("ann", "p")
    after = await auth.policies.update("p", [deny("fs:*")])
    assert after.created_at == before.created_at
    assert (await auth.attachments.of_user("ann")).results == (after,)


async def test_a_namesake_inherits_nothing(world: World) -> None:
    auth = world.auth
    await auth.users.create("ann")
    await auth.groups.create("team")
    await auth.policies.create("p", [allow("fs:*")])
    await auth.groups.add_member("team", "ann")
    await auth.attachments.attach_to_user("ann", "p")
    await auth.attachments.attach_to_group("team", "p")
    key = (await auth.credentials.create("ann")).id

    await auth.policies.delete("p")
    await auth.policies.create("p", [allow("*")])
    assert ids(await auth.attachments.of_user("ann", effective=True)) == []
    await auth.attachments.attach_to_group("team", "p")

    await auth.groups.delete("team")
    await auth.groups.create("team")
    await auth.attachments.attach_to_group("team", "p")
    assert ids(await auth.groups.members("team")) == []
    assert ids(await auth.users.groups("ann")) == []
    assert ids(await auth.attachments.of_user("ann", effective=True)) == []
    await auth.groups.add_member("team", "ann")
    assert ids(await auth.attachments.of_user("ann", effective=True)) == ["p"]
    assert len((await auth.users.get("ann")).groups) == 1

    await auth.users.delete("ann")
    await auth.users.create("ann")
    assert ids(await auth.users.groups("ann")) == []
    assert ids(await auth.groups.members("team")) == []
    assert ids(await auth.attachments.of_user("ann", effective=True)) == []
    assert ids(await auth.credentials.list("ann")) == []
    await fails(ErrorKind.ACCESS_KEY_NOT_FOUND, auth.credentials.get("ann", key))


async def test_what_grows_with_one_user_has_a_limit(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    assert AUTH_LINKS_MAX >= 100
    monkeypatch.setattr("lakebed.auth.links.AUTH_LINKS_MAX", 2)
    monkeypatch.setattr("lakebed.auth.credentials.AUTH_LINKS_MAX", 2)
    auth = world.auth
    await auth.users.create("ann")
    for number in range(2):
        await auth.groups.create(f"g{number}")
        await auth.groups.add_member(f"g{number}", "ann")
        await auth.credentials.create("ann")
    await auth.groups.create("g2")
    await fails(ErrorKind.TOO_LARGE, auth.groups.add_member("g2", "ann"))
    await fails(ErrorKind.TOO_LARGE, auth.credentials.create("ann"))


async def test_the_policy_of_an_acl_goes_with_its_group_and_cannot_be_made_by_hand(world: World) -> None:
    auth = world.auth
    group = await auth.groups.create("team")
    name = acl_policy_id(group.id)
    with pytest.raises(InvalidInputError):
        await auth.policies.create(name, [allow("fs:*", resource=EVERYTHING)])
    with pytest.raises(NotFoundError):
        await auth.policies.get(name)


async def test_an_error_is_of_the_class_of_its_remedy(world: World) -> None:
    await world.auth.users.create("ann")
    with pytest.raises(AlreadyExistsError):
        await world.auth.users.create("ann")
    with pytest.raises(NotFoundError):
        await world.auth.users.get("bob")
