"""Retention rules, branch protection, preflights."""

from lakebed.testing.asgi import AsgiClient
from lakebed.testing.rest import Rest

REPO = "/repositories/lake"
GC = f"{REPO}/settings/gc_rules"
PROTECTION = f"{REPO}/settings/branch_protection"


async def test_retention_rules_are_404_until_they_are_set_and_after_they_are_removed(
    admin: AsgiClient,
) -> None:
    rules = {"default_retention_days": 0, "branches": [{"branch_id": "main", "retention_days": 7}]}
    assert (await admin("GET", GC)).status == 404
    assert (await admin("PUT", GC, json=rules)).status == 204
    assert (await admin("GET", GC)).json() == rules
    assert (await admin("GET", f"{REPO}/gc/rules")).json() == rules
    assert (await admin("DELETE", GC)).status == 204
    assert (await admin("GET", GC)).status == 404
    assert (await admin("POST", f"{REPO}/gc/rules", json=rules)).status == 204
    assert (await admin("GET", GC)).json() == rules


async def test_negative_days_are_refused(admin: AsgiClient) -> None:
    answer = await admin("PUT", GC, json={"default_retention_days": -1, "branches": []})
    assert answer.status == 400
    assert "default_retention_days" in answer.detail


async def test_protection_rules_are_replaced_only_by_who_has_seen_them(admin: AsgiClient) -> None:
    unset = await admin("GET", PROTECTION)
    assert (unset.json(), unset.headers["etag"]) == ([], "")
    first = await admin("PUT", PROTECTION, json=[{"pattern": "main"}], headers={"if-match": ""})
    assert first.status == 204
    second = await admin("PUT", PROTECTION, json=[{"pattern": "x"}], headers={"if-match": ""})
    assert second.status == 412
    etag = (await admin("GET", PROTECTION)).headers["etag"]
    third = await admin("PUT", PROTECTION, json=[{"pattern": "x*"}], headers={"if-match": etag})
    assert third.status == 204
    assert (await admin("GET", PROTECTION)).json() == [{"pattern": "x*"}]


async def test_a_protected_branch_takes_merges_only(rest: Rest, admin: AsgiClient) -> None:
    await admin("POST", f"{REPO}/branches", json={"name": "feature", "source": "main"})
    await admin("PUT", PROTECTION, json=[{"pattern": "main"}])
    refused = await admin("POST", f"{REPO}/branches/main/objects", query={"path": "a"}, body=b"x")
    assert refused.status == 403
    allowed = f"{REPO}/branches/main/objects/stage_allowed"
    assert (await admin("GET", allowed, query={"path": "a"})).status == 403
    await rest.lake.commit("feature", a="1")
    assert (await admin("POST", f"{REPO}/refs/feature/merge/main", json={})).status == 200


async def test_rules_come_and_go_one_by_one_under_the_old_paths(admin: AsgiClient) -> None:
    path = f"{REPO}/branch_protection"
    assert (await admin("POST", path, json={"pattern": "a"})).status == 204
    assert (await admin("POST", path, json={"pattern": "a"})).status == 409
    assert (await admin("POST", path, json={"pattern": "b"})).status == 204
    assert (await admin("GET", path)).json() == [{"pattern": "a"}, {"pattern": "b"}]
    assert (await admin("DELETE", path, json={"pattern": "a"})).status == 204
    assert (await admin("DELETE", path, json={"pattern": "a"})).status == 404
    assert (await admin("GET", PROTECTION)).json() == [{"pattern": "b"}]


async def test_preflights_say_yes_without_doing_anything(admin: AsgiClient) -> None:
    for path in ("gc/rules/set_allowed", "branch_protection/set_allowed"):
        assert (await admin("GET", f"{REPO}/{path}")).status == 204
        assert (await admin("GET", f"/repositories/nowhere/{path}")).status == 404
    allowed = await admin("GET", f"{REPO}/branches/main/objects/stage_allowed", query={"path": "a"})
    assert allowed.status == 204
    assert (await admin("GET", f"{REPO}/refs/main/objects/stat", query={"path": "a"})).status == 404
