"""What outlives its request: commits, merges, dumps; and stashes."""

import asyncio
from typing import Any

from lakebed.testing.asgi import AsgiClient
from lakebed.testing.rest import Rest

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
