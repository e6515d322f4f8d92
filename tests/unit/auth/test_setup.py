import asyncio

import pytest

from lakebed.auth.actions import Action
from lakebed.auth.roles import USUAL_GROUPS, USUAL_POLICIES
from lakebed.errors import AlreadyExistsError, ErrorKind, InvalidInputError, UnavailableError
from lakebed.kv.wrappers.faults import FaultyKV, LostRequest, Operation
from lakebed.model.auth import KeyPair
from tests.unit.auth.world import PAIR, World


async def test_before_set_up_there_is_nothing_and_nobody_gets_in(world: World) -> None:
    assert not await world.auth.setup.is_set_up()
    assert await world.auth.setup.installation() is None
    await world.auth.setup.require_key()
    assert (await world.auth.users.list()).results == ()


async def test_set_up_makes_an_administrator_with_the_given_pair(world: World) -> None:
    issued = await world.auth.setup.set_up("admin", pair=PAIR, email="a@x.org")
    assert (issued.id, issued.secret_access_key) == (PAIR.access_key_id, PAIR.secret_access_key)
    caller = await world.auth.authenticator.basic(PAIR.access_key_id, PAIR.secret_access_key)
    assert (caller.id, caller.committer) == ("admin", "a@x.org")
    for action in Action:
        caller.require(action, "*")
    installation = await world.auth.setup.installation()
    assert installation is not None
    assert len(installation.id) == 20


async def test_set_up_without_a_pair_makes_one_of_the_usual_form(world: World) -> None:
    issued = await world.auth.setup.set_up("admin")
    assert issued.id.startswith("AKIAJ")
    assert issued.id.endswith("Q")
    assert (len(issued.id), len(issued.secret_access_key)) == (20, 40)
    assert (await world.auth.authenticator.basic(issued.id, issued.secret_access_key)).committer == "admin"


async def test_the_usual_groups_and_policies_are_there_afterwards(installed: World) -> None:
    policies = (await installed.auth.policies.list()).results
    assert {policy.id: policy.statements for policy in policies} == dict(USUAL_POLICIES)
    for group in (await installed.auth.groups.list()).results:
        attached = (await installed.auth.attachments.of_group(group.id)).results
        assert tuple(policy.id for policy in attached) == USUAL_GROUPS[group.id]


async def test_set_up_happens_once(installed: World) -> None:
    with pytest.raises(AlreadyExistsError) as caught:
        await installed.process().setup.set_up("other")
    assert caught.value.kind is ErrorKind.ALREADY_SET_UP
    assert [user.id for user in (await installed.auth.users.list()).results] == ["admin"]


async def test_of_many_processes_that_set_up_one_wins_and_nothing_of_the_others_is_left(world: World) -> None:
    names = [f"admin{number}" for number in range(8)]
    answers = await asyncio.gather(
        *(world.interleaved(seed).setup.set_up(name) for seed, name in enumerate(names)),
        return_exceptions=True,
    )
    won = [answer for answer in answers if not isinstance(answer, BaseException)]
    assert len(won) == 1
    assert all(isinstance(answer, AlreadyExistsError) for answer in answers if answer is not won[0])
    assert [user.id for user in (await world.auth.users.list()).results] == [won[0].user]
    assert (await world.auth.authenticator.basic(won[0].id, won[0].secret_access_key)).id == won[0].user


async def test_a_set_up_that_did_not_come_through_leaves_nothing(world: World) -> None:
    kv = FaultyKV(
        world.kv,
        plan=lambda call: LostRequest() if call.operation is Operation.SET_ROWS else None,
        clock=world.clock,
    )
    with pytest.raises(UnavailableError):
        await world.process(kv=kv).setup.set_up("admin")
    assert await world.stored_bytes() == b""
    await world.auth.setup.set_up("admin")


async def test_a_process_with_another_key_is_told(installed: World) -> None:
    await installed.auth.setup.require_key()
    with pytest.raises(InvalidInputError, match="set up with another key") as caught:
        await installed.process(key=b"another key of that length, 32 b").setup.require_key()
    assert caught.value.kind is ErrorKind.INVALID_CONFIG


def test_a_short_key_is_refused(world: World) -> None:
    with pytest.raises(InvalidInputError, match="at least 16"):
        world.process(key=b"short")


@pytest.mark.parametrize(
    "pair",
    [
        KeyPair(access_key_id="", secret_access_key="s3cr3t-text"),
        KeyPair(access_key_id="a:b", secret_access_key="s3cr3t-text"),
        KeyPair(access_key_id="AKIA", secret_access_key=""),
        KeyPair(access_key_id="AKIA", secret_access_key="s3cr3t-text\n"),
        KeyPair(access_key_id="AKIA", secret_access_key="s3cr3t-text" * 1000),
    ],
)
async def test_a_pair_that_nobody_could_send_is_refused_without_repeating_it(
    world: World, pair: KeyPair
) -> None:
    with pytest.raises(InvalidInputError) as caught:
        await world.auth.setup.set_up("admin", pair=pair)
    assert "s3cr3t" not in str(caught.value)
    assert not await world.auth.setup.is_set_up()
