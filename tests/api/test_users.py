"""Set-up, log-in, users, groups, policies, access keys."""

from lakebed.testing.asgi import AsgiClient, basic
from lakebed.testing.rest import Rest, open_rest

READ_ALL = [{"effect": "allow", "action": ["fs:Read*", "fs:List*"], "resource": "*"}]


async def test_an_installation_is_set_up_once() -> None:
    async with open_rest(set_up=False) as rest:
        ask = rest.anonymous
        assert (await ask("GET", "/setup_lakefs")).json()["state"] == "not_initialized"
        assert (await ask("GET", "/repositories")).status == 401
        key = (await ask("POST", "/setup_lakefs", json={"username": "first"})).json()
        assert (await ask("GET", "/setup_lakefs")).json()["state"] == "initialized"
        again = await ask("POST", "/setup_lakefs", json={"username": "second"})
        assert again.status == 409
        first = ask.as_user(basic(key["access_key_id"], key["secret_access_key"]))
        assert (await first("GET", "/user")).json()["user"]["id"] == "first"
        assert (await first("GET", "/repositories")).status == 200


async def test_set_up_takes_a_pair_that_somebody_chose() -> None:
    async with open_rest(set_up=False) as rest:
        pair = {"access_key_id": "AKIACHOSEN", "secret_access_key": "chosen"}
        key = await rest.anonymous("POST", "/setup_lakefs", json={"username": "first", "key": pair})
        assert key.json()["access_key_id"] == "AKIACHOSEN"
        assert (await rest.admin.as_user(basic("AKIACHOSEN", "chosen"))("GET", "/user")).status == 200


async def test_a_login_is_good_as_a_token_and_as_a_cookie(rest: Rest) -> None:
    key = await rest.auth.credentials.create("admin")
    answer = await rest.anonymous(
        "POST",
        "/auth/login",
        json={"access_key_id": key.id, "secret_access_key": key.secret_access_key},
    )
    token = answer.json()["token"]
    cookie = answer.headers["set-cookie"]
    assert cookie.startswith(f"internal_auth_session={token}; ")
    assert "HttpOnly" in cookie
    assert (await rest.admin.as_user(f"Bearer {token}")("GET", "/user")).status == 200
    sent = {"cookie": f"other=1; internal_auth_session={token}"}
    assert (await rest.anonymous("GET", "/user", headers=sent)).json()["user"]["id"] == "admin"
    await rest.auth.credentials.delete("admin", key.id)
    assert (await rest.anonymous("GET", "/user", headers=sent)).status == 401


async def test_a_wrong_login_is_401(rest: Rest) -> None:
    answer = await rest.anonymous(
        "POST", "/auth/login", json={"access_key_id": "x", "secret_access_key": "y"}
    )
    assert (answer.status, answer.message) == (401, "error authenticating request")


async def test_a_user_gets_what_a_policy_gives_and_loses_it_with_it(rest: Rest, admin: AsgiClient) -> None:
    assert (await admin("POST", "/auth/users", json={"id": "reader"})).status == 201
    assert (await admin("POST", "/auth/users", json={"id": "reader"})).status == 409
    key = (await admin("POST", "/auth/users/reader/credentials")).json()
    reader = admin.as_user(basic(key["access_key_id"], key["secret_access_key"]))
    assert (await reader("GET", "/repositories/lake")).status == 401
    made = await admin("POST", "/auth/policies", json={"id": "ReadAll", "statement": READ_ALL})
    assert (made.status, made.json()["statement"]) == (201, READ_ALL)
    assert (await admin("PUT", "/auth/users/reader/policies/ReadAll")).status == 201
    assert (await reader("GET", "/repositories/lake")).status == 200
    assert (await reader("DELETE", "/repositories/lake")).message == "insufficient permissions"
    denying = [{"effect": "deny", "action": ["fs:*"], "resource": "*"}]
    updated = await admin("PUT", "/auth/policies/ReadAll", json={"id": "ReadAll", "statement": denying})
    assert updated.json()["statement"] == denying
    assert (await reader("GET", "/repositories/lake")).status == 401
    assert (await admin("DELETE", "/auth/users/reader/policies/ReadAll")).status == 204
    assert (await admin("DELETE", "/auth/policies/ReadAll")).status == 204
    assert (await admin("GET", "/auth/policies/ReadAll")).status == 404


async def test_a_revoked_key_fails_at_the_next_request(admin: AsgiClient) -> None:
    key = (await admin("POST", "/auth/users/admin/credentials")).json()
    other = admin.as_user(basic(key["access_key_id"], key["secret_access_key"]))
    path = f"/auth/users/admin/credentials/{key['access_key_id']}"
    assert (await other("GET", path)).json() == {
        "access_key_id": key["access_key_id"],
        "creation_date": key["creation_date"],
    }
    assert (await admin("DELETE", path)).status == 204
    assert (await other("GET", "/user")).message == "error authenticating request"


async def test_groups_have_members_and_policies(admin: AsgiClient) -> None:
    await admin("POST", "/auth/users", json={"id": "member"})
    long = await admin("POST", "/auth/groups", json={"id": "long", "description": "d" * 5_000})
    assert long.status == 400
    group = await admin("POST", "/auth/groups", json={"id": "team", "description": "ours"})
    assert (group.status, group.json()["description"]) == (201, "ours")
    assert (await admin("PUT", "/auth/groups/team/members/member")).status == 201
    listed = (await admin("GET", "/auth/groups/team/members")).json()
    assert [each["id"] for each in listed["results"]] == ["member"]
    assert listed["pagination"] == {"has_more": False, "next_offset": "", "results": 1, "max_per_page": 0}
    assert (await admin("PUT", "/auth/groups/team/policies/FSReadAll")).status == 201
    effective = (await admin("GET", "/auth/users/member/policies", query={"effective": "true"})).json()
    assert [each["id"] for each in effective["results"]] == ["FSReadAll"]
    assert (await admin("GET", "/auth/users/member/policies")).json()["results"] == []
    assert (await admin("DELETE", "/auth/groups/team/members/member")).status == 204
    assert (await admin("DELETE", "/auth/groups/team/members/member")).status == 404
    assert (await admin("DELETE", "/auth/groups/team")).status == 204


async def test_an_acl_is_one_word_for_what_a_group_may_do(rest: Rest, admin: AsgiClient) -> None:
    assert (await admin("GET", "/auth/groups/Viewers/acl")).json() == {"permission": "Read"}
    await admin("POST", "/auth/groups", json={"id": "team"})
    assert (await admin("GET", "/auth/groups/team/acl")).status == 404
    body = {"permission": "Write", "repositories": ["lake"]}
    assert (await admin("POST", "/auth/groups/team/acl", json=body)).status == 201
    assert (await admin("GET", "/auth/groups/team/acl")).json() == body
    writer = await rest.user("writer", "team")
    path = "/repositories/lake/branches/main/objects"
    assert (await writer("POST", path, query={"path": "a"}, body=b"x")).status == 201
    assert (await writer("POST", "/auth/groups/team/acl", json=body)).status == 401


async def test_lists_turn_pages(admin: AsgiClient) -> None:
    for name in ("u1", "u2", "u3"):
        await admin("POST", "/auth/users", json={"id": name})
    first = (await admin("GET", "/auth/users", query={"prefix": "u", "amount": 2})).json()
    assert [each["id"] for each in first["results"]] == ["u1", "u2"]
    assert (first["pagination"]["has_more"], first["pagination"]["next_offset"]) == (True, "u2")
    rest = (await admin("GET", "/auth/users", query={"prefix": "u", "after": "u2"})).json()
    assert [each["id"] for each in rest["results"]] == ["u3"]


async def test_a_policy_that_means_nothing_is_named(admin: AsgiClient) -> None:
    for statement, named in (
        ([], "statement"),
        ([{"effect": "perhaps", "action": ["fs:*"], "resource": "*"}], "effect"),
        ([{"effect": "allow", "action": ["rm -rf"], "resource": "*"}], "action"),
        ([{"effect": "allow", "action": ["fs:*"], "resource": "everything"}], "resource"),
    ):
        answer = await admin("POST", "/auth/policies", json={"id": "bad", "statement": statement})
        assert answer.status == 400
        assert named in answer.detail


async def test_a_repository_one_may_not_see_is_not_listed(rest: Rest) -> None:
    stranger = await rest.user("stranger")
    assert (await stranger("GET", "/repositories")).json()["results"] == []
    assert len((await rest.admin("GET", "/repositories")).json()["results"]) == 1


async def test_a_policy_cannot_be_renamed(admin: AsgiClient) -> None:
    statement = [{"effect": "allow", "action": ["fs:ReadObject"], "resource": "*"}]
    created = await admin("POST", "/auth/policies", json={"id": "readers", "statement": statement})
    assert created.status == 201
    for name, status in (("writers", 400), ("readers", 200)):
        body = {"id": name, "statement": statement}
        assert (await admin("PUT", "/auth/policies/readers", json=body)).status == status
    assert (await admin("GET", "/auth/policies/writers")).status == 404
