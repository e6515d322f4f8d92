"""Garbage collection by the API: a run from begin to end, who may, and what the peer's collector makes of our answers."""

import asyncio
import io
from typing import Any

import pyarrow.parquet as pq
import pytest

from lakebed.api.operation import Access
from lakebed.api.table import OPERATIONS
from lakebed.auth.caller import DENIED_TEXT
from lakebed.auth.statements import StatementDocument
from lakebed.format.gc import COMMITS_FILE, ROOTS, UNCOMMITTED_FILE, decode_table
from lakebed.gc.cursor import Cursor, encode_cursor
from lakebed.limits import GC_LEASE_SECONDS, GRACE_SECONDS, LINK_LIFETIME_SECONDS
from lakebed.testing.asgi import Answer, AsgiClient
from lakebed.testing.rest import Rest, open_rest
from tests.api.later import Later
from tests.api.samples import sample

REPO = "/repositories/lake"
GC = f"{REPO}/gc"
RUN_ACTIONS = [
    "retention:RunGarbageCollection",
    "retention:PrepareGarbageCollectionCommits",
    "retention:PrepareGarbageCollectionUncommitted",
]
RUN_OPERATIONS = {
    "beginGarbageCollectionRun",
    "renewGarbageCollectionRun",
    "getRepositoryStorage",
    "startGarbageCollectionSweep",
    "publishGarbageCollectionMark",
    "endGarbageCollectionRun",
    "withdrawGarbageCollectionMarks",
    "prepareGarbageCollectionCommits",
    "prepareGarbageCollectionCommitsAsync",
    "prepareGarbageCollectionCommitsStatus",
    "prepareGarbageCollectionUncommitted",
}


async def begin(client: AsgiClient, kind: str = "mark", **body: Any) -> dict[str, Any]:
    answer = await client("POST", f"{GC}/runs", json={"kind": kind, **body})
    assert answer.status == 201, answer
    started: dict[str, Any] = answer.json()
    return started


def of(started: dict[str, Any]) -> dict[str, Any]:
    return {"run_id": started["run_id"], "token": started["token"]}


async def prepare(client: AsgiClient, body: dict[str, Any] | None) -> Any:
    """Begin the preparation of commits and wait for it, as clients do."""
    options: dict[str, Any] = {} if body is None else {"json": body}
    answer = await client("POST", f"{GC}/prepare_commits/async", **options)
    assert answer.status == 202, answer
    while True:
        status = await client("GET", f"{GC}/prepare_commits/status", query={"id": answer.json()["id"]})
        assert status.status == 200
        if status.json()["completed"]:
            return status.json()
        await asyncio.sleep(0.01)


async def read(rest: Rest, key: str) -> bytes:
    store = await rest.lake.engine.store_of(rest.lake.repo)
    return await store.get(key)


async def collector(rest: Rest) -> AsgiClient:
    """Somebody who may run garbage collection, and nothing else."""
    client = await rest.user("collector")
    statement = StatementDocument(
        effect="allow", action=RUN_ACTIONS, resource="arn:lakefs:fs:::repository/lake"
    )
    await rest.auth.policies.create("Collect", [statement])
    await rest.auth.attachments.attach_to_user("collector", "Collect")
    return client


async def test_a_run_from_begin_to_end_needs_the_permission_for_it_and_no_other(rest: Rest) -> None:
    client = await collector(rest)
    commit = await rest.lake.commit("main", a="a")
    await rest.lake.put("main", b="b")
    staged = (await rest.lake.catalog.objects.stat("lake", "main", "b")).address

    started = await begin(client, holder="a job")
    assert started["uid"] == rest.lake.repo.uid
    assert started["namespace"] == started["storage"]["url"] == rest.lake.repo.namespace
    assert started["marks"] == []
    assert started["lease_seconds"] == GC_LEASE_SECONDS
    assert started["link_seconds"] == LINK_LIFETIME_SECONDS
    assert started["started_at"] <= started["now"]
    run = f"{GC}/runs/{started['run_id']}"
    renewed = await client("POST", f"{run}/renew", json={"token": started["token"]})
    assert renewed.json()["expires_at"] > renewed.json()["now"]

    page = await client("POST", f"{GC}/prepare_uncommited", json=of(started))
    assert page.status == 201
    assert "continuation_token" not in page.json()
    table = decode_table(UNCOMMITTED_FILE, await read(rest, page.json()["key"]), rows=page.json()["rows"])
    assert staged in table.column("address").to_pylist()

    prepared = await prepare(client, of(started))
    roots = ROOTS.open(await read(rest, prepared["result"]["roots"]))
    (file,) = roots.commits
    commits = decode_table(COMMITS_FILE, await read(rest, file.key), rows=file.rows)
    assert commit in commits.column("commit_id").to_pylist()
    assert all(commits.column("live").to_pylist())

    body = {"token": started["token"], "kind": "clean", "counts": {"marked": 3}}
    marked = await client("POST", f"{run}/marked", json=body)
    assert (marked.status, marked.json()["run_id"]) == (200, started["run_id"])
    ended = await client("POST", f"{run}/end", json={"token": started["token"], "outcome": "done"})
    assert ended.status == 204

    sweep = await begin(client, "sweep")
    assert [mark["run_id"] for mark in sweep["marks"]] == [started["run_id"]]
    assert sweep["marks"][0]["counts"] == {"marked": 3}
    assert sweep["token"] > started["token"]
    assert sweep["run_id"] < started["run_id"]


async def test_the_permission_for_runs_allows_nothing_else(rest: Rest) -> None:
    client = await collector(rest)
    await rest.lake.commit("main", **{"a/b": "content"})
    for operation in OPERATIONS:
        if operation.access is not Access.USERS or not operation.permissions:
            continue
        sent = sample(operation)
        answer = await sent.send(client)
        if operation.id == "deleteObjects":
            assert [error["message"] for error in answer.json()["errors"]] == [DENIED_TEXT]
            continue
        denied = answer.status == 401
        assert denied == (operation.id not in RUN_OPERATIONS), (operation.id, answer)


async def test_a_second_run_is_told_who_collects(rest: Rest) -> None:
    await begin(rest.admin, holder="the first job")
    refused = await rest.admin("POST", f"{GC}/runs", json={"kind": "mark"})
    assert refused.status == 409
    assert "the first job" in refused.detail
    assert refused.headers["x-lakebed-error-kind"] == "gc-running"


async def test_who_lost_the_lease_is_told_to_stop(rest: Rest) -> None:
    lost = await begin(rest.admin)
    await begin(rest.admin, takeover=True)
    run = f"{GC}/runs/{lost['run_id']}"
    token = {"token": lost["token"]}
    answers = [
        await rest.admin("POST", f"{run}/renew", json=token),
        await rest.admin("POST", f"{run}/marked", json={**token, "kind": "clean"}),
        await rest.admin("POST", f"{run}/end", json=token),
        await rest.admin("POST", f"{GC}/prepare_uncommited", json=of(lost)),
        await rest.admin("POST", f"{GC}/prepare_commits", json=of(lost)),
    ]
    for answer in answers:
        assert (answer.status, answer.headers["x-lakebed-error-kind"]) == (409, "lease-lost")
    task = await prepare(rest.admin, of(lost))
    assert (task["status_code"], task["error_kind"]) == (409, "lease-lost")
    assert "result" not in task


async def test_runs_are_remembered(rest: Rest) -> None:
    first = await begin(rest.admin, holder="one")
    await begin(rest.admin, holder="two", takeover=True)
    listed = (await rest.admin("GET", f"{GC}/runs")).json()
    assert [(run["holder"], run["state"]) for run in listed["results"]] == [
        ("two", "running"),
        ("one", "lost"),
    ]
    shown = await rest.admin("GET", f"{GC}/runs/{first['run_id']}")
    assert shown.json()["mark"] is None
    assert (await rest.admin("GET", f"{GC}/runs/none")).status == 404


@pytest.mark.parametrize("body", [{"run_id": "r"}, {"token": 1}, {"run_id": "", "token": 1}])
async def test_a_run_without_its_token_is_refused_and_not_taken_for_none(
    admin: AsgiClient, body: dict[str, Any]
) -> None:
    for route in ("prepare_commits", "prepare_commits/async", "prepare_uncommited"):
        assert (await admin("POST", f"{GC}/{route}", json=body)).status == 400


async def test_nothing_is_published_that_is_not_prepared(rest: Rest) -> None:
    started = await begin(rest.admin)
    body = {"token": started["token"], "kind": "clean"}
    refused = await rest.admin("POST", f"{GC}/runs/{started['run_id']}/marked", json=body)
    assert refused.status == 409


async def test_a_run_that_took_too_long_marks_nothing() -> None:
    clock = Later()
    async with open_rest(clock=clock) as rest:
        started = await begin(rest.admin, grace_seconds=3600)
        await prepare(rest.admin, of(started))
        clock.ahead = 1801
        body = {"token": started["token"], "kind": "clean"}
        refused = await rest.admin("POST", f"{GC}/runs/{started['run_id']}/marked", json=body)
        assert refused.status == 400
        assert "half of its grace" in refused.detail


async def _published(rest: Rest) -> dict[str, Any]:
    started = await begin(rest.admin)
    await prepare(rest.admin, of(started))
    run = f"{GC}/runs/{started['run_id']}"
    body = {"token": started["token"], "kind": "clean"}
    assert (await rest.admin("POST", f"{run}/marked", json=body)).status == 200
    return started


async def test_a_dump_that_may_bring_garbage_back_discards_marks_and_stops_runs(rest: Rest) -> None:
    await rest.lake.commit("main", a="a")
    dump = (await rest.admin("PUT", f"{REPO}/refs/dump")).json()
    started = await _published(rest)
    # Refused, because it is not bare; whatever it has restored by then counts.
    assert (await rest.admin("PUT", f"{REPO}/refs/restore", json=dump)).status == 400
    assert (await rest.admin("GET", f"{GC}/runs")).json()["marks"] == []
    renew = await rest.admin("POST", f"{GC}/runs/{started['run_id']}/renew", json={"token": started["token"]})
    assert renew.headers["x-lakebed-error-kind"] == "lease-lost"


class PeersCollector:
    """The requests that the peer's Spark client makes, in its order, and what it does with the answers.

    It deletes what it listed in the store, minus the addresses that it reads here. Each `read` fails as its does:
    Spark refuses a column that is not there, and an SSTable ends with its magic number.
    """

    def __init__(self, rest: Rest, client: AsgiClient) -> None:
        self._rest = rest
        self._client = client

    async def uncommitted(self) -> list[Answer]:
        answers: list[Answer] = []
        body: dict[str, Any] = {}
        while True:
            answer = await self._client("POST", f"{GC}/prepare_uncommited", json=body)
            assert answer.status == 201
            answers.append(answer)
            if not answer.json().get("continuation_token"):
                return answers
            body = {"continuation_token": answer.json()["continuation_token"]}

    async def read_uncommitted(self, location: str) -> list[str]:
        found: list[str] = []
        for key in await self._keys(location):
            table = pq.read_table(io.BytesIO(await read(self._rest, key)))
            found += table.select(["physical_address"]).column(0).to_pylist()
        return found

    async def read_commits(self, location: str) -> list[str]:
        found: list[str] = []
        for key in await self._keys(location):
            header, *rows = (await read(self._rest, key)).decode().splitlines()
            found += [row.split(",")[header.split(",").index("commit_id")] for row in rows]
        return found

    async def _keys(self, location: str) -> list[str]:
        store = await self._rest.lake.engine.store_of(self._rest.lake.repo)
        prefix = location.removeprefix(f"{self._rest.lake.repo.namespace}/")
        keys = [info.key async for infos in store.list(prefix) for info in infos]
        assert keys, "an empty folder reads as nothing"
        return keys


@pytest.mark.parametrize("rules", [None, {"default_retention_days": 0, "branches": []}])
@pytest.mark.parametrize("furnished", [False, True])
async def test_the_peers_collector_fails_before_it_could_delete_anything(
    rest: Rest, furnished: bool, rules: dict[str, Any] | None
) -> None:
    if furnished:
        await rest.lake.commit("main", a="a")
        await rest.lake.put("main", b="b")
    if rules is not None:
        assert (await rest.admin("PUT", f"{REPO}/settings/gc_rules", json=rules)).status == 204
    assert (await rest.admin("GET", "/config")).status == 200
    assert (await rest.admin("GET", REPO)).status == 200
    peer = PeersCollector(rest, rest.admin)

    for answer in await peer.uncommitted():
        location = answer.json()["gc_uncommitted_location"]
        assert location.startswith(rest.lake.repo.namespace)
        with pytest.raises(KeyError, match="physical_address"):
            await peer.read_uncommitted(location)

    # It takes 404 for "there are no rules", and then that nothing is committed.
    unknown = await rest.admin("GET", f"{GC}/prepare_commits/status", query={"id": "x"})
    assert unknown.status == 400
    assert (await rest.admin("GET", "/config/garbage-collection")).json() == {"grace_period": 86400}
    status = await prepare(rest.admin, None)
    location = status["result"]["gc_commits_location"]
    assert status["result"]["gc_addresses_location"]
    assert "gc_commits_presigned_url" not in status["result"]
    with pytest.raises((UnicodeDecodeError, ValueError)):
        await peer.read_commits(location)
    # Without a run nothing was let go, whatever the rules say.
    listed = (await rest.admin("GET", f"{GC}/runs")).json()
    assert (listed["results"], listed["marks"]) == ([], [])


async def test_the_trees_are_nothing_that_the_peers_collector_can_read(rest: Rest) -> None:
    commit = await rest.lake.commit("main", a="a")
    tree = (await rest.lake.catalog.commits.get("lake", commit)).tree
    answer = await rest.admin("GET", f"{REPO}/metadata/meta_range/{tree}")
    data = await read(rest, answer.json()["location"])
    # RocksDB's magic number, at the end of every SSTable.
    assert data[-8:] != bytes.fromhex("f7cff485b741e288")
    assert data[-4:] == b"PAR1"


async def test_an_expired_commit_is_refused_in_words(rest: Rest) -> None:
    first = await rest.lake.commit("main", a="a")
    await rest.lake.commit("main", b="b")
    rules = {"default_retention_days": 0, "branches": []}
    await rest.admin("PUT", f"{REPO}/settings/gc_rules", json=rules)
    await _published(rest)
    refused = await rest.admin("POST", f"{REPO}/tags", json={"id": "late", "ref": first})
    assert refused.status == 404
    assert "expired" in refused.detail
    assert (await rest.admin("GET", f"{REPO}/commits/{first}")).status == 200


async def test_a_listing_of_another_time_is_refused() -> None:
    clock = Later()
    async with open_rest(clock=clock) as rest:
        stale = encode_cursor(Cursor(run="r", started_at=clock.now()))
        clock.ahead = GRACE_SECONDS
        answer = await rest.admin("POST", f"{GC}/prepare_uncommited", json={"continuation_token": stale})
        assert answer.status == 400
