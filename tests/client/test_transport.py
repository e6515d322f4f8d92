"""Requests: what is repeated, what errors they raise, how pages are followed. No server: the wire is a function."""

import hashlib
import io

import httpx
import msgspec
import pytest

from lakebed.client.client import Client
from lakebed.client.config import load_config
from lakebed.client.transport import Transport
from lakebed.client.uploads import UploadOptions
from lakebed.env.ids import SeededIds
from lakebed.errors import (
    AlreadyExistsError,
    ConflictError,
    CorruptError,
    DeniedError,
    ErrorKind,
    InvalidInputError,
    LakebedError,
    NotFoundError,
    PreconditionError,
    UnavailableError,
)
from lakebed.limits import CLIENT_ATTEMPTS_MAX

REPO = b'{"id":"r","storage_namespace":"local://r","default_branch":"main","creation_date":1}'
COMMIT = b'{"id":"c","parents":[],"committer":"me","message":"m","creation_date":1,"meta_range_id":""}'


class Wire:
    """Answers requests from a script, the last line of it for ever."""

    def __init__(self, *answers) -> None:
        self.answers = list(answers)
        self.requests: list[httpx.Request] = []
        self.waits: list[float] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        request.read()
        self.requests.append(request)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def client(self) -> Client:
        config = load_config("http://lake", "key", "secret", environment={})
        return Client(
            transport=Transport(
                config, http=httpx.MockTransport(self), ids=SeededIds(1), sleep=self.waits.append
            )
        )


def status(code: int, body: bytes = b"", **headers: str) -> httpx.Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return httpx.Response(code, content=body, headers=named)


LOST = httpx.ReadError("connection reset")
REFUSED = httpx.ConnectError("connection refused")


def test_a_request_carries_the_key_pair_and_an_encoded_path() -> None:
    wire = Wire(status(200, COMMIT))

    wire.client().repo("r").ref("a/b~1").head()

    assert wire.requests[0].url.raw_path == b"/api/v1/repositories/r/commits/a%2Fb~1"
    assert wire.requests[0].headers["authorization"] == "Basic a2V5OnNlY3JldA=="


@pytest.mark.parametrize("name", ["", ".", ".."])
def test_a_name_that_would_climb_to_something_else_is_never_sent(name: str) -> None:
    wire = Wire(status(204))

    with pytest.raises(InvalidInputError):
        wire.client().repo("r").branch(name).delete()

    assert wire.requests == []


@pytest.mark.parametrize("trouble", [status(503), status(429), LOST, REFUSED])
def test_a_read_is_repeated_until_it_is_answered(trouble) -> None:
    wire = Wire(trouble, trouble, status(200, REPO))

    assert wire.client().repo("r").info().id == "r"
    assert len(wire.waits) == 2
    assert wire.waits[0] < 0.2 * 1.5


@pytest.mark.parametrize("trouble", [status(503), LOST])
def test_a_commit_that_may_have_happened_is_not_repeated(trouble) -> None:
    wire = Wire(trouble)

    with pytest.raises(UnavailableError):
        wire.client().repo("r").branch("main").commit("m")

    assert len(wire.requests) == 1


def test_a_commit_without_a_reply_says_that_its_outcome_is_unknown() -> None:
    with pytest.raises(UnavailableError) as caught:
        Wire(LOST).client().repo("r").branch("main").commit("m")

    assert caught.value.kind is ErrorKind.OUTCOME_UNKNOWN


@pytest.mark.parametrize("trouble", [status(429), REFUSED])
def test_a_commit_that_surely_did_not_happen_is_repeated(trouble) -> None:
    wire = Wire(trouble, status(201, COMMIT))

    assert wire.client().repo("r").branch("main").commit("m").id == "c"


def test_tries_are_bounded_and_the_last_error_is_raised() -> None:
    wire = Wire(status(503, b'{"message":"busy"}'))

    with pytest.raises(UnavailableError, match="busy"):
        wire.client().repo("r").info()

    assert len(wire.requests) == CLIENT_ATTEMPTS_MAX


def test_a_server_that_asks_for_patience_gets_it() -> None:
    wire = Wire(status(429, retry_after="7"), status(200, REPO))

    wire.client().repo("r").info()

    assert 3.5 <= wire.waits[0] < 10.5


def test_a_deletion_whose_reply_was_lost_is_done_when_the_thing_is_gone() -> None:
    Wire(LOST, status(404)).client().repo("r").branch("b").delete()

    with pytest.raises(NotFoundError):
        Wire(status(404)).client().repo("r").branch("b").delete()


def test_an_upload_is_sent_again_from_its_beginning() -> None:
    stored = b'{"path":"p","path_type":"object","checksum":"5d41402abc4b2a76b9719d911017c592"}'
    wire = Wire(LOST, status(201, stored))

    wire.client().repo("r").branch("main").write("p", b"hello")

    assert [request.content for request in wire.requests] == [b"hello", b"hello"]
    assert wire.requests[1].headers["content-length"] == "5"


def test_a_conditional_upload_is_not_sent_again() -> None:
    wire = Wire(LOST)

    with pytest.raises(UnavailableError):
        wire.client().repo("r").branch("main").write("p", b"hello", UploadOptions(if_absent=True))

    assert len(wire.requests) == 1


def test_an_upload_that_arrived_as_other_bytes_is_not_taken_for_good() -> None:
    stored = b'{"path":"p","path_type":"object","checksum":"00000000000000000000000000000000"}'

    with pytest.raises(CorruptError):
        Wire(status(201, stored)).client().repo("r").branch("main").write("p", b"hello")


@pytest.mark.parametrize(
    ("code", "raised"),
    [
        (400, InvalidInputError),
        (401, DeniedError),
        (403, DeniedError),
        (404, NotFoundError),
        (409, ConflictError),
        (410, NotFoundError),
        (412, PreconditionError),
        (416, InvalidInputError),
        (418, InvalidInputError),
        (429, UnavailableError),
        (500, CorruptError),
        (501, InvalidInputError),
        (502, UnavailableError),
        (503, UnavailableError),
    ],
)
def test_each_status_raises_the_class_whose_remedy_it_has(code: int, raised: type[LakebedError]) -> None:
    with pytest.raises(raised, match="because"):
        Wire(status(code, b'{"message":"because"}')).client().repo("r").info()


def test_the_kind_that_a_server_names_is_the_kind_that_is_raised() -> None:
    named = status(404, b'{"message":"gone"}', x_lakebed_error_kind="branch-not-found")

    with pytest.raises(NotFoundError) as caught:
        Wire(named).client().repo("r").info()

    assert caught.value.kind is ErrorKind.BRANCH_NOT_FOUND


@pytest.mark.parametrize(
    "refusal",
    [
        status(409, b'{"message":"branch already exists"}'),
        status(409, b'{"message":"taken"}', x_lakebed_error_kind="branch-exists"),
    ],
)
def test_a_taken_name_is_told_from_a_lost_race(refusal) -> None:
    with pytest.raises(AlreadyExistsError):
        Wire(refusal).client().repo("r").branch("b").create("main")


def test_a_merge_with_conflicts_says_what_to_do() -> None:
    with pytest.raises(ConflictError, match="source-wins") as caught:
        Wire(status(409, b'{"reference":""}')).client().repo("r").branch("b").merge("main")

    assert caught.value.kind is ErrorKind.MERGE_CONFLICT


def test_a_reply_of_some_other_server_is_recognised() -> None:
    with pytest.raises(CorruptError, match="is the endpoint right"):
        Wire(status(200, b"<html>")).client().repo("r").info()


def test_no_server_at_all_is_said_with_the_endpoint() -> None:
    with pytest.raises(UnavailableError, match=r"http://lake.*arguments"):
        Wire(REFUSED).client().repo("r").info()


def page(names: list[str], *, more: bool) -> httpx.Response:
    pagination = {"has_more": more, "next_offset": names[-1] if more else "", "results": len(names)}
    results = [{"id": name, "commit_id": "c"} for name in names]
    return status(200, msgspec.json.encode({"pagination": pagination, "results": results}))


def test_pages_are_followed_and_only_as_far_as_they_are_read() -> None:
    wire = Wire(page(["a", "b"], more=True), page(["c"], more=False))
    branches = wire.client().repo("r").branches()

    assert [next(branches).id, next(branches).id] == ["a", "b"]
    assert len(wire.requests) == 1
    assert [each.id for each in branches] == ["c"]
    assert wire.requests[1].url.params["after"] == "b"


def test_no_more_is_asked_for_than_is_wanted() -> None:
    wire = Wire(page(["a", "b"], more=True))

    assert len(list(wire.client().repo("r").branches(limit=2))) == 2
    assert [request.url.params["amount"] for request in wire.requests] == ["2"]


def test_a_signed_url_is_asked_as_it_is_and_without_the_access_key() -> None:
    url = "http://storage/bucket/a%2Fb?X-Amz-Credential=k%2F20260101&X-Amz-Signature=0a1b%20"
    wire = Wire(
        status(200, msgspec.json.encode({"physical_address": "s3://bucket/a", "presigned_url": url})),
        status(503),
        status(200),
        status(200, b'{"path":"a","path_type":"object","checksum":"c","size_bytes":1}'),
    )

    with wire.client() as client:
        client.repo("r").branch("main").upload_presigned("a", io.BytesIO(b"x"))

    _, first, second, link = wire.requests
    assert [str(first.url), str(second.url)] == [url, url]
    assert (first.content, second.content) == (b"x", b"x")
    assert "authorization" not in first.headers
    assert "authorization" in link.headers
    assert msgspec.json.decode(link.content)["checksum"] == hashlib.md5(b"x").hexdigest()


def test_a_refused_signed_url_is_named_without_its_signature() -> None:
    url = "http://storage/bucket/a?X-Amz-Signature=0a1b"
    location = msgspec.json.encode({"physical_address": "s3://bucket/a", "presigned_url": url})
    wire = Wire(status(200, location), status(403, b"<Error/>"))

    with wire.client() as client, pytest.raises(DeniedError) as refused:
        client.repo("r").branch("main").upload_presigned("a", io.BytesIO(b"x"))

    assert "http://storage/bucket/a" in str(refused.value)
    assert "0a1b" not in str(refused.value)


def test_a_stream_without_a_length_is_not_sent_to_a_signed_url() -> None:
    class Stream(io.BytesIO):
        def seekable(self) -> bool:
            return False

    wire = Wire(status(500))

    with wire.client() as client, pytest.raises(InvalidInputError):
        client.repo("r").branch("main").upload_presigned("a", Stream(b"x"))

    assert wire.requests == []
