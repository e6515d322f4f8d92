"""Addresses given out to be written by clients: linked once, in time, to the path they were given out for."""

from typing import Any

import pytest

from lakebed.auth.statements import StatementDocument
from lakebed.format.links import decode_link
from lakebed.limits import CLAIM_SECONDS, LINK_LIFETIME_SECONDS
from lakebed.refs.keys import link_key
from lakebed.testing.asgi import Answer, AsgiClient
from lakebed.testing.rest import Rest, open_rest
from tests.api.later import Later
from tests.s3.site import site_of

BACKING = "/repositories/lake/branches/main/staging/backing"
STAT = "/repositories/lake/refs/main/objects/stat"


async def _issue(client: AsgiClient, path: str = "a") -> str:
    answer = await client("GET", BACKING, query={"path": path})
    assert answer.status == 200
    return str(answer.json()["physical_address"])


async def _link(
    client: AsgiClient, address: str, path: str = "a", *, headers: dict[str, str] | None = None, **more: Any
) -> Answer:
    body = {"staging": {"physical_address": address}, "checksum": '"abc"', "size_bytes": 3, **more}
    return await client("PUT", BACKING, query={"path": path}, json=body, headers=headers)


async def test_a_link_shows_the_object_at_its_path(admin: AsgiClient) -> None:
    address = await _issue(admin)
    answer = await _link(admin, address, content_type="text/csv", user_metadata={"k": "v"})
    assert answer.status == 200
    stat = (await admin("GET", STAT, query={"path": "a"})).json()
    assert stat == answer.json()
    assert (stat["physical_address"], stat["checksum"], stat["size_bytes"]) == (address, "abc", 3)
    assert (stat["content_type"], stat["metadata"]) == ("text/csv", {"k": "v"})


async def test_repeating_a_link_that_stands_is_the_same_success(admin: AsgiClient) -> None:
    address = await _issue(admin)
    first = await _link(admin, address)
    again = await _link(admin, address)
    assert (again.status, again.json()) == (200, first.json())


async def test_an_address_is_linked_once() -> None:
    clock = Later()
    async with open_rest(clock=clock) as rest:
        address = await _issue(rest.admin)
        await _link(rest.admin, address)
        await rest.admin("DELETE", "/repositories/lake/branches/main/objects", query={"path": "a"})
        early = await _link(rest.admin, address)
        clock.ahead = CLAIM_SECONDS + 1
        late = await _link(rest.admin, address)
        assert (early.status, late.status) == (503, 400)
        assert "ask for a new address" in late.detail
        assert (await rest.admin("GET", STAT, query={"path": "a"})).status == 404


async def test_another_checksum_is_another_link(admin: AsgiClient) -> None:
    address = await _issue(admin)
    await _link(admin, address)
    assert (await _link(admin, address, checksum="other")).status == 400


@pytest.mark.parametrize(
    "address", ["mem://lake/data/x/y", "mem://other/data/x", "/etc/passwd", "", "mem://lake"]
)
async def test_an_address_that_was_not_given_out_is_refused(admin: AsgiClient, address: str) -> None:
    assert (await _link(admin, address)).status == 400


async def test_an_address_is_for_one_path(admin: AsgiClient) -> None:
    assert (await _link(admin, await _issue(admin, "a"), "b")).status == 400


async def test_a_link_keeps_its_condition(admin: AsgiClient) -> None:
    await _link(admin, await _issue(admin))
    refused = await _link(admin, await _issue(admin), headers={"if-none-match": "*"})
    assert refused.status == 412
    taken = await _link(admin, await _issue(admin), headers={"if-match": '"abc"'}, checksum="def")
    assert taken.status == 200


async def test_a_link_that_comes_too_late_is_refused() -> None:
    clock = Later()
    async with open_rest(clock=clock) as rest:
        address = await _issue(rest.admin)
        clock.ahead = LINK_LIFETIME_SECONDS + 1
        answer = await _link(rest.admin, address)
        assert answer.status == 400
        assert "expired" in answer.detail


async def test_a_link_cannot_expire_while_it_is_being_written(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Later()
    async with open_rest(clock=clock) as rest:
        address = await _issue(rest.admin)
        clock.ahead = LINK_LIFETIME_SECONDS - 1
        kept: list[bool] = []
        staging = rest.lake.engine.parts.staging
        write = staging.write

        async def slow(*args: Any, **kwargs: Any) -> None:
            clock.ahead += 60
            repo = await rest.lake.engine.repo("lake")
            item = await rest.lake.kv.get(repo.partition, link_key(address.removeprefix("mem://lake/")))
            assert item is not None
            kept.append(decode_link(item.value).expires_at > clock.now())
            await write(*args, **kwargs)

        monkeypatch.setattr(staging, "write", slow)
        assert (await _link(rest.admin, address)).status == 200
        assert kept == [True]
        assert (await _link(rest.admin, address)).status == 200, "the token is marked used as it is now"


async def test_whoever_may_only_list_gets_no_urls(rest: Rest) -> None:
    await rest.lake.put("main", a="1")
    listing = StatementDocument(effect="allow", action=["fs:ListObjects"], resource="*")
    await rest.auth.policies.create("List", [listing])
    user = await rest.user("lister")
    await rest.auth.attachments.attach_to_user("lister", "List")
    path = "/repositories/lake/refs/main/objects/ls"
    assert (await user("GET", path)).status == 200
    assert (await user("GET", path, query={"presign": "true"})).status == 401


async def test_a_store_that_cannot_sign_says_so(admin: AsgiClient) -> None:
    answer = await admin("GET", BACKING, query={"path": "a", "presign": "true"})
    assert answer.status == 400
    assert "presign" in answer.detail


@pytest.mark.parametrize("size", [0, 100, 3_000_000, 2**62])
async def test_an_object_of_another_size_than_it_was_staged_with_is_refused_on_both_edges(
    rest: Rest, size: int
) -> None:
    address = await _issue(rest.admin)
    store = await rest.lake.engine.store_of(rest.lake.repo)
    await store.put(address.removeprefix("mem://lake/"), b"0123456789")
    assert (await _link(rest.admin, address, size_bytes=size)).status == 200

    answer = await rest.admin("GET", "/repositories/lake/refs/main/objects", query={"path": "a"})

    assert answer.status == 410
    assert f"the {size} bytes that it was staged with" in answer.detail
    if size:
        site = await site_of(rest)
        assert (await site.send(site.signed("GET", "/lake/main/a")))[0] == 410
