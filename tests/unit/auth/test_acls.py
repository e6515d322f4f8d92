import pytest

from lakebed.auth.actions import Action
from lakebed.auth.arns import branch_arn, object_arn, repository_arn, user_arn
from lakebed.auth.caller import Caller
from lakebed.errors import ErrorKind, InvalidInputError, LakebedError, NotFoundError
from lakebed.model.auth import Acl, AclPermission, acl_policy_id
from tests.unit.auth.world import World, allow

LAKE, SEA = repository_arn("lake"), repository_arn("sea")


async def member_of(world: World, group: str) -> Caller:
    """A new user who is in that group only."""
    name = f"member-of-{group}"
    await world.auth.users.create(name)
    await world.auth.groups.add_member(group, name)
    key = await world.auth.credentials.create(name)
    return await world.auth.authenticator.basic(key.id, key.secret_access_key)


async def with_acl(world: World, acl: Acl) -> Caller:
    await world.auth.groups.create("team")
    await world.auth.acls.set("team", acl)
    return await member_of(world, "team")


@pytest.mark.parametrize(
    ("group", "may", "may_not"),
    [
        (
            "Admins",
            [Action.DELETE_REPOSITORY, Action.CREATE_USER, Action.SET_GC_RULES, Action.WRITE_PULL_REQUEST],
            [],
        ),
        (
            "SuperUsers",
            [Action.DELETE_REPOSITORY, Action.IMPORT_FROM_STORAGE, Action.GET_GC_RULES, Action.READ_ACTION],
            [Action.CREATE_USER, Action.SET_GC_RULES, Action.SET_BRANCH_PROTECTION_RULES],
        ),
        (
            "Developers",
            [Action.WRITE_OBJECT, Action.CREATE_COMMIT, Action.READ_COMMIT, Action.GET_GC_RULES],
            [
                Action.CREATE_REPOSITORY,
                Action.IMPORT_FROM_STORAGE,
                Action.ATTACH_STORAGE_NAMESPACE,
                Action.CREATE_USER,
            ],
        ),
        (
            "Viewers",
            [Action.READ_OBJECT, Action.LIST_OBJECTS, Action.READ_PULL_REQUEST, Action.READ_CONFIG],
            [Action.WRITE_OBJECT, Action.CREATE_BRANCH, Action.WRITE_PULL_REQUEST, Action.READ_USER],
        ),
    ],
)
async def test_the_usual_groups_may_what_they_are_for(
    installed: World, group: str, may: list[Action], may_not: list[Action]
) -> None:
    caller = await member_of(installed, group)
    assert [action for action in may if not caller.may(action, LAKE)] == []
    assert [action for action in may_not if caller.may(action, LAKE)] == []
    assert caller.may(Action.CREATE_CREDENTIALS, user_arn(caller.id))
    assert caller.may(Action.CREATE_CREDENTIALS, user_arn("admin")) is (group == "Admins")


@pytest.mark.parametrize(
    ("group", "permission"),
    [
        ("Admins", AclPermission.ADMIN),
        ("SuperUsers", AclPermission.SUPER),
        ("Developers", AclPermission.WRITE),
        ("Viewers", AclPermission.READ),
    ],
)
async def test_the_usual_groups_have_an_acl_from_the_start(
    installed: World, group: str, permission: AclPermission
) -> None:
    assert await installed.auth.acls.get(group) == Acl(permission=permission)


@pytest.mark.parametrize("permission", AclPermission)
async def test_an_acl_allows_what_the_usual_group_of_its_kind_may(
    installed: World, permission: AclPermission
) -> None:
    usual = {"Admin": "Admins", "Super": "SuperUsers", "Write": "Developers", "Read": "Viewers"}[permission]
    ours, theirs = await with_acl(installed, Acl(permission=permission)), await member_of(installed, usual)
    for action in Action:
        assert ours.may(action, LAKE) == theirs.may(action, LAKE), action
        assert ours.may(action, "*") == theirs.may(action, "*"), action


@pytest.mark.parametrize("permission", [AclPermission.READ, AclPermission.WRITE, AclPermission.SUPER])
async def test_an_acl_on_some_repositories_is_for_those_and_what_is_in_them(
    world: World, permission: AclPermission
) -> None:
    acl = Acl(permission=permission, repositories=("lake",))
    caller = await with_acl(world, acl)
    assert await world.auth.acls.get("team") == acl
    assert caller.may(Action.READ_REPOSITORY, LAKE)
    assert caller.may(Action.READ_OBJECT, object_arn("lake", "a/b"))
    assert caller.may(Action.READ_CONFIG, "*")
    assert not caller.may(Action.READ_REPOSITORY, SEA)
    assert not caller.may(Action.READ_OBJECT, object_arn("lake2", "a"))
    assert caller.may(Action.CREATE_COMMIT, branch_arn("lake", "main")) is (
        permission is not AclPermission.READ
    )


async def test_setting_an_acl_takes_everything_else_off_the_group(installed: World) -> None:
    caller = await member_of(installed, "Admins")
    assert caller.may(Action.CREATE_USER, "*")
    await installed.auth.acls.set("Admins", Acl(permission=AclPermission.READ))
    policies = (await installed.auth.attachments.of_group("Admins")).results
    assert [policy.id for policy in policies] == ["ACL(Admins)"]
    effective = (await installed.auth.attachments.of_user(caller.id, effective=True)).results
    assert [policy.id for policy in effective] == ["ACL(Admins)"]
    await installed.auth.acls.set("Admins", Acl(permission=AclPermission.SUPER))
    assert await installed.auth.acls.get("Admins") == Acl(permission=AclPermission.SUPER)


async def test_a_group_with_other_policies_has_no_acl(installed: World) -> None:
    await installed.auth.groups.create("team")
    for change in (None, "FSReadAll"):
        if change:
            await installed.auth.attachments.attach_to_group("team", change)
        with pytest.raises(NotFoundError) as caught:
            await installed.auth.acls.get("team")
        assert caught.value.kind is ErrorKind.ACL_NOT_FOUND


async def test_an_acl_edited_as_a_policy_is_none_any_more(world: World) -> None:
    await with_acl(world, Acl(permission=AclPermission.READ))
    group = await world.auth.groups.get("team")
    await world.auth.policies.update(acl_policy_id(group.id), [allow("fs:ReadObject")])
    with pytest.raises(NotFoundError):
        await world.auth.acls.get("team")
    await world.auth.groups.delete("team")
    with pytest.raises(NotFoundError):
        await world.auth.policies.get(acl_policy_id(group.id))


@pytest.mark.parametrize(
    "acl",
    [
        Acl(permission=AclPermission.ADMIN, repositories=("lake",)),
        Acl(permission=AclPermission.READ, repositories=()),
        Acl(permission=AclPermission.READ, repositories=("Not A Name",)),
        Acl(permission=AclPermission.READ, repositories=("lake*",)),
    ],
)
async def test_an_acl_that_means_nothing_is_refused(world: World, acl: Acl) -> None:
    await world.auth.groups.create("team")
    with pytest.raises(InvalidInputError):
        await world.auth.acls.set("team", acl)


async def test_an_acl_needs_its_group(world: World) -> None:
    for call in (world.auth.acls.get("x"), world.auth.acls.set("x", Acl(permission=AclPermission.READ))):
        with pytest.raises(LakebedError) as caught:
            await call
        assert caught.value.kind is ErrorKind.GROUP_NOT_FOUND
