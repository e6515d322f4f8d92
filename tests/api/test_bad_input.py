"""Whatever is sent, the answer is a 4xx that names what is wrong, never a 5xx."""

import random  # noqa: TID251  seeded
from dataclasses import replace
from typing import Any
from urllib.parse import urlencode

import pytest
from msgspec.structs import fields

from lakebed.api.operation import Body, Operation
from lakebed.api.query import Parameters
from lakebed.api.table import OPERATIONS
from lakebed.limits import JSON_BODY_BYTES_MAX
from lakebed.testing.asgi import AsgiClient
from lakebed.testing.rest import Rest
from tests.api.samples import sample

REPO = "/repositories/lake"
OBJECTS = f"{REPO}/branches/main/objects"


async def test_an_unknown_path_is_no_endpoint(admin: AsgiClient) -> None:
    answer = await admin("GET", "/nothing/here")
    assert (answer.status, answer.json()) == (404, {"message": "invalid API endpoint"})


async def test_a_wrong_method_is_no_endpoint(admin: AsgiClient) -> None:
    answer = await admin("PATCH", REPO)
    assert (answer.status, answer.json()["message"]) == (404, "invalid API endpoint")


@pytest.mark.parametrize(
    ("path", "parameter"),
    [
        ("/repositories//branches", "repository"),
        (f"{REPO}/branches//diff", "branch"),
        (f"{REPO}/refs//diff/main", "leftRef"),
        ("/auth/users//credentials", "userId"),
    ],
)
async def test_an_empty_segment_of_a_path_is_named(admin: AsgiClient, path: str, parameter: str) -> None:
    answer = await admin("GET", path)
    assert answer.status == 400
    assert parameter in answer.message


@pytest.mark.parametrize("path", ["/repositories/", f"{REPO}/", f"{REPO}/branches/"])
async def test_a_path_that_ends_in_a_slash_is_no_endpoint(admin: AsgiClient, path: str) -> None:
    assert (await admin("GET", path)).status == 404


async def test_a_ref_may_be_encoded_twice(admin: AsgiClient) -> None:
    for ref in ("main~0", "main%7E0", "main%257E0"):
        assert (await admin("GET", f"{REPO}/refs/{ref}/commits")).status == 200


@pytest.mark.parametrize(
    ("body", "named"),
    [
        (b"", "nothing is there"),
        (b"{", "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b"[]", "object"),
        (b"null", "object"),
        (b"{}", "name"),
        (b'{"name": 1, "source": "main"}', "$.name"),
        (b'{"name": "x", "source": ["main"]}', "$.source"),
        (b'{"name": "x", "source": "main", "hidden": "yes"}', "$.hidden"),
        (b'{"name": "x/y", "source": "main"}', "branch name 'x/y'"),
        (b'{"name": "\\ud800", "source": "main"}', ""),
    ],
)
async def test_a_body_that_does_not_fit_is_named(admin: AsgiClient, body: bytes, named: str) -> None:
    answer = await admin("POST", f"{REPO}/branches", body=body, headers={"content-type": "application/json"})
    assert answer.status == 400
    assert named in answer.detail


async def test_unknown_fields_are_ignored(admin: AsgiClient) -> None:
    answer = await admin("POST", f"{REPO}/branches", json={"name": "x", "source": "main", "new": 1})
    assert answer.status == 201


async def test_a_body_that_is_too_large_is_refused_without_being_read_whole(admin: AsgiClient) -> None:
    chunk = b" " * (8 * 1024 * 1024)
    answer = await admin("POST", f"{REPO}/branches", body=[chunk] * (JSON_BODY_BYTES_MAX // len(chunk) + 1))
    assert answer.status == 400
    assert "bytes" in answer.detail


@pytest.mark.parametrize(
    ("query", "named"),
    [
        ("amount=1001", "amount"),
        ("amount=-2", "amount"),
        ("amount=many", "amount"),
        ("amount=99999999999999999999999999", "amount"),
        ("show_hidden=perhaps", "show_hidden"),
        ("prefix=%ff", "UTF-8"),
    ],
)
async def test_a_parameter_that_does_not_fit_is_named(admin: AsgiClient, query: str, named: str) -> None:
    answer = await admin("GET", f"{REPO}/branches", query=query)
    assert answer.status == 400
    assert named in answer.detail


async def test_bad_parameters_are_told_before_anyone_is_asked_who_they_are(rest: Rest) -> None:
    answer = await rest.anonymous("GET", f"{REPO}/branches", query="amount=many")
    assert answer.status == 400


async def test_a_path_that_is_not_utf_8_is_refused(admin: AsgiClient) -> None:
    answer = await admin("GET", "/repositories/%ff%fe")
    assert answer.status == 400
    assert "UTF-8" in answer.detail


@pytest.mark.parametrize(
    "authorization",
    [
        "",
        "Basic",
        "Basic !!!",
        "Basic /w==",
        "Basic bm9jb2xvbg==",
        "Bearer",
        "Bearer a.b.c",
        "Digest x",
        "x" * 9000,
    ],
)
async def test_a_credential_that_is_none_is_401(rest: Rest, authorization: str) -> None:
    answer = await rest.admin.as_user(authorization)("GET", "/user")
    assert (answer.status, answer.message) == (401, "error authenticating request")


@pytest.mark.parametrize("path", ["", "x" * 1025, "é" * 513, "x" * 100_000])
async def test_a_path_that_cannot_be_one_is_refused(admin: AsgiClient, path: str) -> None:
    answer = await admin("POST", OBJECTS, query={"path": path}, body=b"x")
    assert answer.status == 400
    assert "path" in answer.detail


async def test_an_upload_without_a_path_is_refused(admin: AsgiClient) -> None:
    answer = await admin("POST", OBJECTS, body=b"x")
    assert answer.status == 400
    assert "path" in answer.detail


@pytest.mark.parametrize(
    "content_type",
    ["multipart/form-data", "multipart/form-data; boundary=", "multipart/form-data; boundary=x"],
)
async def test_a_broken_form_is_refused(admin: AsgiClient, content_type: str) -> None:
    answer = await admin(
        "POST", OBJECTS, query="path=a", body=b"not a form", headers={"content-type": content_type}
    )
    assert answer.status == 400
    assert (await admin("GET", f"{REPO}/refs/main/objects/stat", query="path=a")).status == 404


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"--x",
        b"--x--\r\n",
        b"--x\r\n\r\n",
        b'--x\r\nContent-Disposition: form-data; name="other"\r\n\r\nabc\r\n--x--\r\n',
        b'--x\r\nContent-Disposition: form-data; name="content"\r\n\r\n',
        b'--x\r\nContent-Disposition: form-data; name="content"\r\n\r\nabc',
        b'--x\r\nContent-Disposition: form-data; name="content"\r\n\r\nabc\r\n--',
        b"--x\r\n" + b"X" * 100_000,
    ],
)
async def test_a_form_that_has_no_whole_content_is_refused(admin: AsgiClient, body: bytes) -> None:
    headers = {"content-type": "multipart/form-data; boundary=x"}
    for pieces in ([body], [body[at : at + 1] for at in range(min(len(body), 500))] + [body[500:]]):
        answer = await admin("POST", OBJECTS, query="path=a", body=pieces, headers=headers)
        assert answer.status == 400
    assert (await admin("GET", f"{REPO}/refs/main/objects/stat", query="path=a")).status == 404


async def test_a_boundary_longer_than_any_is_refused(admin: AsgiClient) -> None:
    headers = {"content-type": "multipart/form-data; boundary=" + "x" * 30_000}
    answer = await admin("POST", OBJECTS, query="path=a", body=b"--", headers=headers)
    assert answer.status == 400
    assert "boundary" in answer.detail


@pytest.mark.parametrize("header", ["lines=1-2", "bytes=a-b", "bytes=", "5", "bytes=12"])
async def test_what_is_no_range_of_bytes_is_400(admin: AsgiClient, header: str) -> None:
    await admin("POST", OBJECTS, query="path=a", body=b"12345")
    for method in ("GET", "HEAD"):
        answer = await admin(method, f"{REPO}/refs/main/objects", query="path=a", headers={"range": header})
        assert answer.status == 400


@pytest.mark.parametrize(
    "header",
    [
        *("bytes=5-", "bytes=9-10", "bytes=2-1", "bytes=-0", "bytes=-", "bytes=0-1,2-3"),
        *(f"bytes={'9' * 5000}-", f"bytes=-{'9' * 30}"),
    ],
)
async def test_a_bad_range_is_416(admin: AsgiClient, header: str) -> None:
    await admin("POST", OBJECTS, query="path=a", body=b"12345")
    answer = await admin("GET", f"{REPO}/refs/main/objects", query="path=a", headers={"range": header})
    assert answer.status == 416
    head = await admin("HEAD", f"{REPO}/refs/main/objects", query="path=a", headers={"range": header})
    assert (head.status, head.body) == (416, b"")
    for each in (answer, head):
        assert each.headers["x-lakebed-error-kind"] == "range-not-satisfiable"


async def test_a_range_past_the_end_tells_how_long_the_object_is(admin: AsgiClient) -> None:
    await admin("POST", OBJECTS, query="path=a", body=b"12345")
    answer = await admin("GET", f"{REPO}/refs/main/objects", query="path=a", headers={"range": "bytes=5-"})
    assert answer.headers["content-range"] == "bytes */5"


@pytest.mark.parametrize("since", ["yesterday", "2020-13-01T00:00:00Z", "2020-01-01", "0", "-1"])
async def test_a_date_that_is_none_is_named(admin: AsgiClient, since: str) -> None:
    answer = await admin("GET", f"{REPO}/refs/main/commits", query={"since": since})
    assert answer.status == 400
    assert "since" in answer.detail


@pytest.mark.parametrize(
    "ref", ["none", "main~99999999999999999999", "main^^^^9", "~", "@{", "a b", "%00", "..", "$"]
)
async def test_a_ref_that_is_none_is_4xx(admin: AsgiClient, ref: str) -> None:
    answer = await admin("GET", f"{REPO}/refs/{ref}/objects/ls")
    assert answer.status in (400, 404)


async def test_numbers_that_cannot_be_stored_are_named(admin: AsgiClient) -> None:
    for field, value in (("size_bytes", 2**63), ("size_bytes", -1), ("mtime", 10**20), ("mtime", -1)):
        body = {"physical_address": "mem://x/y", "checksum": "c", "size_bytes": 1, field: value}
        answer = await admin("PUT", OBJECTS, query="path=a", json=body)
        assert answer.status == 400
        assert field in answer.detail
    answer = await admin("POST", f"{REPO}/branches/main/commits", json={"message": "m", "date": 10**30})
    assert answer.status == 400
    assert "date" in answer.detail


async def test_page_tokens_may_come_again_in_any_order(rest: Rest) -> None:
    await rest.lake.put("main", **{name: name for name in "abcdef"})
    for after in ("d", "b", "d", "zzz", "", "b"):
        answer = await rest.admin("GET", f"{REPO}/refs/main/objects/ls", query={"after": after, "amount": 2})
        expected = [name for name in "abcdef" if name > after]
        assert [each["path"] for each in answer.json()["results"]] == expected[:2]
        assert answer.json()["pagination"]["has_more"] == (len(expected) > 2)


async def test_whoever_hangs_up_during_an_upload_leaves_nothing(admin: AsgiClient) -> None:
    answer = await admin("POST", OBJECTS, query="path=half", body=[b"first half"], hang_up=True)
    assert answer.status == 499
    assert (await admin("GET", f"{REPO}/refs/main/objects/stat", query="path=half")).status == 404


JUNK: tuple[Any, ...] = (
    None, True, -1, 0, 2**31, 2**64, 1.5, "", "x", "main", "lake", "a/b", "../..", "\0", "é" * 600, "x" * 5000,
    "mem://x/y", "s3://", "://", "*", "0" * 64, [], [None], ["a", "a"], {}, {"a": 1}, [{}],
)  # fmt: skip


def _mangled(value: Any, chance: random.Random) -> Any:
    """Return the value with something in it replaced by junk."""
    if isinstance(value, dict) and value and chance.random() < 0.8:
        key = chance.choice(sorted(value))
        return {**value, key: _mangled(value[key], chance)}
    if isinstance(value, list) and value and chance.random() < 0.5:
        return [_mangled(value[0], chance)]
    return chance.choice(JUNK)


@pytest.mark.parametrize("seed", range(4))
async def test_no_junk_in_any_operation_is_an_error_of_ours(rest: Rest, seed: int) -> None:
    chance = random.Random(seed)
    await rest.lake.commit("main", **{"a/b": "content"})
    await rest.lake.catalog.branches.create("lake", "feature", "main")
    for operation in OPERATIONS:
        if operation.id in ("deleteRepository", "deleteUser", "setup"):
            continue
        for _ in range(8):
            sent = sample(operation)
            spoiled = chance.choice(["path", "query", "body", "more"])
            if spoiled == "path" and sent.path:
                name = chance.choice(sorted(sent.path))
                sent.path[name] = chance.choice([str(each) for each in JUNK if str(each)])
            elif spoiled == "body" and not isinstance(operation.body, Body):
                object.__setattr__(sent, "body", _mangled(sent.body, chance))
            elif operation.query is not None:
                name = chance.choice([each.encode_name for each in fields(operation.query)])
                sent.query[name] = chance.choice(JUNK)
            answer = await sent.send(rest.admin)
            assert answer.status < 500 or answer.status == 501, (operation.id, sent, answer)


@pytest.mark.parametrize("operation", [each for each in OPERATIONS if each.query], ids=lambda each: each.id)
async def test_an_empty_query_parameter_counts_as_absent(admin: AsgiClient, operation: Operation) -> None:
    assert operation.query is not None
    decode = Parameters(operation.query, where="query").from_query
    request = sample(operation)
    given = urlencode(request.query)
    optional = [each.encode_name for each in fields(operation.query) if not each.required]
    for name in optional:
        assert (
            decode(f"{name}=&{given}".encode())
            == decode(f"{given}&{name}".encode())
            == decode(given.encode())
        )
    if operation.method == "GET":
        empty = "&".join(f"{name}=" for name in optional)
        absent, answer = [
            await admin("GET", request.url, query=query) for query in (given, f"{empty}&{given}")
        ]
        assert answer.status == absent.status


@pytest.mark.parametrize(
    "operation",
    [each for each in OPERATIONS if each.query and any(one.required for one in fields(each.query))],
    ids=lambda each: each.id,
)
async def test_a_required_query_parameter_cannot_be_empty(admin: AsgiClient, operation: Operation) -> None:
    request = sample(operation)
    for name in request.query:
        answer = await replace(request, query={**request.query, name: ""}).send(admin)
        assert answer.status in (400, 501)
