"""Objects in parts."""

import hashlib
import io
from typing import Any

import pytest
from boto3.s3.transfer import TransferConfig
from botocore.exceptions import ClientError

from tests.s3.conftest import Endpoint
from tests.s3.test_objects import code

pytestmark = [pytest.mark.server, pytest.mark.xdist_group("s3")]

PART = 5 * 1024 * 1024


def begin(s3: Any, repo: str, key: str, **options: Any) -> dict[str, str]:
    upload = s3.create_multipart_upload(Bucket=repo, Key=key, **options)
    return {"Bucket": repo, "Key": key, "UploadId": upload["UploadId"]}


def send(s3: Any, upload: dict[str, str], *parts: bytes) -> list[dict[str, Any]]:
    return [
        {"PartNumber": number, "ETag": s3.upload_part(**upload, PartNumber=number, Body=part)["ETag"]}
        for number, part in enumerate(parts, 1)
    ]


def etag_of(*parts: bytes) -> str:
    md5s = b"".join(hashlib.md5(part).digest() for part in parts)
    return f'"{hashlib.md5(md5s).hexdigest()}-{len(parts)}"'


def test_parts_become_one_object_with_amazons_etag(s3: Any, repo: str) -> None:
    parts = [b"1" * PART, b"2" * (PART + 1), b"3"]
    upload = begin(s3, repo, "main/parts", ContentType="a/b", Metadata={"k": "v"}, Tagging="t=1")
    sent = send(s3, upload, *parts)
    assert [part["ETag"] for part in sent] == [f'"{hashlib.md5(part).hexdigest()}"' for part in parts]
    with pytest.raises(s3.exceptions.NoSuchKey):
        s3.get_object(Bucket=repo, Key="main/parts")
    done = s3.complete_multipart_upload(**upload, MultipartUpload={"Parts": sent})
    got = s3.get_object(Bucket=repo, Key="main/parts")
    assert got["Body"].read() == b"".join(parts)
    assert done["ETag"] == got["ETag"] == etag_of(*parts)
    assert (got["ContentType"], got["Metadata"], got["TagCount"]) == ("a/b", {"k": "v"}, 1)
    listed = s3.list_objects_v2(Bucket=repo, Prefix="main/parts")["Contents"][0]
    assert (listed["ETag"], listed["Size"]) == (done["ETag"], 2 * PART + 2)


def test_a_part_can_be_read_by_its_number(s3: Any, repo: str) -> None:
    parts = [b"1" * PART, b"2" * PART, b"3"]
    upload = begin(s3, repo, "main/numbered")
    s3.complete_multipart_upload(**upload, MultipartUpload={"Parts": send(s3, upload, *parts)})
    key = {"Bucket": repo, "Key": "main/numbered"}
    for number, part in enumerate(parts, 1):
        got = s3.get_object(**key, PartNumber=number)
        assert (got["Body"].read(), got["PartsCount"]) == (part, 3)
    assert (
        s3.head_object(**key, PartNumber=3)["ContentRange"] == f"bytes {2 * PART}-{2 * PART}/{2 * PART + 1}"
    )
    with pytest.raises(ClientError) as refused:
        s3.get_object(**key, PartNumber=4)
    assert code(refused) == ("InvalidPartNumber", 416)
    told = s3.get_object_attributes(**key, ObjectAttributes=["ObjectParts"])["ObjectParts"]
    assert (told["TotalPartsCount"], [part["Size"] for part in told["Parts"]]) == (3, [PART, PART, 1])


def test_a_large_file_goes_through_boto3s_own_transfer(s3: Any, repo: str) -> None:
    data = bytes(range(256)) * 100_000
    config = TransferConfig(multipart_threshold=PART, multipart_chunksize=12 * 1024 * 1024)
    s3.upload_fileobj(io.BytesIO(data), repo, "main/large", Config=config)
    back = io.BytesIO()
    s3.download_fileobj(repo, "main/large", back, Config=config)
    assert back.getvalue() == data
    s3.copy({"Bucket": repo, "Key": "main/large"}, repo, "main/large-copy", Config=config)
    assert s3.get_object(Bucket=repo, Key="main/large-copy")["Body"].read() == data


def test_parts_are_made_of_objects(endpoint: Endpoint, s3: Any, repo: str) -> None:
    data = b"0123456789" * 1_200_000
    other = endpoint.repository("local")
    for bucket in (repo, other):
        s3.put_object(Bucket=bucket, Key="main/source", Body=data)
    upload = begin(s3, repo, "main/of-objects")
    sources = [(repo, f"bytes=0-{PART - 1}"), (other, f"bytes={PART}-{2 * PART - 1}"), (repo, None)]
    sent = []
    for number, (bucket, part) in enumerate(sources, 1):
        options = {"CopySourceRange": part} if part else {}
        source = {"Bucket": bucket, "Key": "main/source"}
        done = s3.upload_part_copy(**upload, PartNumber=number, CopySource=source, **options)
        sent.append({"PartNumber": number, "ETag": done["CopyPartResult"]["ETag"]})
    done = s3.complete_multipart_upload(**upload, MultipartUpload={"Parts": sent})
    assert done["ETag"] == etag_of(data[:PART], data[PART : 2 * PART], data)
    assert s3.get_object(Bucket=repo, Key="main/of-objects")["Body"].read() == data[: 2 * PART] + data
    for nonsense in ("bytes=5", f"bytes=0-{len(data)}", "bytes=4-2"):
        with pytest.raises(ClientError) as refused:
            s3.upload_part_copy(
                **begin(s3, repo, "main/x"),
                PartNumber=1,
                CopySource={"Bucket": repo, "Key": "main/source"},
                CopySourceRange=nonsense,
            )
        assert code(refused) == ("InvalidArgument", 400)


def test_what_cannot_be_completed(s3: Any, lake: str) -> None:
    upload = begin(s3, lake, "main/x")
    first, second = send(s3, upload, b"small", b"smaller")
    for parts, told in (
        ([second, first], "InvalidPartOrder"),
        ([first, first], "InvalidPartOrder"),
        ([first, second], "EntityTooSmall"),
        ([{"PartNumber": 1, "ETag": '"0"'}], "InvalidPart"),
        ([{"PartNumber": 3, "ETag": first["ETag"]}], "InvalidPart"),
        ([], "MalformedXML"),
    ):
        with pytest.raises(ClientError) as refused:
            s3.complete_multipart_upload(**upload, MultipartUpload={"Parts": parts})
        assert code(refused) == (told, 400)
    s3.complete_multipart_upload(**upload, MultipartUpload={"Parts": [second]})
    assert s3.get_object(Bucket=lake, Key="main/x")["Body"].read() == b"smaller"


def test_a_part_that_is_sent_again_replaces_the_first(s3: Any, repo: str) -> None:
    upload = begin(s3, repo, "main/again")
    s3.upload_part(**upload, PartNumber=1, Body=b"old")
    sent = send(s3, upload, b"new")
    s3.complete_multipart_upload(**upload, MultipartUpload={"Parts": sent})
    assert s3.get_object(Bucket=repo, Key="main/again")["Body"].read() == b"new"


def test_completing_twice_is_the_same_success(s3: Any, lake: str) -> None:
    upload = begin(s3, lake, "main/twice")
    sent = send(s3, upload, b"x")
    first = s3.complete_multipart_upload(**upload, MultipartUpload={"Parts": sent})
    s3.put_object(Bucket=lake, Key="main/twice", Body=b"newer")
    again = s3.complete_multipart_upload(**upload, MultipartUpload={"Parts": sent})
    assert first["ETag"] == again["ETag"]
    assert s3.get_object(Bucket=lake, Key="main/twice")["Body"].read() == b"newer"


def test_a_condition_is_decided_when_the_upload_completes(s3: Any, lake: str) -> None:
    upload = begin(s3, lake, "main/once")
    sent = send(s3, upload, b"x")
    s3.put_object(Bucket=lake, Key="main/once", Body=b"first")
    with pytest.raises(ClientError) as refused:
        s3.complete_multipart_upload(**upload, MultipartUpload={"Parts": sent}, IfNoneMatch="*")
    assert code(refused) == ("PreconditionFailed", 412)
    assert s3.get_object(Bucket=lake, Key="main/once")["Body"].read() == b"first"
    s3.delete_object(Bucket=lake, Key="main/once")
    s3.complete_multipart_upload(**upload, MultipartUpload={"Parts": sent}, IfNoneMatch="*")
    assert s3.get_object(Bucket=lake, Key="main/once")["Body"].read() == b"x"


def test_what_was_aborted_is_gone(s3: Any, repo: str) -> None:
    upload = begin(s3, repo, "main/aborted")
    sent = send(s3, upload, b"x")
    s3.abort_multipart_upload(**upload)
    for call in (
        lambda: s3.upload_part(**upload, PartNumber=2, Body=b"x"),
        lambda: s3.complete_multipart_upload(**upload, MultipartUpload={"Parts": sent}),
        lambda: s3.abort_multipart_upload(**upload),
        lambda: s3.list_parts(**upload),
    ):
        with pytest.raises(s3.exceptions.NoSuchUpload):
            call()


def test_an_upload_belongs_to_its_key(s3: Any, lake: str) -> None:
    upload = begin(s3, lake, "main/mine")
    for other in ({"Key": "main/other"}, {"UploadId": "../../etc"}, {"UploadId": "0" * 40}):
        with pytest.raises(s3.exceptions.NoSuchUpload):
            s3.upload_part(**{**upload, **other}, PartNumber=1, Body=b"x")


def test_parts_are_listed(s3: Any, repo: str) -> None:
    upload = begin(s3, repo, "main/listed")
    sent = send(s3, upload, b"1", b"22", b"333")
    listed = s3.list_parts(**upload)
    assert [(part["PartNumber"], part["Size"]) for part in listed["Parts"]] == [(1, 1), (2, 2), (3, 3)]
    assert [part["ETag"] for part in listed["Parts"]] == [part["ETag"] for part in sent]
    page = s3.list_parts(**upload, MaxParts=2)
    assert (page["IsTruncated"], page["NextPartNumberMarker"]) == (True, 2)
    rest = s3.list_parts(**upload, PartNumberMarker=2)
    assert [part["PartNumber"] for part in rest["Parts"]] == [3]


def test_uploads_are_listed(s3: Any, lake: str) -> None:
    begun = {key: begin(s3, lake, key)["UploadId"] for key in ("main/a", "main/b/1", "main/b/2", "main/c")}
    listed = s3.list_multipart_uploads(Bucket=lake)["Uploads"]
    assert {each["Key"]: each["UploadId"] for each in listed} == begun
    assert [each["Key"] for each in listed] == sorted(begun)
    folded = s3.list_multipart_uploads(Bucket=lake, Prefix="main/", Delimiter="/")
    assert [each["Key"] for each in folded["Uploads"]] == ["main/a", "main/c"]
    assert [each["Prefix"] for each in folded["CommonPrefixes"]] == ["main/b/"]
    pages = s3.get_paginator("list_multipart_uploads").paginate(Bucket=lake, PaginationConfig={"PageSize": 1})
    assert [each["Key"] for page in pages for each in page["Uploads"]] == sorted(begun)
    twice = begin(s3, lake, "main/a")["UploadId"]
    pages = s3.get_paginator("list_multipart_uploads").paginate(
        Bucket=lake, Prefix="main/a", PaginationConfig={"PageSize": 1}
    )
    assert {each["UploadId"] for page in pages for each in page["Uploads"]} == {begun["main/a"], twice}


def test_what_is_wrong_with_a_part_leaves_the_earlier_one(s3: Any, repo: str) -> None:
    upload = begin(s3, repo, "main/checked")
    sent = send(s3, upload, b"good" * 3_000_000)
    with pytest.raises(ClientError) as refused:
        s3.upload_part(**upload, PartNumber=1, Body=b"bad!" * 3_000_000, ChecksumCRC32="AAAAAA==")
    assert code(refused) == ("BadDigest", 400)
    s3.complete_multipart_upload(**upload, MultipartUpload={"Parts": sent})
    assert s3.get_object(Bucket=repo, Key="main/checked")["Body"].read() == b"good" * 3_000_000
