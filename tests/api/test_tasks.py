"""What outlives its request: commits, merges, dumps; and stashes."""

import asyncio
from typing import Any

import pytest

from lakebed.auth.statements import StatementDocument
from lakebed.catalog.tasks import Tasks
from lakebed.format.tasks import encode_task
from lakebed.kv.port import Expect
from lakebed.limits import GRACE_SECONDS, TASK_DEAD_SECONDS, TASK_LIFETIME_SECONDS
from lakebed.model.ids import Nonce
from lakebed.model.tasks import Task, TaskState
from lakebed.refs.keys import task_key
from lakebed.testing.asgi import AsgiClient
from lakebed.testing.rest import Rest, open_rest
from tests.api.later import Later

REPO = "/repositories/lake"


async def _ended(client: AsgiClient, path: str, *, flag: str, query: dict[str, Any] | None = None) -> Any:
    """Ask until the task has ended."""
    while True:
        answer = await client("GET", path, query=query or {})
        assert answer.status == 200
        if answer.json()[flag]:
            return answer.json()
        await asyncio.sleep(0)


async def test_a_commit_in_the_background_ends_with_the_commit(rest: Rest) -> None:
    await rest.lake.put("main", a="1")
    path = f"{REPO}/branches/main/commits/async"
    started = await rest.admin("POST", path, json={"message": "later"})
    assert started.status == 202
    status = await _ended(rest.admin, f"{path}/{started.json()['id']}/status", flag="completed")
    assert status["result"]["message"] == "later"
    assert (await rest.lake.catalog.branches.get("lake", "main")).commit_id == status["result"]["id"]


async def test_a_commit_of_nothing_in_the_background_says_what_it_would_have_said(rest: Rest) -> None:
    path = f"{REPO}/branches/main/commits/async"
    started = await rest.admin("POST", path, json={"message": "nothing"})
    status = await _ended(rest.admin, f"{path}/{started.json()['id']}/status", flag="completed")
    assert status["status_code"] == 400
    assert "no changes" in status["error"]["message"]


async def test_a_merge_in_the_background_ends_with_its_commit_or_a_conflict(rest: Rest) -> None:
    await rest.lake.commit("main", a="base")
    for name in ("one", "two"):
        await rest.lake.catalog.branches.create("lake", name, "main")
        await rest.lake.commit(name, a=name)
    outcomes = []
    for name in ("one", "two"):
        path = f"{REPO}/refs/{name}/merge/main/async"
        started = await rest.admin("POST", path)
        outcomes.append(await _ended(rest.admin, f"{path}/{started.json()['id']}/status", flag="completed"))
    assert outcomes[0]["result"]["reference"] == (await rest.lake.catalog.commits.get("lake", "main")).id
    assert outcomes[1]["status_code"] == 409
    assert await rest.lake.show("main") == {"a": "one"}


@pytest.mark.parametrize(
    ("kind", "path", "query"),
    [
        ("import", "/branches/{}/import", {"id": "t1"}),
        ("commit", "/branches/{}/commits/async/t1/status", {}),
        ("merge", "/refs/main/merge/{}/async/t1/status", {}),
    ],
)
async def test_a_task_is_shown_under_its_own_branch_only(
    rest: Rest, kind: str, path: str, query: dict[str, str]
) -> None:
    now = await rest.lake.kv.now()
    task = Task(
        id=Nonce("t1"), kind=kind, state=TaskState.RUNNING, started_at=now, updated_at=now, branch="main"
    )
    key = task_key(task.id)
    await rest.lake.kv.swap(rest.lake.repo.partition, key, encode_task(task), expected=Expect.ABSENT)
    for branch, status in (("main", 200), ("other", 404)):
        answer = await rest.admin("GET", REPO + path.format(branch), query=query)
        assert answer.status == status, branch
    if kind == "import":
        assert (await rest.admin("DELETE", REPO + path.format("other"), query=query)).status == 404
        assert (await rest.admin("DELETE", REPO + path.format("main"), query=query)).status == 204


async def test_what_is_wrong_with_a_task_is_said_at_once(admin: AsgiClient) -> None:
    body = {"message": "x"}
    assert (await admin("POST", f"{REPO}/branches/none/commits/async", json=body)).status == 404
    assert (await admin("POST", f"{REPO}/refs/none/merge/main/async")).status == 404
    assert (await admin("GET", f"{REPO}/branches/main/commits/async/none/status")).status == 404


async def test_refs_are_dumped_and_restored_elsewhere_in_the_background(rest: Rest) -> None:
    commit = await rest.lake.commit("main", a="1")
    await rest.lake.catalog.tags.create("lake", "v1", "main")
    started = (await rest.admin("POST", f"{REPO}/dump")).json()
    dumped = await _ended(rest.admin, f"{REPO}/dump", flag="done", query={"task_id": started["id"]})
    at_once = (await rest.admin("PUT", f"{REPO}/refs/dump")).json()
    assert set(dumped["refs"]) == set(at_once)
    # Trees stay where they are, so refs come back to the same namespace only; a full one is refused.
    refused = await rest.admin("PUT", f"{REPO}/refs/restore", json=dumped["refs"])
    assert refused.status == 400
    restored = (await rest.admin("POST", f"{REPO}/restore", json=dumped["refs"])).json()
    status = await _ended(rest.admin, f"{REPO}/restore", flag="done", query={"task_id": restored["id"]})
    assert status["error"]
    assert (await rest.lake.catalog.commits.get("lake", "v1")).id == commit


async def test_refs_come_back_into_a_bare_repository_in_the_same_place() -> None:
    clock = Later()
    async with open_rest(clock=clock) as rest:
        commit = await rest.lake.commit("main", a="1")
        await rest.lake.catalog.tags.create("lake", "v1", "main")
        await rest.lake.catalog.branches.create("lake", "dev", "main")
        refs = (await rest.admin("PUT", f"{REPO}/refs/dump")).json()
        assert (await rest.admin("DELETE", REPO)).status == 204
        clock.ahead = GRACE_SECONDS + 60
        await rest.lake.cleaner.clean_once()
        for name in ("at-once", "later"):
            body = {"name": name, "storage_namespace": "mem://lake"}
            created = await rest.admin("POST", "/repositories", query={"bare": "true"}, json=body)
            assert created.status == 201
            repo = f"/repositories/{name}"
            assert (await rest.admin("GET", f"{repo}/branches")).json()["results"] == []
            if name == "at-once":
                restored = await rest.admin("PUT", f"{repo}/refs/restore", json=refs)
                assert (restored.status, restored.body) == (200, b"")
            else:
                task = (await rest.admin("POST", f"{repo}/restore", json=refs)).json()
                status = await _ended(
                    rest.admin, f"{repo}/restore", flag="done", query={"task_id": task["id"]}
                )
                assert "error" not in status or status["error"] is None
            branches = (await rest.admin("GET", f"{repo}/branches")).json()["results"]
            assert branches == [{"id": "dev", "commit_id": commit}, {"id": "main", "commit_id": commit}]
            tags = (await rest.admin("GET", f"{repo}/tags")).json()["results"]
            assert tags == [{"id": "v1", "commit_id": commit}]
            found = await rest.admin("GET", f"{repo}/refs/v1/objects", query={"path": "a"})
            assert (found.status, found.body) == (200, b"1")
            assert (await rest.admin("DELETE", repo)).status == 204
            clock.ahead += GRACE_SECONDS + 60
            await rest.lake.cleaner.clean_once()


@pytest.mark.parametrize(
    ("kind", "path", "query"),
    [
        ("import", "/branches/main/import", {"id": "dead"}),
        ("dump", "/dump", {"task_id": "dead"}),
        ("restore", "/restore", {"task_id": "dead"}),
        ("commit", "/branches/main/commits/async/dead/status", {}),
        ("merge", "/refs/dev/merge/main/async/dead/status", {}),
    ],
)
async def test_a_task_whose_process_died_has_failed_and_is_forgotten_after_a_day(
    kind: str, path: str, query: dict[str, str]
) -> None:
    clock = Later()
    async with open_rest(clock=clock) as rest:
        repo, now = await rest.lake.engine.repo("lake"), clock.now()
        task = Task(id=Nonce("dead"), kind=kind, state=TaskState.RUNNING, started_at=now, updated_at=now)
        await rest.lake.kv.swap(repo.partition, task_key(task.id), encode_task(task), expected=Expect.ABSENT)
        running = (await rest.admin("GET", REPO + path, query=query)).json()
        assert running.get("error") is None
        clock.ahead = TASK_DEAD_SECONDS
        dead = (await rest.admin("GET", REPO + path, query=query)).json()
        assert "start it again" in str(dead["error"])
        assert dead.get("done", True)
        assert dead.get("status_code", 503) == 503
        clock.ahead = TASK_LIFETIME_SECONDS + 1
        assert await Tasks(rest.lake.engine.parts).sweep(repo) == 1
        assert (await rest.admin("GET", REPO + path, query=query)).status == 404


async def test_a_stash_puts_changes_aside_and_brings_them_back(rest: Rest) -> None:
    await rest.lake.commit("main", a="1", b="1")
    await rest.lake.put("main", a="2")
    made = await rest.admin("POST", f"{REPO}/branches/main/stash", json={"message": "later"})
    assert (made.status, made.json()["message"]) == (201, "later")
    assert await rest.lake.show("main") == {"a": "1", "b": "1"}
    listed = (await rest.admin("GET", f"{REPO}/stashes")).json()
    assert [each["id"] for each in listed["results"]] == [made.json()["id"]]
    popped = await rest.admin("POST", f"{REPO}/stashes/{made.json()['id']}/pop")
    assert popped.status == 200
    assert await rest.lake.show("main") == {"a": "2", "b": "1"}
    assert (await rest.admin("GET", f"{REPO}/stashes")).json()["results"] == []


async def test_a_dropped_stash_is_gone(rest: Rest) -> None:
    await rest.lake.put("main", a="2")
    made = (await rest.admin("POST", f"{REPO}/branches/main/stash")).json()
    assert (await rest.admin("DELETE", f"{REPO}/stashes/{made['id']}")).status == 204
    assert (await rest.admin("GET", f"{REPO}/stashes")).json()["results"] == []
    assert (await rest.admin("DELETE", f"{REPO}/stashes/{made['id']}")).status == 404


async def test_who_may_not_revert_the_branch_of_a_stash_may_not_drop_it(rest: Rest) -> None:
    await rest.lake.put("main", a="2")
    made = (await rest.admin("POST", f"{REPO}/branches/main/stash")).json()
    await rest.auth.policies.create(
        "NotMain",
        [
            StatementDocument(effect="allow", action=["fs:*"], resource="*"),
            StatementDocument(
                effect="deny",
                action=["fs:RevertBranch"],
                resource="arn:lakefs:fs:::repository/lake/branch/main",
            ),
        ],
    )
    client = await rest.user("careful")
    await rest.auth.attachments.attach_to_user("careful", "NotMain")
    assert (await client("DELETE", f"{REPO}/stashes/{made['id']}")).status == 401
    assert len((await rest.admin("GET", f"{REPO}/stashes")).json()["results"]) == 1
