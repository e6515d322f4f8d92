"""Repositories over REST: what `sample_data` makes."""

from collections import Counter
from io import BytesIO
from typing import Any

import pyarrow.parquet as pq
import pytest

from lakebed.auth.caller import Caller
from lakebed.auth.decisions import Permissions
from lakebed.auth.statements import StatementDocument
from lakebed.env.clock import SystemClock, after
from lakebed.errors import DeniedError
from lakebed.limits import GRACE_SECONDS
from lakebed.refs.leftovers import measure
from lakebed.testing.asgi import AsgiClient
from lakebed.testing.rest import Rest


async def create(client: AsgiClient, **fields: Any) -> int:
    body = {"name": "fresh", "storage_namespace": "mem://fresh", **fields}
    return (await client("POST", "/repositories", json=body)).status


async def paths(client: AsgiClient, ref: str) -> list[str]:
    answer = await client("GET", f"/repositories/fresh/refs/{ref}/objects/ls")
    return [each["path"] for each in answer.json()["results"]]


SAMPLE = [
    "README.md",
    "data/lakes-by-country.csv",
    "data/lakes.source.md",
    "images/lakes-by-country.svg",
    "lakes.parquet",
]


async def test_sample_data_commits_what_tutorials_of_lakefs_read(admin: AsgiClient) -> None:
    assert await create(admin, sample_data=True) == 201
    assert await paths(admin, "main") == SAMPLE
    objects = "/repositories/fresh/refs/main/objects"
    lakes = pq.read_table(BytesIO((await admin("GET", objects, query={"path": "lakes.parquet"})).body))
    assert [(field.name, str(field.type)) for field in lakes.schema] == [
        ("Hylak_id", "int32"),
        ("Lake_name", "string"),
        ("Country", "string"),
        ("Depth_m", "double"),
    ]
    assert len(set(lakes["Lake_name"].to_pylist())) == len(set(lakes["Hylak_id"].to_pylist())) == 500
    assert Counter(lakes["Country"].to_pylist())["Denmark"] == 8
    assert 0 < min(lakes["Depth_m"].to_pylist()) < max(lakes["Depth_m"].to_pylist()) <= 400
    counts = (await admin("GET", objects, query={"path": "data/lakes-by-country.csv"})).body.decode()
    assert dict(Counter(lakes["Country"].to_pylist())) == {
        country: int(count) for country, count in (line.split(",") for line in counts.splitlines()[1:])
    }


async def test_sample_data_leaves_an_unprotected_branch_and_no_tag(admin: AsgiClient) -> None:
    assert await create(admin, sample_data=True) == 201
    upload = await admin("POST", "/repositories/fresh/branches/main/objects", query={"path": "x"}, body=b"x")
    assert upload.status == 201
    for refs, names in (("branches", ["main"]), ("tags", [])):
        listed = (await admin("GET", f"/repositories/fresh/{refs}")).json()["results"]
        assert [each["id"] for each in listed] == names
    log = (await admin("GET", "/repositories/fresh/refs/main/commits")).json()["results"]
    assert (log[0]["message"], log[0]["committer"]) == ("Add sample data", "admin")


async def test_the_sample_is_the_same_in_every_repository(admin: AsgiClient) -> None:
    etags = []
    for name in ("one", "two"):
        body = {"name": name, "storage_namespace": f"mem://{name}", "sample_data": True}
        assert (await admin("POST", "/repositories", json=body)).status == 201
        listed = (await admin("GET", f"/repositories/{name}/refs/main/objects/ls")).json()["results"]
        etags.append({each["path"]: each["checksum"] for each in listed if each["path"] != "README.md"})
    assert etags[0] == etags[1]


async def test_a_repository_is_empty_unless_sample_data_is_asked_for(admin: AsgiClient) -> None:
    assert await create(admin) == 201
    assert await paths(admin, "main") == []


async def test_any_first_branch_can_be_filled(admin: AsgiClient) -> None:
    assert await create(admin, sample_data=True, default_branch="trunk") == 201
    assert await paths(admin, "trunk") == SAMPLE
    objects = "/repositories/fresh/refs/trunk/objects"
    readme = (await admin("GET", objects, query={"path": "README.md"})).body.decode()
    assert "lakebed merge fresh/tidy trunk" in readme


async def test_a_read_only_repository_can_be_filled_once_and_not_changed(admin: AsgiClient) -> None:
    assert await create(admin, sample_data=True, read_only=True) == 201
    assert await paths(admin, "main") == SAMPLE
    upload = await admin("POST", "/repositories/fresh/branches/main/objects", query={"path": "x"}, body=b"x")
    assert upload.status == 403


async def test_a_bare_repository_stays_bare(admin: AsgiClient) -> None:
    body = {"name": "fresh", "storage_namespace": "mem://fresh", "sample_data": True}
    assert (await admin("POST", "/repositories", query={"bare": "true"}, json=body)).status == 201
    assert (await admin("GET", "/repositories/fresh/branches")).json()["results"] == []


async def test_whoever_may_create_a_repository_needs_no_more_for_its_sample(rest: Rest) -> None:
    actions = ["fs:CreateRepository", "fs:AttachStorageNamespace"]
    await rest.auth.policies.create(
        "Create", [StatementDocument(effect="allow", action=actions, resource="*")]
    )
    client = await rest.user("maker")
    await rest.auth.attachments.attach_to_user("maker", "Create")
    assert await create(client, sample_data=True) == 201
    assert await paths(rest.admin, "main") == SAMPLE
    viewer = await rest.user("viewer", "Viewers")
    assert await create(viewer, name="other", sample_data=True) == 401


async def test_nobody_else_can_have_a_repository_filled(rest: Rest) -> None:
    nobody = Caller(id="nobody", permissions=Permissions([], user="nobody"))
    with pytest.raises(DeniedError):
        await rest.app._services.sessions.of(nobody).samples.fill("lake", "main")


async def test_deleting_with_data_needs_the_permission_to_delete_bytes(rest: Rest) -> None:
    await rest.lake.put("main", a="1")
    client = await rest.user("super", "SuperUsers")
    assert (await client("DELETE", "/repositories/lake", query={"with_data": "true"})).status == 401
    assert (await client("GET", "/repositories/lake/storage")).status == 401
    use = (await rest.admin("GET", "/repositories/lake/storage")).json()
    assert use == {
        "objects": 1,
        "files": 1,
        "bytes": use["bytes"],
        "complete": True,
        "grace_seconds": GRACE_SECONDS,
    }
    assert (await rest.admin("DELETE", "/repositories/lake", query={"with_data": "true"})).status == 204
    store = await rest.lake.engine.store_of(rest.lake.repo)
    await rest.lake.cleaner.clean_once(after(await rest.lake.kv.now(), 2 * GRACE_SECONDS))
    assert [info.key async for infos in store.list("data/") for info in infos] == []


async def test_the_storage_of_a_repository_deleted_without_its_data_can_be_freed_later(rest: Rest) -> None:
    await rest.lake.put("main", a="1")
    store = await rest.lake.engine.store_of(rest.lake.repo)
    assert (await rest.admin("DELETE", "/repositories/lake")).status == 204
    body = {"storage_namespace": "mem://lake"}
    too_soon = await rest.admin("POST", "/storage/purge", json=body)
    assert too_soon.status == 400
    assert "grace" in too_soon.detail
    await rest.lake.cleaner.clean_once(after(await rest.lake.kv.now(), 2 * GRACE_SECONDS))
    assert (await rest.admin("POST", "/storage/purge", json={**body, "dry_run": True})).json()["objects"] == 1
    assert (await rest.admin("POST", "/storage/purge", json=body)).json()["objects"] == 1
    await rest.lake.cleaner.clean_once(after(await rest.lake.kv.now(), 2 * GRACE_SECONDS))
    assert [info.key async for infos in store.list("data/") for info in infos] == []


async def test_counting_a_large_namespace_ends_with_at_least(rest: Rest) -> None:
    await rest.lake.put("main", a="1")

    class Slow(SystemClock):
        def monotonic(self) -> float:
            return super().monotonic() * 1e12

    store = await rest.lake.engine.store_of(rest.lake.repo)
    use = await measure(store, clock=Slow(), seconds=10)
    assert (use.objects, use.files, use.complete) == (1, 0, False)


async def test_an_unknown_storage_is_refused(admin: AsgiClient) -> None:
    assert await create(admin, storage_id="elsewhere") == 400
    assert await create(admin, storage_id="") == 201
