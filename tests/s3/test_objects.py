"""Objects as boto3 sees them: read, written, copied, tagged, deleted."""

import hashlib
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.s3.conftest import Endpoint

pytestmark = [pytest.mark.server, pytest.mark.xdist_group("s3")]

KEYS = [
    "a b",
    "a+b",
    "a%2Fb",
    "a//b",
    "dir/",
    "ü/é",
    "日本/😀",
    "a&b<c>\"d'",
    "tab\tnew\nline",
    "~!@#$^*()=|",
    ".",
    "a/../b",
]


def code(refused: pytest.ExceptionInfo[ClientError]) -> tuple[str, int]:
    response = refused.value.response
    return response["Error"]["Code"], response["ResponseMetadata"]["HTTPStatusCode"]


def md5(data: bytes) -> str:
    return hashlib.md5(data).hexdigest()


@pytest.mark.parametrize("size", [0, 1, 1024, 70_000, 3_000_000])
def test_what_is_put_comes_back(s3: Any, repo: str, size: int) -> None:
    data = bytes(range(256)) * (size // 256 + 1)
    data = data[:size]
    put = s3.put_object(Bucket=repo, Key=f"main/size/{size}", Body=data, ContentType="text/x-test")
    got = s3.get_object(Bucket=repo, Key=f"main/size/{size}")
    assert got["Body"].read() == data
    assert got["ETag"] == put["ETag"] == f'"{md5(data)}"'
    assert (got["ContentType"], got["ContentLength"]) == ("text/x-test", size)
    assert s3.head_object(Bucket=repo, Key=f"main/size/{size}")["ContentLength"] == size


@pytest.mark.parametrize("path", KEYS)
def test_every_key_round_trips_through_put_list_and_get(s3: Any, lake: str, path: str) -> None:
    key = f"main/{path}"
    s3.put_object(Bucket=lake, Key=key, Body=path.encode())
    assert s3.get_object(Bucket=lake, Key=key)["Body"].read() == path.encode()
    for listed in (
        s3.list_objects_v2(Bucket=lake, Prefix="main/"),
        s3.list_objects(Bucket=lake, Prefix="main/"),
    ):
        assert [each["Key"] for each in listed["Contents"]] == [key]
    s3.copy_object(Bucket=lake, Key="main/copied", CopySource={"Bucket": lake, "Key": key})
    assert s3.get_object(Bucket=lake, Key="main/copied")["Body"].read() == path.encode()
    s3.delete_objects(Bucket=lake, Delete={"Objects": [{"Key": key}]})
    with pytest.raises(s3.exceptions.NoSuchKey):
        s3.get_object(Bucket=lake, Key=key)


def test_headers_and_metadata_are_kept(s3: Any, repo: str) -> None:
    kept = {
        "CacheControl": "max-age=1",
        "ContentDisposition": 'attachment; filename="x"',
        "ContentEncoding": "gzip",
        "ContentLanguage": "de",
        "Expires": "Thu, 01 Jan 2026 00:00:00 GMT",
        "Metadata": {"plain": "text", "mixed-case": "Ä is not ASCII"[2:]},
    }
    s3.put_object(
        Bucket=repo, Key="main/headers", Body=b"x", ACL="private", StorageClass="STANDARD_IA", **kept
    )
    got = s3.get_object(Bucket=repo, Key="main/headers")
    assert {name: got[name] for name in kept if name != "Expires"} == {
        name: value for name, value in kept.items() if name != "Expires"
    }
    assert got["ExpiresString"] == kept["Expires"]


def test_metadata_that_is_not_ascii_comes_back_as_rfc_2047(endpoint: Endpoint, s3: Any, lake: str) -> None:
    s3.put_object(Bucket=lake, Key="main/m", Body=b"x", Metadata={"name": "=?UTF-8?B?w6R6?="})
    stats = endpoint.rest("GET", f"/repositories/{lake}/refs/main/objects/stat", params={"path": "m"}).json()
    assert stats["metadata"] == {"X-Amz-Meta-name": "äz"}
    assert s3.head_object(Bucket=lake, Key="main/m")["Metadata"] == {"name": "=?UTF-8?B?w6R6?="}


def test_metadata_of_the_rest_api_shows(endpoint: Endpoint, s3: Any, lake: str) -> None:
    endpoint.rest(
        "POST",
        f"/repositories/{lake}/branches/main/objects",
        params={"path": "m"},
        content=b"x",
        headers={"x-lakefs-meta-colour": "red", "content-type": "text/plain"},
    )
    head = s3.head_object(Bucket=lake, Key="main/m")
    assert (head["Metadata"], head["ContentType"]) == ({"colour": "red"}, "text/plain")


def test_too_much_metadata_is_refused(s3: Any, lake: str) -> None:
    with pytest.raises(ClientError) as refused:
        s3.put_object(Bucket=lake, Key="main/m", Body=b"x", Metadata={"much": "x" * 2100})
    assert code(refused) == ("MetadataTooLarge", 400)


@pytest.mark.parametrize(
    ("asked", "told", "data"),
    [
        ("bytes=0-0", "bytes 0-0/10", b"0"),
        ("bytes=2-4", "bytes 2-4/10", b"234"),
        ("bytes=7-", "bytes 7-9/10", b"789"),
        ("bytes=-3", "bytes 7-9/10", b"789"),
        ("bytes=-99", "bytes 0-9/10", b"0123456789"),
        ("bytes=5-99", "bytes 5-9/10", b"56789"),
    ],
)
def test_a_range_is_served(s3: Any, repo: str, asked: str, told: str, data: bytes) -> None:
    s3.put_object(Bucket=repo, Key="main/digits", Body=b"0123456789")
    got = s3.get_object(Bucket=repo, Key="main/digits", Range=asked)
    assert (got["Body"].read(), got["ContentRange"]) == (data, told)
    head = s3.head_object(Bucket=repo, Key="main/digits", Range=asked)
    assert (head["ContentRange"], head["ContentLength"]) == (told, len(data))


def test_a_range_past_the_end_is_refused_and_nonsense_is_ignored(s3: Any, lake: str) -> None:
    s3.put_object(Bucket=lake, Key="main/digits", Body=b"0123456789")
    with pytest.raises(ClientError) as refused:
        s3.get_object(Bucket=lake, Key="main/digits", Range="bytes=10-")
    assert code(refused) == ("InvalidRange", 416)
    assert s3.get_object(Bucket=lake, Key="main/digits", Range="lines=1-2")["Body"].read() == b"0123456789"


def test_conditions_of_reads(s3: Any, lake: str) -> None:
    etag = s3.put_object(Bucket=lake, Key="main/c", Body=b"x")["ETag"]
    modified = s3.head_object(Bucket=lake, Key="main/c")["LastModified"]
    for passes in (
        {"IfMatch": etag},
        {"IfNoneMatch": '"other"'},
        {"IfUnmodifiedSince": modified},
        {"IfModifiedSince": modified.replace(year=2000)},
        {"IfMatch": etag, "IfUnmodifiedSince": modified.replace(year=2000)},
    ):
        assert s3.get_object(Bucket=lake, Key="main/c", **passes)["Body"].read() == b"x"
    for fails, status in (
        ({"IfMatch": '"other"'}, 412),
        ({"IfUnmodifiedSince": modified.replace(year=2000)}, 412),
        ({"IfNoneMatch": etag}, 304),
        ({"IfModifiedSince": modified}, 304),
    ):
        for call in (s3.get_object, s3.head_object):
            with pytest.raises(ClientError) as refused:
                call(Bucket=lake, Key="main/c", **fails)
            assert code(refused)[1] == status


def test_conditions_of_writes(s3: Any, repo: str) -> None:
    key = {"Bucket": repo, "Key": "main/conditional"}
    etag = s3.put_object(**key, Body=b"1", IfNoneMatch="*")["ETag"]
    for condition in ({"IfNoneMatch": "*"}, {"IfMatch": '"other"'}):
        with pytest.raises(ClientError) as refused:
            s3.put_object(**key, Body=b"2", **condition)
        assert code(refused) == ("PreconditionFailed", 412)
    s3.put_object(**key, Body=b"3", IfMatch=etag)
    with pytest.raises(ClientError) as refused:
        s3.delete_object(**key, IfMatch=etag)
    assert code(refused) == ("PreconditionFailed", 412)
    s3.delete_object(**key, IfMatch=f'"{md5(b"3")}"')
    with pytest.raises(s3.exceptions.NoSuchKey):
        s3.get_object(**key)


def test_parameters_replace_headers_of_the_answer(s3: Any, lake: str) -> None:
    s3.put_object(Bucket=lake, Key="main/o", Body=b"x", CacheControl="max-age=1")
    got = s3.get_object(
        Bucket=lake,
        Key="main/o",
        ResponseContentType="text/other",
        ResponseCacheControl="no-store",
        ResponseContentDisposition="attachment",
    )
    assert (got["ContentType"], got["CacheControl"], got["ContentDisposition"]) == (
        "text/other",
        "no-store",
        "attachment",
    )


@pytest.mark.parametrize(
    ("stored", "override", "disposition"),
    [
        ({"ContentType": "text/html"}, {}, "attachment"),
        ({"ContentType": "image/svg+xml"}, {}, "attachment"),
        ({"ContentType": "text/html", "ContentDisposition": "inline"}, {}, "inline"),
        ({"ContentType": "text/html"}, {"ResponseContentDisposition": "inline"}, "inline"),
        ({"ContentType": "text/html"}, {"ResponseContentType": "text/plain"}, None),
        ({"ContentType": "text/plain"}, {"ResponseContentType": "Text/HTML"}, "attachment"),
        ({"ContentType": "text/plain"}, {}, None),
        ({"ContentType": "application/vnd.apache.parquet"}, {}, None),
    ],
)
def test_a_browser_runs_nothing_in_an_object(
    s3: Any, lake: str, stored: dict[str, str], override: dict[str, str], disposition: str | None
) -> None:
    s3.put_object(Bucket=lake, Key="main/page", Body=b"x", **stored)
    for answer in (
        s3.get_object(Bucket=lake, Key="main/page", **override),
        s3.head_object(Bucket=lake, Key="main/page", **override),
    ):
        headers = answer["ResponseMetadata"]["HTTPHeaders"]
        assert headers["content-security-policy"] == "default-src 'none'; sandbox"
        assert headers["x-content-type-options"] == "nosniff"
        assert headers.get("content-disposition") == disposition


def test_a_copy_inside_a_repository_moves_no_bytes(endpoint: Endpoint, s3: Any, repo: str) -> None:
    def address(ref: str, path: str) -> str:
        stats = endpoint.rest("GET", f"/repositories/{repo}/refs/{ref}/objects/stat", params={"path": path})
        return str(stats.json()["physical_address"])

    endpoint.rest("POST", f"/repositories/{repo}/branches", json={"name": "copies", "source": "main"})
    source = {"Bucket": repo, "Key": "main/source"}
    s3.put_object(**source, Body=b"bytes", ContentType="a/b", Metadata={"k": "v"}, CacheControl="c")
    copied = s3.copy_object(Bucket=repo, Key="copies/target", CopySource=source)
    got = s3.get_object(Bucket=repo, Key="copies/target")
    assert (got["Body"].read(), got["ContentType"], got["Metadata"]) == (b"bytes", "a/b", {"k": "v"})
    assert copied["CopyObjectResult"]["ETag"] == got["ETag"]
    assert got["CacheControl"] == "c"
    assert address("copies", "target") == address("main", "source")


def test_a_copy_between_repositories_and_storages(endpoint: Endpoint, s3: Any) -> None:
    here, there = endpoint.repository("local"), endpoint.repository("s3")
    s3.put_object(Bucket=here, Key="main/source", Body=b"bytes" * 50_000)
    s3.copy_object(Bucket=there, Key="main/target", CopySource={"Bucket": here, "Key": "main/source"})
    s3.copy_object(Bucket=here, Key="main/back", CopySource={"Bucket": there, "Key": "main/target"})
    assert s3.get_object(Bucket=here, Key="main/back")["Body"].read() == b"bytes" * 50_000


def test_a_copy_replaces_what_it_is_told_to(s3: Any, lake: str) -> None:
    source = {"Bucket": lake, "Key": "main/source"}
    s3.put_object(**source, Body=b"x", ContentType="a/b", Metadata={"k": "v"}, Tagging="t=1")
    s3.copy_object(
        Bucket=lake,
        Key="main/new",
        CopySource=source,
        MetadataDirective="REPLACE",
        Metadata={"n": "w"},
        ContentType="c/d",
    )
    head = s3.head_object(Bucket=lake, Key="main/new")
    assert (head["Metadata"], head["ContentType"]) == ({"n": "w"}, "c/d")
    assert s3.get_object_tagging(Bucket=lake, Key="main/new")["TagSet"] == [{"Key": "t", "Value": "1"}]
    s3.copy_object(Bucket=lake, Key="main/new", CopySource=source, TaggingDirective="REPLACE", Tagging="u=2")
    assert s3.get_object_tagging(Bucket=lake, Key="main/new")["TagSet"] == [{"Key": "u", "Value": "2"}]
    with pytest.raises(ClientError) as refused:
        s3.copy_object(Bucket=lake, Key="main/source", CopySource=source)
    assert code(refused) == ("InvalidRequest", 400)
    s3.copy_object(**source, CopySource=source, MetadataDirective="REPLACE", Metadata={"own": "1"})
    assert s3.head_object(**source)["Metadata"] == {"own": "1"}


def test_conditions_of_copies(s3: Any, lake: str) -> None:
    source = {"Bucket": lake, "Key": "main/source"}
    etag = s3.put_object(**source, Body=b"x")["ETag"]
    target = {"Bucket": lake, "Key": "main/target", "CopySource": source}
    for fails in ({"CopySourceIfMatch": '"other"'}, {"CopySourceIfNoneMatch": etag}):
        with pytest.raises(ClientError) as refused:
            s3.copy_object(**target, **fails)
        assert code(refused) == ("PreconditionFailed", 412)
    s3.copy_object(**target, CopySourceIfMatch=etag, IfNoneMatch="*")
    with pytest.raises(ClientError) as refused:
        s3.copy_object(**target, IfNoneMatch="*")
    assert code(refused) == ("PreconditionFailed", 412)


def test_tags_are_kept_and_change_nothing_else(s3: Any, repo: str) -> None:
    key = {"Bucket": repo, "Key": "main/tagged"}
    s3.put_object(**key, Body=b"x", Metadata={"k": "v"}, Tagging="a=1&b=%26")
    assert s3.get_object_tagging(**key)["TagSet"] == [{"Key": "a", "Value": "1"}, {"Key": "b", "Value": "&"}]
    assert s3.head_object(**key)["TagCount"] == 2
    s3.put_object_tagging(**key, Tagging={"TagSet": [{"Key": "c", "Value": "<3>"}]})
    assert s3.get_object_tagging(**key)["TagSet"] == [{"Key": "c", "Value": "<3>"}]
    s3.delete_object_tagging(**key)
    assert s3.get_object_tagging(**key)["TagSet"] == []
    got = s3.get_object(**key)
    assert (got["Body"].read(), got["Metadata"]) == (b"x", {"k": "v"})
    with pytest.raises(ClientError) as refused:
        s3.put_object(**key, Body=b"x", Tagging="&".join(f"t{n}=1" for n in range(11)))
    assert code(refused) == ("InvalidTag", 400)


def test_attributes(s3: Any, lake: str) -> None:
    s3.put_object(Bucket=lake, Key="main/a", Body=b"12345")
    told = s3.get_object_attributes(
        Bucket=lake, Key="main/a", ObjectAttributes=["ETag", "ObjectSize", "StorageClass"]
    )
    assert (told["ETag"], told["ObjectSize"], told["StorageClass"]) == (md5(b"12345"), 5, "STANDARD")


def test_deleting_what_is_not_there_is_no_error(s3: Any, lake: str) -> None:
    assert s3.delete_object(Bucket=lake, Key="main/nothing")["ResponseMetadata"]["HTTPStatusCode"] == 204


def test_many_are_deleted_at_once(s3: Any, lake: str) -> None:
    keys = [f"main/many/{number}" for number in range(5)]
    for key in keys:
        s3.put_object(Bucket=lake, Key=key, Body=b"x")
    listed = [{"Key": key} for key in [*keys[:3], "main/none", "gone/x", "main"]]
    done = s3.delete_objects(Bucket=lake, Delete={"Objects": listed})
    assert [each["Key"] for each in done["Deleted"]] == [*keys[:3], "main/none"]
    assert {each["Key"]: each["Code"] for each in done["Errors"]} == {
        "gone/x": "NoSuchBranch",
        "main": "InvalidArgument",
    }
    quiet = s3.delete_objects(Bucket=lake, Delete={"Objects": [{"Key": keys[3]}], "Quiet": True})
    assert "Deleted" not in quiet
    assert [each["Key"] for each in s3.list_objects_v2(Bucket=lake, Prefix="main/many/")["Contents"]] == [
        keys[4]
    ]


def test_keys_to_encrypt_with_are_refused(s3: Any, lake: str) -> None:
    key = {"SSECustomerAlgorithm": "AES256", "SSECustomerKey": "0" * 32}
    for options in (key, {"ServerSideEncryption": "aws:kms"}):
        client = s3
        with pytest.raises(ClientError) as refused:
            client.put_object(Bucket=lake, Key="main/e", Body=b"x", **options)
        assert code(refused) == ("NotImplemented", 501)
    s3.put_object(Bucket=lake, Key="main/e", Body=b"x", ServerSideEncryption="AES256")


def test_a_tag_and_a_commit_can_be_read(endpoint: Endpoint, s3: Any, lake: str) -> None:
    s3.put_object(Bucket=lake, Key="main/v", Body=b"1")
    commit = endpoint.rest(
        "POST", f"/repositories/{lake}/branches/main/commits", json={"message": "m"}
    ).json()
    endpoint.rest("POST", f"/repositories/{lake}/tags", json={"id": "v1", "ref": "main"})
    s3.put_object(Bucket=lake, Key="main/v", Body=b"2")
    assert s3.get_object(Bucket=lake, Key=f"{commit['id']}/v")["Body"].read() == b"1"
    assert s3.get_object(Bucket=lake, Key="v1/v")["Body"].read() == b"1"
    assert s3.get_object(Bucket=lake, Key="main/v")["Body"].read() == b"2"
    assert [each["Key"] for each in s3.list_objects_v2(Bucket=lake, Prefix="v1/")["Contents"]] == ["v1/v"]
