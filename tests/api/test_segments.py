"""Ready segments over REST: staged whole, once, by whoever may write there; or refused by row or field."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakebed.auth.statements import StatementDocument
from lakebed.format import segments as segment_format
from lakebed.format.blocks import CHANGE_SCHEMA
from lakebed.format.handed_in import DATASET, changes_of, segment_of
from lakebed.format.links import decode_link
from lakebed.format.segments import encode_segment
from lakebed.limits import GRACE_SECONDS, LINK_LIFETIME_SECONDS, SEALED_LAYERS_SLOWDOWN
from lakebed.model.ids import BranchName
from lakebed.model.layers import TokenLayer
from lakebed.objects.external import ExternalAddresses
from lakebed.refs.keys import link_key
from lakebed.testing.asgi import Answer, AsgiClient
from lakebed.testing.lake import COMMIT
from lakebed.testing.rest import Rest, open_rest
from tests.api.later import Later

SEGMENTS = "/repositories/lake/branches/main/staging/segments"
BACKING = "/repositories/lake/branches/main/staging/backing"
LIST = "/repositories/lake/refs/main/objects/ls"
ID = "0123456789abcdefghij"


def deletions(*paths: str) -> bytes:
    """A segment that refers to no address."""
    return segment_of(table([{"path": path, "deleted": True} for path in paths]))


def table(rows: list[dict[str, Any]]) -> pa.Table:
    names = ("path", "address", "checksum", "size", "mtime", "content_type", "metadata", "deleted")
    types = {"size": pa.int64(), "mtime": pa.int64(), "deleted": pa.bool_()}
    columns = {n: pa.array([row.get(n) for row in rows], types.get(n, pa.string())) for n in names}
    return pa.table(columns)


def linked(path: str, address: str, **more: Any) -> dict[str, Any]:
    return {"path": path, "address": address, "checksum": "abc", "size": 3, "mtime": 5_000_000, **more}


async def issue(client: AsgiClient, path: str) -> str:
    answer = await client("GET", BACKING, query={"path": path})
    return str(answer.json()["physical_address"])


async def hand_in(client: AsgiClient, data: bytes, **query: Any) -> Answer:
    return await client("POST", SEGMENTS, query=query, body=[data[:100], data[100:]])


async def listed(client: AsgiClient) -> list[str]:
    return [each["path"] for each in (await client("GET", LIST)).json()["results"]]


async def layers(rest: Rest) -> tuple[Any, ...]:
    return (await rest.lake.engine.parts.branches.get(rest.lake.repo, BranchName("main"))).value.sealed


async def segment_files(rest: Rest) -> list[str]:
    store = await rest.lake.engine.store_of(rest.lake.repo)
    return [info.key async for infos in store.list("_lakebed/segments/") for info in infos]


async def test_a_segment_is_staged_whole_over_what_is_there(rest: Rest) -> None:
    await rest.lake.put("main", a="1", gone="2")
    paths = ["a", "b/é", "c"]
    rows = [linked(path, await issue(rest.admin, path), metadata='{"k": "v"}') for path in paths]

    answer = await hand_in(rest.admin, segment_of(table([*rows, {"path": "gone", "deleted": True}])))

    assert answer.status == 201, answer
    assert (answer.json()["entries"], answer.json()["tombstones"]) == (3, 1)
    assert await listed(rest.admin) == paths
    stat = (await rest.admin("GET", "/repositories/lake/refs/main/objects/stat", query={"path": "a"})).json()
    assert (
        stat["physical_address"],
        stat["checksum"],
        stat["size_bytes"],
        stat["mtime"],
        stat["metadata"],
    ) == (
        rows[0]["address"],
        "abc",
        3,
        5,
        {"k": "v"},
    )
    assert (
        await rest.admin("POST", "/repositories/lake/branches/main/commits", json={"message": "m"})
    ).status == 201
    assert await listed(rest.admin) == paths


async def test_what_is_written_later_lies_above(rest: Rest) -> None:
    assert (await hand_in(rest.admin, deletions("a"))).status == 201
    await rest.lake.put("main", a="later")

    assert await listed(rest.admin) == ["a"]


async def test_a_repeated_request_stages_nothing_more_and_answers_the_same(rest: Rest) -> None:
    address = await issue(rest.admin, "a")
    data = segment_of(table([linked("a", address)]))
    first = await hand_in(rest.admin, data, id=ID)
    again = await hand_in(rest.admin, data, id=ID)

    assert (again.status, again.json()) == (first.status, first.json()) == (201, first.json())
    assert len(await layers(rest)) == 1
    assert len(await segment_files(rest)) == 1


async def test_a_repeated_request_is_known_after_it_was_committed(rest: Rest) -> None:
    data = segment_of(table([linked("a", await issue(rest.admin, "a"))]))
    first = await hand_in(rest.admin, data, id=ID)
    await rest.lake.catalog.commits.commit("lake", "main", COMMIT)

    assert (await hand_in(rest.admin, data, id=ID)).json() == first.json()
    assert await layers(rest) == ()


async def test_the_same_id_is_another_segment_with_other_rows_and_on_another_branch(rest: Rest) -> None:
    await rest.lake.catalog.branches.create("lake", "dev", "main")
    assert (await hand_in(rest.admin, deletions("a"), id=ID)).status == 201
    assert (await hand_in(rest.admin, deletions("b"), id=ID)).status == 201
    other = await rest.admin("POST", SEGMENTS.replace("main", "dev"), query={"id": ID}, body=deletions("a"))

    assert other.status == 201
    assert len(await layers(rest)) == 2
    assert len(await segment_files(rest)) == 3
    assert (await rest.admin("GET", LIST.replace("main", "dev"))).status == 200


@pytest.mark.parametrize("id_", ["short", "ABCDEFGHIJ0123456789", "x" * 20, ID + "0"])
async def test_an_id_has_twenty_characters(admin: AsgiClient, id_: str) -> None:
    assert (await hand_in(admin, deletions("a"), id=id_)).status == 400


def _wrong(monkeypatch: pytest.MonkeyPatch, block: pa.Table) -> bytes:
    monkeypatch.setattr(segment_format, "_rise_apart", lambda keys, starts: True)
    return encode_segment({DATASET: block})


BLOCK = changes_of(table([{"path": path, "deleted": True} for path in "abc"]))


@pytest.mark.parametrize(
    ("rows", "why"),
    [
        ([0, 2, 1], "row 2: key is not greater"),
        ([0, 1, 1], "row 2: key is not greater"),
    ],
)
async def test_keys_that_do_not_rise_are_refused_by_row(
    rest: Rest, monkeypatch: pytest.MonkeyPatch, rows: list[int], why: str
) -> None:
    answer = await hand_in(rest.admin, _wrong(monkeypatch, BLOCK.take(pa.array(rows))))

    assert answer.status == 400
    assert why in answer.detail
    assert await segment_files(rest) == []


GOOD = encode_segment({DATASET: BLOCK})


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "only 0 bytes"),
        (b"PAR1", "only 4 bytes"),
        (b"no parquet at all", "does not end like Parquet"),
        (GOOD[:-1], "does not end like Parquet"),
        (GOOD[:50] + GOOD[80:], "segment"),
        (GOOD.replace(b'"tombstones":3', b'"tombstones":2'), "lakebed.checksum does not fit"),
        (encode_segment({"one": BLOCK, "two": BLOCK}), "2 datasets"),
    ],
    ids=["empty", "four bytes", "text", "torn", "hole", "statistics", "two datasets"],
)
async def test_what_is_no_segment_is_refused_and_leaves_nothing(rest: Rest, data: bytes, why: str) -> None:
    answer = await hand_in(rest.admin, data)

    assert answer.status == 400
    assert why in answer.detail
    assert await segment_files(rest) == []
    assert await layers(rest) == ()


async def test_other_columns_are_refused(admin: AsgiClient, monkeypatch: pytest.MonkeyPatch) -> None:
    schema = CHANGE_SCHEMA.remove(CHANGE_SCHEMA.get_field_index("mtime"))
    with monkeypatch.context() as patch:
        kind = replace(segment_format.SEGMENT_FILE, schema=schema)
        patch.setattr(segment_format, "SEGMENT_FILE", kind)
        patch.setattr(segment_format, "changes_hashes", lambda block, counts: ["0" * 64])
        data = encode_segment({DATASET: BLOCK.select(schema.names)})

    answer = await hand_in(admin, data)

    assert answer.status == 400
    assert "other columns" in answer.detail


async def test_a_body_without_end_is_refused(rest: Rest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakebed.catalog.segments.SEGMENT_BYTES_MAX", 120)
    answer = await hand_in(rest.admin, GOOD)

    assert answer.status == 400
    assert "more than 120 bytes" in answer.detail


async def test_a_client_that_hangs_up_leaves_nothing(rest: Rest) -> None:
    await rest.admin("POST", SEGMENTS, body=[GOOD], hang_up=True)

    assert await segment_files(rest) == []
    assert await layers(rest) == ()


async def test_an_address_inside_is_for_the_path_it_was_given_out_for_and_for_one_link(rest: Rest) -> None:
    address = await issue(rest.admin, "a")
    for row in (
        linked("b", address),
        linked("a", "mem://lake/data/00000000000000000000/00000000000000000000"),
        linked("a", "data/00000000000000000000/00000000000000000000"),
    ):
        refused = await hand_in(rest.admin, segment_of(table([row])))
        assert refused.status == 400
        assert "was not given out" in refused.detail
    assert (await hand_in(rest.admin, segment_of(table([linked("a", address)])))).status == 201

    used = await hand_in(rest.admin, segment_of(table([linked("a", address)])))
    assert used.status == 400
    assert "linked before" in used.detail


@pytest.mark.parametrize(
    "address",
    [
        "mem://lake/_lakebed/owner-x",
        "mem://lake/data/../x",
        "data/x",
        "/etc/passwd",
        "s3://bucket/folder/",
        "s3://bucket/..",
        "s3://bucket/a\nb",
    ],
)
async def test_what_is_no_address_is_refused_by_row(admin: AsgiClient, address: str) -> None:
    answer = await hand_in(admin, segment_of(table([linked("a", address)])))

    assert answer.status == 400
    assert "row 0: address" in answer.detail


async def test_a_token_that_ended_is_refused_and_one_that_is_about_to_lasts_until_it_is_staged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = Later()
    async with open_rest(clock=clock) as rest:
        address = await issue(rest.admin, "a")
        clock.ahead = LINK_LIFETIME_SECONDS - 1
        seen: list[float] = []
        staging = rest.lake.engine.parts.staging
        honest = staging.hand_in

        async def slow(*args: Any, **kwargs: Any) -> Any:
            item = await rest.lake.kv.get(
                rest.lake.repo.partition, link_key(address.removeprefix("mem://lake/"))
            )
            assert item is not None
            seen.append((decode_link(item.value).expires_at - clock.now()) / 1e6)
            return await honest(*args, **kwargs)

        monkeypatch.setattr(staging, "hand_in", slow)
        data = segment_of(table([linked("a", address)]))
        assert (await hand_in(rest.admin, data)).status == 201
        assert seen[0] > GRACE_SECONDS / 2

        other = await issue(rest.admin, "b")
        clock.ahead += LINK_LIFETIME_SECONDS + 1
        late = await hand_in(rest.admin, segment_of(table([linked("b", other)])))
        assert (late.status, "expired" in late.detail) == (400, True)


@pytest.fixture
async def outside(tmp_path: Path) -> AsyncIterator[tuple[Rest, Path]]:
    """An API that imports from a folder, in which another repository has its storage."""
    async with open_rest() as rest:
        (tmp_path / "open" / "lake").mkdir(parents=True)
        namespaces = [f"local://{tmp_path}/open/lake"]
        external = ExternalAddresses(
            import_prefixes=[f"local://{tmp_path}/open"], namespaces=lambda: namespaces
        )
        object.__setattr__(rest.lake.engine, "external", external)
        yield rest, tmp_path


async def test_addresses_outside_are_taken_from_where_imports_are(outside: tuple[Rest, Path]) -> None:
    rest, folder = outside
    places = ["a/0", "a/1", "b/2", "beside-a-repository"]
    rows = [linked(f"x{n}", f"local://{folder}/open/{place}") for n, place in enumerate(places)]

    assert (await hand_in(rest.admin, segment_of(table(rows)))).status == 201
    assert await listed(rest.admin) == ["x0", "x1", "x2", "x3"]


@pytest.mark.parametrize(
    ("place", "status"),
    [
        ("elsewhere/file", 403),
        ("open/lake/data/file", 403),
        ("open/lake", 403),
        ("open/../elsewhere/file", 400),
    ],
)
async def test_an_address_elsewhere_or_in_another_repository_is_refused_by_row(
    outside: tuple[Rest, Path], place: str, status: int
) -> None:
    rest, folder = outside
    rows = [linked("a", f"local://{folder}/open/fine"), linked("b", f"local://{folder}/{place}")]

    answer = await hand_in(rest.admin, segment_of(table(rows)))

    assert answer.status == status
    assert "row 1: " in answer.detail
    assert await layers(rest) == ()


async def test_a_protected_branch_takes_no_segment(rest: Rest) -> None:
    rules = [{"pattern": "main", "blocked_actions": ["staging_write"]}]
    await rest.admin("PUT", "/repositories/lake/settings/branch_protection", json=rules)

    assert (await hand_in(rest.admin, deletions("a"))).status == 403


async def test_a_branch_without_room_asks_to_wait(rest: Rest) -> None:
    full = tuple(TokenLayer(token=f"t{n}", seq=n) for n in range(SEALED_LAYERS_SLOWDOWN, 0, -1))
    await rest.lake.engine.parts.branches.update(
        rest.lake.repo,
        BranchName("main"),
        lambda branch, _now: replace(branch, sealed=full, next_seq=100),
        landed=lambda branch: bool(branch.sealed),
    )
    for query in ({}, {"id": ID}):
        answer = await hand_in(rest.admin, deletions("a"), **query)
        assert answer.status == 429
        assert answer.headers["retry-after"] == "1"


async def test_a_branch_that_does_not_exist_is_not_found(rest: Rest) -> None:
    answer = await rest.admin("POST", SEGMENTS.replace("main", "nowhere"), body=GOOD)
    assert answer.status == 404


def _allow(action: str, resource: str, effect: str = "allow") -> StatementDocument:
    return StatementDocument(effect=effect, action=[action], resource=resource)


OBJECTS = "arn:lakefs:fs:::repository/lake/object/"


@pytest.mark.parametrize(
    ("statements", "prefix", "paths", "status"),
    [
        ([_allow("fs:*", f"{OBJECTS}*")], "", "a/x", 201),
        ([_allow("fs:*", f"{OBJECTS}a/*")], "a/", "a/x", 201),
        ([_allow("fs:*", f"{OBJECTS}a/*")], "a/b/", "a/b/x", 201),
        ([_allow("fs:*", f"{OBJECTS}a/*")], "", "a/x", 401),
        ([_allow("fs:*", f"{OBJECTS}a/*")], "a/", "b/x", 400),
        ([_allow("fs:*", f"{OBJECTS}a/*")], "a", "a/x", 401),
        ([_allow("fs:WriteObject", f"{OBJECTS}*")], "", "a/x", 401),
        ([_allow("fs:DeleteObject", f"{OBJECTS}*")], "", "a/x", 401),
        ([_allow("fs:*", "*"), _allow("fs:*", f"{OBJECTS}a/secret/*", "deny")], "a/", "a/x", 401),
        ([_allow("fs:*", "*"), _allow("fs:*", f"{OBJECTS}a/secret/*", "deny")], "a/b", "a/b", 201),
        ([_allow("fs:*", f"{OBJECTS}?")], "", "a", 401),
    ],
)
async def test_whoever_hands_in_may_write_everything_below_the_prefix(
    rest: Rest, statements: list[StatementDocument], prefix: str, paths: str, status: int
) -> None:
    await rest.auth.policies.create("Some", statements)
    user = await rest.user("writer")
    await rest.auth.attachments.attach_to_user("writer", "Some")

    assert (await hand_in(user, deletions(paths), prefix=prefix)).status == status


async def test_addresses_outside_need_the_right_to_import_from_all_of_them(
    outside: tuple[Rest, Path],
) -> None:
    rest, folder = outside
    place = f"arn:lakefs:fs:::namespace/local://{folder}/open/"
    statements = [_allow("fs:WriteObject", f"{OBJECTS}*"), _allow("fs:ImportFromStorage", f"{place}a/*")]
    await rest.auth.policies.create("Some", statements)
    user = await rest.user("writer")
    await rest.auth.attachments.attach_to_user("writer", "Some")

    for folders, status in ((["a", "a/b"], 201), (["a", "b"], 401)):
        rows = [linked(f"x{n}", f"local://{folder}/open/{each}/f") for n, each in enumerate(folders)]
        assert (await hand_in(user, segment_of(table(rows)))).status == status
