"""Objects in parts that clients send to an S3 server themselves, by URLs that we sign."""

import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

import lakefs
import lakefs_sdk
import pytest
from lakefs_sdk.exceptions import BadRequestException, NotFoundException, ServiceException

from lakebed.objects.open import open_store
from lakebed.objects.port import ETag, Part
from lakebed.objects.settings import StoreSettings
from lakebed.testing.server_process import ServerProcess
from tests.api.clients import high_level, low_level

pytestmark = [pytest.mark.server, pytest.mark.xdist_group("presigned")]


PART = 5 * 1024 * 1024
"""The smallest part that S3 takes, except for the last one."""


class Upload:
    """A multipart upload of the object at `path`, as a client does it."""

    def __init__(self, client: lakefs_sdk.ApiClient, path: str, *, parts: int = 0) -> None:
        self.api = lakefs_sdk.ExperimentalApi(client)
        self.path = path
        self.begun = self.api.create_presign_multipart_upload("lake", "main", path, parts=parts)
        self.sent: list[lakefs_sdk.UploadPart] = []

    def send(self, number: int, data: bytes, *, url: str | None = None) -> None:
        """Send a part to its URL: the one given, or a fresh one."""
        request = urllib.request.Request(url or self.url(number), data=data, method="PUT")
        with urllib.request.urlopen(request, timeout=30) as answer:
            etag = answer.headers["ETag"]
        self.sent.append(lakefs_sdk.UploadPart(part_number=number, etag=etag))

    def url(self, number: int) -> str:
        source = lakefs_sdk.UploadPartFrom(physical_address=self.begun.physical_address)
        found: str = self.api.upload_part(
            "lake", "main", self.begun.upload_id, self.path, number, source
        ).presigned_url
        return found

    def complete(self, **more: Any) -> lakefs_sdk.ObjectStats:
        body = lakefs_sdk.CompletePresignMultipartUpload(
            **{"physical_address": self.begun.physical_address, "parts": self.sent, **more}
        )
        return self.api.complete_presign_multipart_upload(
            "lake", "main", self.begun.upload_id, self.path, complete_presign_multipart_upload=body
        )

    def abort(self) -> None:
        body = lakefs_sdk.AbortPresignMultipartUpload(physical_address=self.begun.physical_address)
        self.api.abort_presign_multipart_upload(
            "lake", "main", self.begun.upload_id, self.path, abort_presign_multipart_upload=body
        )


@pytest.fixture
def client(s3_backed: ServerProcess, on_s3: lakefs.Branch) -> Iterator[lakefs_sdk.ApiClient]:
    """The generated client, over a server that has the repository."""
    assert on_s3.id == "main"
    with low_level(s3_backed) as opened:
        yield opened


def _etag(part: lakefs_sdk.UploadPart) -> ETag:
    return ETag(part.etag.strip('"'))


def _read(on_s3: lakefs.Branch, path: str) -> bytes:
    with on_s3.object(path).reader(mode="rb") as reader:
        content: bytes = reader.read()
        return content


def test_clients_are_told_that_parts_are_signed(client: lakefs_sdk.ApiClient) -> None:
    storage = lakefs_sdk.ConfigApi(client).get_config().storage_config
    assert storage.pre_sign_multipart_upload


def test_parts_sent_to_their_urls_become_one_object(
    client: lakefs_sdk.ApiClient, on_s3: lakefs.Branch
) -> None:
    upload = Upload(client, "parts", parts=2)
    assert len(upload.begun.presigned_urls) == 2
    upload.send(1, b"1" * PART, url=upload.begun.presigned_urls[0])
    upload.send(2, b"2" * PART, url=upload.begun.presigned_urls[1])
    upload.send(3, b"last")
    assert not on_s3.object("parts").exists(), "nothing shows before it is completed"
    made = upload.complete(user_metadata={"k": "v"}, content_type="text/csv")
    stat = on_s3.object("parts").stat()
    assert (stat.size_bytes, stat.metadata, stat.content_type) == (2 * PART + 4, {"k": "v"}, "text/csv")
    assert stat.physical_address == made.physical_address == upload.begun.physical_address
    assert stat.checksum == made.checksum
    assert made.checksum.endswith("-3"), "the ETag of an object in three parts"
    assert _read(on_s3, "parts") == b"1" * PART + b"2" * PART + b"last"


def test_a_completed_upload_is_linked_once(client: lakefs_sdk.ApiClient, on_s3: lakefs.Branch) -> None:
    upload = Upload(client, "once")
    upload.send(1, b"content")
    first = upload.complete()
    assert upload.complete() == first, "a lost reply is harmless"
    on_s3.object("once").delete()
    # At first the server cannot tell this from a call that is still staging, and says 503; later it says 400.
    with pytest.raises((BadRequestException, ServiceException)):
        upload.complete()
    assert not on_s3.object("once").exists()
    with pytest.raises(NotFoundException):
        upload.url(2)
    with pytest.raises(NotFoundException):
        upload.abort()


async def test_what_was_completed_and_not_linked_is_linked_when_asked_again(
    client: lakefs_sdk.ApiClient, on_s3: lakefs.Branch, s3_settings: StoreSettings
) -> None:
    upload = Upload(client, "crashed")
    upload.send(1, b"content")
    store = open_store("s3://lake/repo", s3_settings)
    key = upload.begun.physical_address.removeprefix("s3://lake/repo/")
    etag = await store.complete_upload(key, upload.begun.upload_id, [Part(1, _etag(upload.sent[0]), 7)])
    await store.close()
    assert upload.complete().checksum == etag
    assert _read(on_s3, "crashed") == b"content"


def test_the_address_of_an_upload_is_for_one_path_and_one_upload(client: lakefs_sdk.ApiClient) -> None:
    one, other = Upload(client, "one"), Upload(client, "other")
    one.send(1, b"content")
    with pytest.raises(BadRequestException):
        one.complete(physical_address=other.begun.physical_address)
    with pytest.raises(BadRequestException):
        one.complete(physical_address="s3://lake/repo/data/none/none")
    one.begun.upload_id, mine = other.begun.upload_id, one.begun.upload_id
    with pytest.raises(NotFoundException):
        one.complete()
    with pytest.raises(NotFoundException):
        one.url(1)
    with pytest.raises(NotFoundException):
        one.abort()
    one.begun.upload_id = mine
    assert one.complete().size_bytes == 7


def test_an_address_without_an_upload_completes_nothing(client: lakefs_sdk.ApiClient) -> None:
    upload = Upload(client, "plain")
    upload.send(1, b"content")
    address = lakefs_sdk.StagingApi(client).get_physical_address("lake", "main", "plain").physical_address
    with pytest.raises(NotFoundException):
        upload.complete(physical_address=address)
    upload.abort()


@pytest.mark.parametrize(
    "spoil",
    [
        lambda parts: [],
        lambda parts: parts[::-1],
        lambda parts: [parts[0], parts[0]],
        lambda parts: [parts[0], lakefs_sdk.UploadPart(part_number=2, etag="0" * 32)],
        lambda parts: [*parts, lakefs_sdk.UploadPart(part_number=3, etag=parts[0].etag)],
        lambda parts: [lakefs_sdk.UploadPart(part_number=0, etag=parts[0].etag)],
        lambda parts: [lakefs_sdk.UploadPart(part_number=10_001, etag=parts[0].etag)],
    ],
    ids=["none", "backwards", "twice", "other-etag", "never-sent", "part-0", "part-10001"],
)
def test_wrong_parts_are_refused_and_right_ones_still_do(
    client: lakefs_sdk.ApiClient, on_s3: lakefs.Branch, spoil: Callable[[Any], Any], request: Any
) -> None:
    path = f"wrong-{request.node.callspec.id}"
    upload = Upload(client, path)
    upload.send(1, b"1" * PART)
    upload.send(2, b"2")
    with pytest.raises(BadRequestException):
        upload.complete(parts=spoil(upload.sent))
    assert not on_s3.object(path).exists()
    upload.complete()
    assert _read(on_s3, path) == b"1" * PART + b"2"


def test_an_aborted_upload_is_over(client: lakefs_sdk.ApiClient, on_s3: lakefs.Branch) -> None:
    upload = Upload(client, "aborted")
    url = upload.url(2)
    upload.send(1, b"1" * PART)
    upload.abort()
    upload.abort()
    with pytest.raises(urllib.error.HTTPError):
        upload.send(2, b"2", url=url)
    with pytest.raises(BadRequestException):
        upload.complete()
    with pytest.raises(BadRequestException):
        upload.url(2)
    assert not on_s3.object("aborted").exists()


@pytest.mark.parametrize("parts", [-1, 10_001])
def test_so_many_parts_are_not_signed(client: lakefs_sdk.ApiClient, parts: int) -> None:
    with pytest.raises(BadRequestException):
        Upload(client, "many", parts=parts)


def test_objects_and_ranges_of_them_are_copied_into_parts(
    s3_backed: ServerProcess, client: lakefs_sdk.ApiClient, on_s3: lakefs.Branch
) -> None:
    on_s3.object("source").upload(data=b"0" * PART + b"123456", mode="wb")
    other = lakefs.Repository("other", client=high_level(s3_backed)).create("s3://lake/other").branch("main")
    other.object("elsewhere").upload(data=b"elsewhere", mode="wb")
    upload = Upload(client, "copied")

    def copy(number: int, repository: str, path: str, wanted: str | None) -> None:
        source = lakefs_sdk.CopyPartSource(repository=repository, ref="main", path=path, range=wanted)
        answer = upload.api.upload_part_copy_with_http_info(
            *("lake", "main", upload.begun.upload_id, "copied", number),
            lakefs_sdk.UploadPartCopyFrom(physical_address=upload.begun.physical_address, copy_source=source),
        )
        assert answer.status_code == 204
        etag = (answer.headers or {})["etag"]
        upload.sent.append(lakefs_sdk.UploadPart(part_number=number, etag=etag))

    copy(1, "lake", "source", None)
    copy(2, "lake", "source", f"bytes=0-{PART}")
    copy(3, "other", "elsewhere", "bytes=4-8")
    with pytest.raises(lakefs_sdk.ApiException) as refused:
        copy(4, "lake", "source", f"bytes={2 * PART}-")
    assert refused.value.status == 416
    with pytest.raises(NotFoundException):
        copy(4, "lake", "none", None)
    upload.complete()
    assert _read(on_s3, "copied") == b"0" * PART + b"123456" + b"0" * PART + b"1" + b"where"
