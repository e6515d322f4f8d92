"""Objects over HTTP: headers, parts, conditions, and what happens when the bytes are gone."""

import hashlib

import pytest

from lakebed.auth.statements import StatementDocument
from lakebed.testing.asgi import Answer, AsgiClient
from lakebed.testing.rest import Rest

BRANCH = "/repositories/lake/branches/main"
REF = "/repositories/lake/refs/main"
OBJECTS = f"{BRANCH}/objects"
READ = f"{REF}/objects"


async def _put(client: AsgiClient, path: str, body: bytes = b"12345", **headers: str) -> Answer:
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    return await client("POST", OBJECTS, query={"path": path}, body=body, headers=sent)


async def test_an_upload_answers_with_what_is_known_of_it(admin: AsgiClient) -> None:
    answer = await _put(admin, "a", content_type="text/plain", x_lakefs_meta_color="blue")
    assert answer.status == 201
    stats = answer.json()
    assert stats["checksum"] == hashlib.md5(b"12345").hexdigest()
    assert (stats["path"], stats["path_type"], stats["size_bytes"]) == ("a", "object", 5)
    assert (stats["content_type"], stats["metadata"]) == ("text/plain", {"color": "blue"})
    assert stats["physical_address"].startswith("mem://lake/data/")
    assert (await admin("GET", f"{READ}/stat", query={"path": "a"})).json() == stats
    bare = await admin("GET", f"{READ}/stat", query={"path": "a", "user_metadata": "false"})
    assert bare.json()["metadata"] == {}


async def test_the_same_bytes_again_are_no_change_unless_they_are_asked_for(admin: AsgiClient) -> None:
    await _put(admin, "a")
    assert (await admin("POST", f"{BRANCH}/commits", json={"message": "first"})).status == 201
    committed = (await admin("GET", f"{READ}/stat", query={"path": "a"})).json()
    uploaded = (await _put(admin, "a")).json()
    assert uploaded["physical_address"] != committed["physical_address"]

    assert (await admin("GET", f"{BRANCH}/diff")).json()["results"] == []
    refused = await admin("POST", f"{BRANCH}/commits", json={"message": "again"})
    assert (refused.status, "no changes" in refused.message) == (400, True)
    assert (await admin("GET", f"{READ}/stat", query={"path": "a"})).json() == committed

    uploaded = (await _put(admin, "a")).json()
    taken = await admin("POST", f"{BRANCH}/commits", json={"message": "repair", "take_staged": True})
    assert taken.status == 201
    assert (await admin("GET", f"{READ}/stat", query={"path": "a"})).json() == uploaded


async def test_a_download_has_the_headers_that_clients_rely_on(admin: AsgiClient) -> None:
    await _put(admin, "a", content_type="text/plain")
    answer = await admin("GET", READ, query={"path": "a"})
    assert (answer.status, answer.body) == (200, b"12345")
    etag = f'"{hashlib.md5(b"12345").hexdigest()}"'
    assert answer.headers["etag"] == etag
    assert answer.headers["content-type"] == "text/plain"
    assert answer.headers["content-length"] == "5"
    assert answer.headers["cache-control"] == "no-store, must-revalidate"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["content-disposition"] == "inline"
    assert answer.headers["content-security-policy"] == "default-src 'none'; sandbox"
    unchanged = await admin("GET", READ, query={"path": "a"}, headers={"if-none-match": etag})
    assert (unchanged.status, unchanged.body) == (304, b"")
    head = await admin("HEAD", READ, query={"path": "a"})
    assert (head.status, head.body, head.headers["accept-ranges"]) == (200, b"", "bytes")
    assert head.headers["content-length"] == "5"


@pytest.mark.parametrize(
    ("header", "body", "told"),
    [
        ("bytes=0-0", b"1", "bytes 0-0/5"),
        ("bytes=1-3", b"234", "bytes 1-3/5"),
        ("bytes=2-", b"345", "bytes 2-4/5"),
        ("bytes=-2", b"45", "bytes 3-4/5"),
        ("bytes=-99", b"12345", "bytes 0-4/5"),
        ("bytes=3-99", b"45", "bytes 3-4/5"),
    ],
)
async def test_a_part_is_206(admin: AsgiClient, header: str, body: bytes, told: str) -> None:
    await _put(admin, "a")
    answer = await admin("GET", READ, query={"path": "a"}, headers={"range": header})
    assert (answer.status, answer.body, answer.headers["content-range"]) == (206, body, told)
    head = await admin("HEAD", READ, query={"path": "a"}, headers={"range": header})
    assert (head.status, head.headers["content-range"]) == (206, told)


async def test_an_empty_object_is_an_object(admin: AsgiClient) -> None:
    await _put(admin, "empty", b"")
    answer = await admin("GET", READ, query={"path": "empty"})
    assert (answer.status, answer.body, answer.headers["content-length"]) == (200, b"", "0")


async def test_a_form_uploads_its_part_named_content_however_it_is_cut(admin: AsgiClient) -> None:
    form = (
        b'--b\r\nContent-Disposition: form-data; name="other"\r\n\r\nno\r\n'
        b'--b\r\nContent-Disposition: form-data; name="content"; filename="f"\r\n'
        b"Content-Type: image/png\r\n\r\nthe bytes\r\n--b--\r\n"
    )
    headers = {"content-type": "multipart/form-data; boundary=b"}
    for size in (1, 7, len(form)):
        chunks = [form[at : at + size] for at in range(0, len(form), size)]
        answer = await admin("POST", OBJECTS, query={"path": "f"}, body=chunks, headers=headers)
        assert (answer.status, answer.json()["content_type"]) == (201, "image/png")
        assert (await admin("GET", READ, query={"path": "f"})).body == b"the bytes"


async def test_conditions_hold_when_the_object_is_written(admin: AsgiClient) -> None:
    assert (await _put(admin, "a", if_none_match="*")).status == 201
    assert (await _put(admin, "a", if_none_match="*")).status == 412
    etag = f'"{hashlib.md5(b"12345").hexdigest()}"'
    assert (await _put(admin, "a", b"new", if_match=etag)).status == 201
    assert (await _put(admin, "a", b"newer", if_match=etag)).status == 412
    assert (await admin("GET", READ, query={"path": "a"})).body == b"new"


async def test_bytes_that_are_gone_are_410_before_anything_is_sent(rest: Rest) -> None:
    await _put(rest.admin, "a")
    entry = await rest.lake.catalog.objects.stat("lake", "main", "a")
    await (await rest.lake.engine.store_of(rest.lake.repo)).delete([entry.address])
    assert (await rest.admin("GET", READ, query={"path": "a"})).status == 410


async def test_an_object_that_is_not_there_is_404_on_every_way(admin: AsgiClient) -> None:
    for method, path in (("GET", READ), ("GET", f"{READ}/stat"), ("GET", f"{READ}/underlyingProperties")):
        assert (await admin(method, path, query={"path": "none"})).status == 404
    head = await admin("HEAD", READ, query={"path": "none"})
    assert (head.status, head.body) == (404, b"")
    copied = await admin("POST", f"{OBJECTS}/copy", query={"dest_path": "b"}, json={"src_path": "none"})
    assert copied.status == 404


async def test_deleting_what_is_not_there_is_no_error(admin: AsgiClient) -> None:
    assert (await admin("DELETE", OBJECTS, query={"path": "none"})).status == 204
    bulk = await admin("POST", f"{OBJECTS}/delete", json={"paths": ["none", ""]})
    assert (bulk.status, bulk.json()) == (200, {"errors": []})
    many = await admin("POST", f"{OBJECTS}/delete", json={"paths": ["x"] * 1001})
    assert many.status == 400


async def test_a_bulk_deletion_answers_for_each_path(rest: Rest) -> None:
    await rest.lake.put("main", **{"mine/a": "1", "theirs": "2"})
    await rest.auth.policies.create("Mine", _allow("fs:DeleteObject", "repository/lake/object/mine/*"))
    user = await rest.user("user")
    await rest.auth.attachments.attach_to_user("user", "Mine")
    answer = await user("POST", f"{OBJECTS}/delete", json={"paths": ["mine/a", "theirs"]})
    assert answer.json() == {
        "errors": [{"path": "theirs", "status_code": 401, "message": "insufficient permissions"}]
    }
    assert await rest.lake.show("main") == {"theirs": "2"}


async def test_user_metadata_is_replaced_without_an_answer(admin: AsgiClient) -> None:
    await _put(admin, "a", x_lakefs_meta_old="1")
    path = f"{OBJECTS}/stat/user_metadata"
    assert (await admin("PUT", path, query={"path": "a"}, json={"set": {"new": "2"}})).status == 204
    stat = (await admin("GET", f"{READ}/stat", query={"path": "a"})).json()
    assert stat["metadata"] == {"new": "2"}


async def test_a_shallow_copy_shares_its_bytes(admin: AsgiClient) -> None:
    stats = (await _put(admin, "a")).json()
    for shallow in (True, False):
        copied = await admin(
            "POST", f"{OBJECTS}/copy", query={"dest_path": "b"}, json={"src_path": "a", "shallow": shallow}
        )
        assert copied.status == 201
        assert (copied.json()["physical_address"] == stats["physical_address"]) is shallow


async def test_a_common_prefix_is_listed_as_clients_expect(admin: AsgiClient) -> None:
    await _put(admin, "a/1")
    answer = (await admin("GET", f"{READ}/ls", query={"delimiter": "/"})).json()
    assert answer["results"] == [
        {"path": "a/", "path_type": "common_prefix", "physical_address": "", "checksum": "", "mtime": 0}
    ]
    assert answer["pagination"] == {"has_more": False, "next_offset": "", "results": 1, "max_per_page": 1000}


async def test_a_new_branch_is_answered_in_plain_text(admin: AsgiClient) -> None:
    commit = (await admin("GET", BRANCH)).json()["commit_id"]
    answer = await admin("POST", "/repositories/lake/branches", json={"name": "x", "source": "main"})
    assert (answer.status, answer.body.decode()) == (201, commit)


async def test_entries_outside_are_staged_only_from_where_imports_are_allowed(admin: AsgiClient) -> None:
    entry = {"path": "a", "physical_address": "local:///etc/passwd", "checksum": "c", "size_bytes": 1}
    many = await admin("POST", f"{BRANCH}/staging/entries", json={"entries": [entry]})
    assert many.status in (400, 403)
    assert (await admin("GET", f"{READ}/stat", query={"path": "a"})).status == 404


async def test_every_answer_carries_the_id_of_its_request(admin: AsgiClient) -> None:
    given = await admin("GET", "/user", headers={"x-request-id": "mine"})
    assert given.headers["x-request-id"] == "mine"
    new = [(await admin("GET", "/user")).headers["x-request-id"] for _ in range(2)]
    assert len(set(new)) == 2
    assert all(new)


def _allow(action: str, resource: str) -> list[StatementDocument]:
    return [StatementDocument(effect="allow", action=[action], resource=f"arn:lakefs:fs:::{resource}")]
