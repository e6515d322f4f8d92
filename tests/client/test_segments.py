"""Ready segments through the client, against a server of its own process."""

import io

import pyarrow as pa
import pytest

from lakebed.client.repo import Repo
from lakebed.errors import InvalidInputError
from lakebed.format.handed_in import segment_of

pytestmark = pytest.mark.server

ID = "0123456789abcdefghij"


def objects(repo: Repo, *paths: str) -> pa.Table:
    count = len(paths)
    return pa.table(
        {
            "path": list(paths),
            "address": [repo.branch("main").new_address(path).physical_address for path in paths],
            "checksum": ["abc"] * count,
            "size": [7] * count,
            "mtime": [1_000_000] * count,
        }
    )


def test_a_table_of_objects_is_staged_at_once(repo: Repo) -> None:
    main = repo.branch("main")
    segment = segment_of(objects(repo, "t/b", "t/a"))

    staged = main.stage_segment(segment, prefix="t/", call_id=ID)

    assert (staged.entries, staged.tombstones) == (2, 0)
    assert [(info.path, info.size_bytes) for info in main.objects()] == [("t/a", 7), ("t/b", 7)]
    assert main.stage_segment(io.BytesIO(segment), prefix="t/", call_id=ID) == staged
    main.commit("Bulk")
    assert [info.path for info in main.objects()] == ["t/a", "t/b"]


def test_a_large_segment_is_checked_in_a_process_of_its_own(repo: Repo) -> None:
    main = repo.branch("main")
    paths = [f"gone/{number:07d}" for number in range(300_000)]
    segment = segment_of(pa.table({"path": paths, "deleted": [True] * len(paths), **_nothing(len(paths))}))
    assert len(segment) > 1024 * 1024

    assert main.stage_segment(segment).tombstones == len(paths)
    with pytest.raises(InvalidInputError, match="segment"):
        main.stage_segment(segment[:600_000] + bytes(600_000) + segment[1_200_000:])


def test_a_refusal_says_why(repo: Repo) -> None:
    main = repo.branch("main")
    with pytest.raises(InvalidInputError, match="row 0: key does not begin with 'elsewhere/'"):
        main.stage_segment(segment_of(objects(repo, "a")), prefix="elsewhere/")


def _nothing(count: int) -> dict[str, pa.Array]:
    texts = {name: pa.nulls(count, pa.string()) for name in ("address", "checksum")}
    return texts | {name: pa.nulls(count, pa.int64()) for name in ("size", "mtime")}
