"""Uploads in parts where an S3 server would not show what goes wrong in between."""

from collections.abc import Sequence

import pytest

from lakebed.catalog.link_tokens import LinkTokens
from lakebed.catalog.multipart import UploadOf
from lakebed.errors import NotFoundError
from lakebed.format.links import decode_link
from lakebed.limits import GRACE_SECONDS, LINK_LIFETIME_SECONDS, METADATA_BYTES_MAX, SLICE_SECONDS
from lakebed.model.ids import BranchName, Path
from lakebed.objects.drivers.memory import MemoryObjects
from lakebed.objects.open_stores import LeasedObjects
from lakebed.objects.port import Capabilities, ETag, Part
from lakebed.refs.keys import link_key
from lakebed.testing.asgi import Answer
from lakebed.testing.rest import Rest, open_rest
from tests.api.later import Later

UPLOADS = "/repositories/lake/branches/main/staging/pmpu"
STAT = "/repositories/lake/refs/main/objects/stat"
PATH = {"path": "a"}


async def _signing(rest: Rest, patch: pytest.MonkeyPatch) -> MemoryObjects:
    """Let the store in memory pretend that somebody could use its URLs."""
    leased = await rest.lake.engine.store_of(await rest.lake.engine.repo("lake"))
    assert isinstance(leased, LeasedObjects)
    store = (await leased._stores.lease(leased._place)).store
    assert isinstance(store, MemoryObjects)

    async def sign_parts(key: str, upload: str, numbers: Sequence[int], *, seconds: int) -> Sequence[str]:
        return [f"{key}?{upload}&{number}&{seconds}" for number in numbers]

    patch.setattr(store, "capabilities", Capabilities(if_match=True, sign=True, multipart=True))
    patch.setattr(store, "sign_parts", sign_parts)
    return store


class Sent:
    """An upload of two parts that were sent."""

    def __init__(self, rest: Rest, store: MemoryObjects, begun: Answer, parts: list[Part]) -> None:
        self.rest = rest
        self.store = store
        self.upload = str(begun.json()["upload_id"])
        self.address = str(begun.json()["physical_address"])
        self.key = self.address.removeprefix("mem://lake/")
        self.parts = parts

    async def complete(self) -> Answer:
        parts = [{"part_number": part.number, "etag": part.etag} for part in self.parts]
        body = {"physical_address": self.address, "parts": parts}
        return await self.rest.admin("PUT", f"{UPLOADS}/{self.upload}", query=PATH, json=body)

    async def abort(self) -> Answer:
        body = {"physical_address": self.address}
        return await self.rest.admin("DELETE", f"{UPLOADS}/{self.upload}", query=PATH, json=body)


async def _sent(rest: Rest, patch: pytest.MonkeyPatch) -> Sent:
    store = await _signing(rest, patch)
    begun = await rest.admin("POST", UPLOADS, query={**PATH, "parts": 2})
    assert begun.status == 201
    upload, key = begun.json()["upload_id"], begun.json()["physical_address"].removeprefix("mem://lake/")
    parts = [await store.put_part(key, upload, number, b"%d" % number) for number in (1, 2)]
    return Sent(rest, store, begun, parts)


async def test_what_was_completed_and_not_linked_is_linked_when_asked_again(
    rest: Rest, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = await _sent(rest, monkeypatch)
    etag = await sent.store.complete_upload(sent.key, sent.upload, sent.parts)
    completed = await sent.complete()
    assert (completed.status, completed.json()["checksum"]) == (200, etag)
    assert (await rest.admin("GET", STAT, query=PATH)).json() == completed.json()


async def test_a_store_that_lost_the_upload_and_has_no_object_is_404(
    rest: Rest, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = await _sent(rest, monkeypatch)
    await sent.store.abort_upload(sent.key, sent.upload)
    assert (await sent.complete()).status == 404
    assert (await rest.admin("GET", STAT, query=PATH)).status == 404


async def test_an_abort_that_stopped_half_way_still_ends_the_upload(
    rest: Rest, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = await _sent(rest, monkeypatch)

    async def dies(key: str, upload: str) -> None:
        raise ZeroDivisionError

    with monkeypatch.context() as patch:
        patch.setattr(sent.store, "abort_upload", dies)
        with pytest.raises(ZeroDivisionError):
            await rest.lake.catalog.multipart.abort(
                UploadOf(repo_name="lake", branch="main", path="a", upload=sent.upload, address=sent.address)
            )
    assert (await sent.complete()).status == 400
    assert (await sent.abort()).status == 204
    assert (await rest.admin("GET", STAT, query=PATH)).status == 404


async def test_an_upload_that_nobody_completed_in_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Later()
    async with open_rest(clock=clock) as rest:
        sent = await _sent(rest, monkeypatch)
        clock.ahead = LINK_LIFETIME_SECONDS + 1
        assert "expired" in (await sent.complete()).detail
        assert await sent.store.head(sent.key) is None, "nor does the store make it"
        body = {"physical_address": sent.address}
        refused = await rest.admin("PUT", f"{UPLOADS}/{sent.upload}/parts/3", query=PATH, json=body)
        assert refused.status == 400
        assert (await sent.abort()).status == 204, "its parts can still be freed"


async def test_what_nobody_completed_is_aborted_and_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Later()
    async with open_rest(clock=clock) as rest:
        lost, completed = await _sent(rest, monkeypatch), await _sent(rest, monkeypatch)
        assert (await completed.complete()).status == 200
        repo, tokens = await rest.lake.engine.repo("lake"), LinkTokens(rest.lake.engine)
        clock.ahead = LINK_LIFETIME_SECONDS + GRACE_SECONDS + SLICE_SECONDS - 60
        fresh = await _sent(rest, monkeypatch)
        assert await tokens.sweep(repo) == 0, "too young"
        clock.ahead += 120
        assert await tokens.sweep(repo) == 2
        assert await tokens.sweep(repo) == 0
        with pytest.raises(NotFoundError):
            await lost.store.put_part(lost.key, lost.upload, 1, b"x")
        assert (await lost.complete()).status == 400
        assert (await rest.admin("GET", STAT, query=PATH)).json()["physical_address"] == completed.address
        assert (await fresh.complete()).status == 200


async def test_an_old_address_whose_token_is_good_is_not_forgotten() -> None:
    clock = Later()
    async with open_rest(clock=clock) as rest:
        engine = rest.lake.engine
        repo, tokens = await engine.repo("lake"), LinkTokens(engine)
        address = engine.slices.next_address(clock.now())
        clock.ahead = 2 * LINK_LIFETIME_SECONDS
        await tokens.give_out(repo, BranchName("main"), Path("a"), address=address, now=clock.now())
        assert await tokens.sweep(repo) == 0
        clock.ahead += LINK_LIFETIME_SECONDS + 60
        assert await tokens.sweep(repo) == 0, "a grace is a grace"
        clock.ahead += GRACE_SECONDS
        assert await tokens.sweep(repo) == 1


async def test_the_token_of_an_upload_names_it(rest: Rest, monkeypatch: pytest.MonkeyPatch) -> None:
    sent = await _sent(rest, monkeypatch)
    repo = await rest.lake.engine.repo("lake")
    item = await rest.lake.kv.get(repo.partition, link_key(sent.key))
    assert item is not None
    token = decode_link(item.value)
    assert (token.upload, token.path, token.used_at) == (sent.upload, "a", None)
    etag = ETag((await sent.complete()).json()["checksum"])
    item = await rest.lake.kv.get(repo.partition, link_key(sent.key))
    assert item is not None
    token = decode_link(item.value)
    assert token.used_at is not None
    assert token.checksum == etag


async def test_too_much_metadata_completes_nothing(rest: Rest, monkeypatch: pytest.MonkeyPatch) -> None:
    sent = await _sent(rest, monkeypatch)
    body = {"physical_address": sent.address, "parts": [], "user_metadata": {"k": "x" * METADATA_BYTES_MAX}}
    answer = await rest.admin("PUT", f"{UPLOADS}/{sent.upload}", query=PATH, json=body)
    assert answer.status == 400
    assert "metadata" in answer.detail
    assert (await sent.complete()).status == 200


@pytest.mark.parametrize("number", ["0", "10001", "-1", "x", "1.0", "%C2%B2", "9" * 5000])
async def test_a_part_has_a_number(rest: Rest, monkeypatch: pytest.MonkeyPatch, number: str) -> None:
    sent = await _sent(rest, monkeypatch)
    body = {"physical_address": sent.address}
    answer = await rest.admin("PUT", f"{UPLOADS}/{sent.upload}/parts/{number}", query=PATH, json=body)
    assert answer.status == 400
    assert "partNumber" in answer.detail
