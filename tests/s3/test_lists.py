"""Lists of keys, as boto3 and as raw documents."""

from itertools import pairwise
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.s3.conftest import Endpoint
from tests.s3.test_objects import code

pytestmark = [pytest.mark.server, pytest.mark.xdist_group("s3")]

PATHS = ["a/1", "a/2", "a/b/3", "b", "c/4", "c//5", "d+e", "f g", "z"]


@pytest.fixture(scope="module")
def listed(endpoint: Endpoint, s3: Any) -> str:
    """A repository with a few objects on main, and two more branches."""
    repo = endpoint.repository("local")
    for path in PATHS:
        s3.put_object(Bucket=repo, Key=f"main/{path}", Body=path.encode())
    for branch in ("dev", "empty"):
        endpoint.rest("POST", f"/repositories/{repo}/branches", json={"name": branch, "source": "main"})
    s3.put_object(Bucket=repo, Key="dev/only", Body=b"x")
    return repo


def keys(answer: Any) -> list[str]:
    return [each["Key"] for each in answer.get("Contents", [])]


def folders(answer: Any) -> list[str]:
    return [each["Prefix"] for each in answer.get("CommonPrefixes", [])]


def test_keys_come_in_the_order_of_their_bytes(s3: Any, listed: str) -> None:
    found = keys(s3.list_objects_v2(Bucket=listed, Prefix="main/"))
    assert found == sorted((f"main/{path}" for path in PATHS), key=str.encode)


def test_a_delimiter_folds_below_the_prefix(s3: Any, listed: str) -> None:
    for call in (s3.list_objects, s3.list_objects_v2):
        answer = call(Bucket=listed, Prefix="main/", Delimiter="/")
        assert folders(answer) == ["main/a/", "main/c/"]
        assert keys(answer) == ["main/b", "main/d+e", "main/f g", "main/z"]
        answer = call(Bucket=listed, Prefix="main/c/", Delimiter="/")
        assert (folders(answer), keys(answer)) == (["main/c//"], ["main/c/4"])


@pytest.mark.parametrize("size", [1, 2, 3, 100])
@pytest.mark.parametrize("delimiter", ["", "/"])
def test_pages_are_the_whole_cut_to_pieces(s3: Any, listed: str, size: int, delimiter: str) -> None:
    whole = s3.list_objects_v2(Bucket=listed, Prefix="main/", Delimiter=delimiter)
    for operation in ("list_objects", "list_objects_v2"):
        pages = list(
            s3.get_paginator(operation).paginate(
                Bucket=listed, Prefix="main/", Delimiter=delimiter, PaginationConfig={"PageSize": size}
            )
        )
        assert [key for page in pages for key in keys(page)] == keys(whole)
        assert [folder for page in pages for folder in folders(page)] == folders(whole)
        assert all(len(keys(page)) + len(folders(page)) <= size for page in pages)


def test_branches_are_the_folders_at_the_root(s3: Any, listed: str) -> None:
    for call in (s3.list_objects, s3.list_objects_v2):
        assert folders(call(Bucket=listed, Delimiter="/")) == ["dev/", "empty/", "main/"]
        assert folders(call(Bucket=listed, Delimiter="/", Prefix="ma")) == ["main/"]
        assert folders(call(Bucket=listed, Delimiter="/", Prefix="main")) == ["main/"]
    first = s3.list_objects_v2(Bucket=listed, Delimiter="/", MaxKeys=2)
    rest = s3.list_objects_v2(Bucket=listed, Delimiter="/", ContinuationToken=first["NextContinuationToken"])
    assert folders(first) + folders(rest) == ["dev/", "empty/", "main/"]


def test_without_a_delimiter_the_root_holds_every_branch(s3: Any, listed: str) -> None:
    pages = s3.get_paginator("list_objects_v2").paginate(Bucket=listed, PaginationConfig={"PageSize": 4})
    found = [key for page in pages for key in keys(page)]
    assert found == ["dev/only", *sorted((f"main/{path}" for path in PATHS), key=str.encode)]
    assert all(a < b for a, b in pairwise(found))


def test_branches_come_in_the_order_of_keys_whatever_their_names(endpoint: Endpoint, s3: Any) -> None:
    repo = endpoint.repository("local")
    names = ["main", "a", "a-b", "a-b-c", "a-b0", "a0", "a_", "ab", "b-", "b"]
    s3.put_object(Bucket=repo, Key="main/x", Body=b"1")
    endpoint.rest("POST", f"/repositories/{repo}/branches/main/commits", json={"message": "m"})
    for name in names[1:]:
        endpoint.rest("POST", f"/repositories/{repo}/branches", json={"name": name, "source": "main"})
    ordered = sorted(f"{name}/" for name in names)
    for size in (1, 2, 3, 100):
        pages = s3.get_paginator("list_objects_v2").paginate(
            Bucket=repo, Delimiter="/", PaginationConfig={"PageSize": size}
        )
        assert [folder for page in pages for folder in folders(page)] == ordered
        pages = s3.get_paginator("list_objects_v2").paginate(Bucket=repo, PaginationConfig={"PageSize": size})
        assert [key for page in pages for key in keys(page)] == [f"{folder}x" for folder in ordered]
    for start in ("a", "a-", "a-b", "a-b/", "a-b/x", "a/", "a0", "0", "zz", "a-b-", "b-"):
        found = folders(s3.list_objects_v2(Bucket=repo, Delimiter="/", StartAfter=start))
        assert found == [folder for folder in ordered if folder > start]
        found = keys(s3.list_objects_v2(Bucket=repo, StartAfter=start))
        assert found == [f"{folder}x" for folder in ordered if f"{folder}x" > start]


def test_a_start_is_left_out(s3: Any, listed: str) -> None:
    answer = s3.list_objects_v2(Bucket=listed, Prefix="main/", StartAfter="main/d+e")
    assert (keys(answer), answer["StartAfter"]) == (["main/f g", "main/z"], "main/d+e")
    assert keys(s3.list_objects(Bucket=listed, Prefix="main/", Marker="main/f g")) == ["main/z"]
    assert keys(s3.list_objects(Bucket=listed, Prefix="main/", Marker="zzz")) == []
    assert len(keys(s3.list_objects(Bucket=listed, Prefix="main/", Marker="aaa"))) == len(PATHS)


def test_a_start_inside_a_folder_shows_the_folder_while_it_holds_more(s3: Any, listed: str) -> None:
    for start, shown in (
        ("main/a/", ["main/c/"]),
        ("main/a/1", ["main/a/", "main/c/"]),
        ("main/a/b/3", ["main/c/"]),
        ("main/a/zzz", ["main/c/"]),
        ("main/c/", []),
        ("main/c/0", ["main/c/"]),
    ):
        answer = s3.list_objects_v2(Bucket=listed, Prefix="main/", Delimiter="/", StartAfter=start)
        assert folders(answer) == shown
        pages = s3.get_paginator("list_objects_v2").paginate(
            Bucket=listed, Prefix="main/", Delimiter="/", StartAfter=start, PaginationConfig={"PageSize": 1}
        )
        each = [(folders(page), keys(page)) for page in pages]
        assert [folder for found, _ in each for folder in found] == shown
        assert [key for _, found in each for key in found] == keys(answer)


def test_a_ref_that_is_not_there_holds_nothing(s3: Any, listed: str) -> None:
    for call in (s3.list_objects, s3.list_objects_v2):
        answer = call(Bucket=listed, Prefix="nobranch/")
        assert (keys(answer), answer["IsTruncated"]) == ([], False)
    with pytest.raises(s3.exceptions.NoSuchBucket):
        s3.list_objects_v2(Bucket="no-such-repository", Prefix="main/")


def test_what_is_counted_and_told(s3: Any, listed: str) -> None:
    answer = s3.list_objects_v2(Bucket=listed, Prefix="main/a/", Delimiter="/", MaxKeys=1, FetchOwner=True)
    assert (answer["KeyCount"], answer["MaxKeys"], answer["IsTruncated"]) == (1, 1, True)
    (first,) = answer["Contents"]
    assert (first["Key"], first["Size"], first["StorageClass"]) == ("main/a/1", 3, "STANDARD")
    assert first["ETag"] == s3.head_object(Bucket=listed, Key="main/a/1")["ETag"]
    assert (
        first["LastModified"].replace(microsecond=0)
        == s3.head_object(Bucket=listed, Key="main/a/1")["LastModified"]
    )
    assert first["Owner"]["ID"]
    empty = s3.list_objects_v2(Bucket=listed, Prefix="main/", MaxKeys=0)
    assert (keys(empty), empty["IsTruncated"]) == ([], False)


def test_broken_parameters_are_refused(s3: Any, listed: str) -> None:
    for options in ({"ContinuationToken": "nonsense"}, {"MaxKeys": -1}):
        with pytest.raises(ClientError) as refused:
            s3.list_objects_v2(Bucket=listed, **options)
        assert code(refused) == ("InvalidArgument", 400)


def test_a_thousand_keys_are_a_page(endpoint: Endpoint, s3: Any) -> None:
    repo = endpoint.repository("local")
    source = {"Bucket": repo, "Key": "main/source"}
    s3.put_object(**source, Body=b"x")
    stats = endpoint.rest("GET", f"/repositories/{repo}/refs/main/objects/stat", params={"path": "source"})
    assert stats.status_code == 200
    for number in range(1003):
        s3.copy_object(Bucket=repo, Key=f"main/many/{number:04}", CopySource=source)
    first = s3.list_objects_v2(Bucket=repo, Prefix="main/many/")
    assert (first["KeyCount"], first["IsTruncated"]) == (1000, True)
    rest = s3.list_objects_v2(
        Bucket=repo, Prefix="main/many/", ContinuationToken=first["NextContinuationToken"]
    )
    assert keys(first) + keys(rest) == [f"main/many/{number:04}" for number in range(1003)]
