"""The files behind trees, and commit records as they are given."""

import io

import pyarrow.parquet as pq

from lakebed.testing.rest import Rest

REPO = "/repositories/lake"


async def test_a_tree_can_be_read_down_to_its_entries_as_parquet(rest: Rest) -> None:
    await rest.lake.commit("main", a="1", b="2")
    commit = (await rest.admin("GET", f"{REPO}/commits/main")).json()
    tree = commit["meta_range_id"]
    location = (await rest.admin("GET", f"{REPO}/metadata/meta_range/{tree}")).json()["location"]
    assert location == f"_lakebed/metaranges/{tree}.parquet"
    metarange = await rest.admin("GET", f"{REPO}/metadata/object/meta_range/{tree}")
    name = pq.read_table(io.BytesIO(metarange.body)).column("range").to_pylist()[0]
    assert (await rest.admin("GET", f"{REPO}/metadata/range/{name}")).status == 200
    entries = await rest.admin("GET", f"{REPO}/metadata/object/range/{name}")
    assert pq.read_table(io.BytesIO(entries.body)).column("key").to_pylist() == ["a", "b"]


async def test_no_name_leads_out_of_the_metadata(rest: Rest) -> None:
    for name in ("none", "..%2F..%2Fowner", "%2e%2e", "x" * 3000, "a%00b"):
        for kind in ("range", "meta_range"):
            assert (await rest.admin("GET", f"{REPO}/metadata/{kind}/{name}")).status == 404
            assert (await rest.admin("GET", f"{REPO}/metadata/object/{kind}/{name}")).status == 404
    assert (await rest.admin("GET", f"{REPO}/metadata/object/other/none")).status == 400


async def test_a_commit_record_is_written_as_it_is_given(rest: Rest) -> None:
    parent = await rest.lake.commit("main", a="1")
    known = (await rest.admin("GET", f"{REPO}/commits/{parent}")).json()
    record = {
        "commit_id": "ab" * 32,
        "version": 1,
        "committer": "elsewhere",
        "message": "moved here",
        "metarange_id": known["meta_range_id"],
        "creation_date": 1_000_000_000,
        "parents": [parent],
        "generation": known["generation"] + 1,
        "metadata": {"k": "v"},
    }
    assert (await rest.admin("POST", f"{REPO}/commits", json=record)).status == 204
    found = (await rest.admin("GET", f"{REPO}/commits/{'ab' * 32}")).json()
    assert (found["message"], found["parents"], found["metadata"]) == ("moved here", [parent], {"k": "v"})
    for field, value, status in (
        ("commit_id", "short", 400),
        ("generation", 99, 400),
        ("parents", ["cd" * 32], 404),
        ("metarange_id", "none", 404),
        ("message", "another", 409),
    ):
        assert (await rest.admin("POST", f"{REPO}/commits", json={**record, field: value})).status == status


async def test_a_symlink_manifest_lists_where_a_folder_lies(rest: Rest) -> None:
    await rest.lake.put("main", **{"a/1": "x", "a/2": "y", "a/b/3": "z", "c": "w"})
    made = await rest.admin("POST", f"{REPO}/refs/main/symlink", query={"location": "a/"})
    assert made.status == 201
    store = await rest.lake.engine.store_of(rest.lake.repo)
    lines = (await store.get("_lakebed/symlinks/main/a/symlink.txt")).decode().splitlines()
    expected = [(await rest.lake.catalog.objects.stat("lake", "main", p)).address for p in ("a/1", "a/2")]
    assert lines == [f"mem://lake/{address}" for address in expected]
    assert await store.head("_lakebed/symlinks/main/symlink.txt") is None


async def test_lists_of_what_is_not_there_yet_are_empty(rest: Rest) -> None:
    for path in ("actions/runs", "pulls"):
        answer = (await rest.admin("GET", f"{REPO}/{path}")).json()
        assert (answer["results"], answer["pagination"]["has_more"]) == ([], False)
        assert (await rest.admin("GET", f"{REPO}/{path}/1")).status == 404
        assert (await rest.admin("GET", f"/repositories/nowhere/{path}")).status == 404
