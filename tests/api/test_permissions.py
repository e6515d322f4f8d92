"""Who may do what: the table's word, compared with what the server does."""

from dataclasses import replace

import msgspec
import pytest

from lakebed.api.operation import Access, Operation
from lakebed.api.table import OPERATIONS
from lakebed.auth.caller import DENIED_TEXT, UNAUTHENTICATED_TEXT
from lakebed.auth.decisions import Permissions
from lakebed.auth.statements import StatementDocument
from lakebed.testing.asgi import Answer, AsgiClient
from lakebed.testing.rest import Rest
from tests.api.samples import Sample, sample

ROLES = ("Admins", "SuperUsers", "Developers", "Viewers", "nobody")

# What takes the ground from under the other requests comes last.
LAST = ("setGroupACL", "deleteGroup", "deletePolicy", "deleteUser", "deleteBranch", "deleteRepository")


def _order(operation: Operation) -> int:
    return LAST.index(operation.id) + 1 if operation.id in LAST else 0


SAMPLES = [sample(operation) for operation in sorted(OPERATIONS, key=_order)]


async def _furnish(rest: Rest) -> None:
    """Give the requests something to find."""
    await rest.lake.commit("main", **{"a/b": "content"})
    await rest.lake.catalog.branches.create("lake", "feature", "main")
    await rest.lake.catalog.tags.create("lake", "v1", "main")
    await rest.auth.users.create("somebody")
    await rest.auth.groups.create("somegroup")


def _is_denied(sent: Sample, answer: Answer) -> bool:
    if sent.operation.id == "deleteObjects" and answer.status == 200:
        # It answers for each path.
        return [error["message"] for error in answer.json()["errors"]] == [DENIED_TEXT]
    return answer.status == 401 and (sent.operation.method == "HEAD" or answer.message == DENIED_TEXT)


@pytest.mark.parametrize("role", ROLES)
async def test_a_role_may_do_what_the_table_says_and_nothing_else(rest: Rest, role: str) -> None:
    await _furnish(rest)
    client = await rest.user("tester", *([] if role == "nobody" else [role]))
    policies = (await rest.auth.attachments.of_user("tester", effective=True, amount=1000)).results
    permissions = Permissions(policies, user="tester")
    for each in SAMPLES:
        expected = each.operation.access is Access.USERS and not all(
            permissions.may(asked.action, each.resource(asked.resource))
            for asked in each.operation.permissions
        )
        answer = await each.send(client)
        assert _is_denied(each, answer) == expected, (each.operation.id, answer)
        assert answer.status < 500 or answer.status == 501, (each.operation.id, answer)


async def test_every_answer_is_one_that_the_table_declares(rest: Rest) -> None:
    await _furnish(rest)
    for each in SAMPLES:
        answer = await each.send(rest.admin)
        if answer.status >= 400:
            assert each.operation.method == "HEAD" or answer.message, each.operation.id
            continue
        assert answer.status in each.operation.replies, (each.operation.id, answer)
        kind = each.operation.replies[answer.status]
        if kind is None:
            assert answer.body == b"", each.operation.id
        elif kind not in (bytes, str):
            msgspec.json.decode(answer.body, type=kind)


async def test_exactly_what_the_table_asks_for_is_enough_and_all_of_it_is_needed(rest: Rest) -> None:
    await _furnish(rest)
    client = await rest.user("exact")
    await rest.auth.policies.create("Exact", [_allow("fs:ReadConfig", "*")])
    await rest.auth.attachments.attach_to_user("exact", "Exact")
    for each in SAMPLES:
        asked = [(one.action, each.resource(one.resource)) for one in each.operation.permissions]
        for missing in range(len(asked) + 1):
            given = [_allow(*one) for at, one in enumerate(asked) if at != missing]
            # A policy has at least one statement.
            await rest.auth.policies.update("Exact", given or [_allow("ci:Nothing", "*")])
            denied = _is_denied(each, await each.send(client))
            assert denied == (missing < len(asked)), (each.operation.id, asked, missing)


def _allow(action: str, resource: str) -> StatementDocument:
    return StatementDocument(effect="allow", action=[action], resource=resource)


async def test_without_credentials_only_the_way_in_is_open(rest: Rest) -> None:
    await _furnish(rest)
    for each in SAMPLES:
        answer = await each.send(rest.anonymous)
        if each.operation.access is Access.ANYONE:
            assert answer.status != 401 or each.operation.id == "login", each.operation.id
        else:
            assert answer.status == 401, each.operation.id
            assert each.operation.method == "HEAD" or answer.message == UNAUTHENTICATED_TEXT


async def test_before_set_up_only_health_and_set_up_are_open(rest: Rest) -> None:
    open_ids = {each.id for each in OPERATIONS if each.access is Access.ANYONE}
    assert open_ids == {
        "getSetupState",
        "setup",
        "setupCommPrefs",
        "login",
        "getAuthCapabilities",
        "externalPrincipalLogin",
        "stsLogin",
        "oauthCallback",
        "healthCheck",
    }


async def test_nobody_is_told_whether_a_repository_exists(rest: Rest) -> None:
    await _furnish(rest)
    client = await rest.user("nobody")
    asked = [each for each in SAMPLES if "repository" in each.path]
    assert len(asked) > 80
    for each in asked:
        there = await each.send(client)
        missing = await replace(each, path={**each.path, "repository": "lakf"}).send(client)
        assert (there.status, there.body) == (missing.status, missing.body), each.operation.id


def test_every_operation_on_a_repository_asks_for_a_permission() -> None:
    free = {each.id for each in OPERATIONS if not each.permissions and each.access is Access.USERS}
    assert free == {
        "listRepositories",
        "getCurrentUser",
        "getConfig",
        "getLakeFSVersion",
        "getGarbageCollectionConfig",
        "postStatsEvents",
    }


async def test_people_manage_their_own_access_keys_and_no_others(rest: Rest) -> None:
    client: AsgiClient = await rest.user("viewer", "Viewers")
    made = await client("POST", "/auth/users/viewer/credentials")
    assert made.status == 201
    listed = await client("GET", "/auth/users/viewer/credentials")
    assert made.json()["access_key_id"] in [key["access_key_id"] for key in listed.json()["results"]]
    refused = await client("POST", "/auth/users/admin/credentials")
    assert (refused.status, refused.message) == (401, DENIED_TEXT)
