"""What is refused says why, in a code that tools show and act on."""

import hashlib
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import boto3
import httpx
import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.config import Config
from botocore.credentials import Credentials
from botocore.exceptions import ClientError

from lakebed.env.clock import SystemClock
from lakebed.errors import ErrorKind
from lakebed.http.dates import http_date
from lakebed.s3.kinds import CODES
from tests.s3.conftest import Endpoint
from tests.s3.test_objects import code

server = [pytest.mark.server, pytest.mark.xdist_group("s3")]


def test_every_kind_of_error_has_a_code() -> None:
    assert set(CODES) == set(ErrorKind)


class TestOnAServer:
    pytestmark = server

    def test_what_is_missing(self, s3: Any, lake: str) -> None:
        with pytest.raises(s3.exceptions.NoSuchBucket):
            s3.get_object(Bucket="no-such-repository", Key="main/x")
        with pytest.raises(s3.exceptions.NoSuchKey):
            s3.get_object(Bucket=lake, Key="main/x")
        with pytest.raises(s3.exceptions.NoSuchKey):
            s3.get_object(Bucket=lake, Key="nobranch/x")
        with pytest.raises(s3.exceptions.NoSuchKey):
            s3.get_object(Bucket=lake, Key="main")
        with pytest.raises(ClientError) as refused:
            s3.head_object(Bucket=lake, Key="main/x")
        assert code(refused) == ("404", 404)

    def test_writes_that_cannot_be(self, endpoint: Endpoint, s3: Any, lake: str) -> None:
        branches = f"/repositories/{lake}/branches"
        endpoint.rest("POST", branches, json={"name": "closed", "source": "main"})
        rules = [{"pattern": "closed"}]
        endpoint.rest("PUT", f"/repositories/{lake}/settings/branch_protection", json=rules)
        commit = endpoint.rest(
            "POST", f"{branches}/main/commits", json={"message": "m", "allow_empty": True}
        ).json()
        endpoint.rest("POST", f"/repositories/{lake}/tags", json={"id": "v1", "ref": "main"})
        frozen = endpoint.repository("local", read_only=True)
        expected = {
            (lake, "nobranch/x"): ("NoSuchBranch", 404),
            (lake, "closed/x"): ("ProtectedBranch", 403),
            (lake, "v1/x"): ("ReadOnlyRef", 403),
            (lake, f"{commit['id']}/x"): ("ReadOnlyRef", 403),
            (lake, "main~1/x"): ("ReadOnlyRef", 403),
            (frozen, "main/x"): ("ReadOnlyRepository", 403),
            (lake, "main"): ("InvalidRequest", 400),
            ("no-such-repository", "main/x"): ("NoSuchBucket", 404),
        }
        for (bucket, key), told in expected.items():
            for call in (
                lambda: s3.put_object(Bucket=bucket, Key=key, Body=b"x"),  # noqa: B023  called at once
                lambda: s3.create_multipart_upload(Bucket=bucket, Key=key),  # noqa: B023  called at once
            ):
                with pytest.raises(ClientError) as refused:
                    call()
                assert code(refused) == told

    def test_the_reason_is_readable_in_the_output_of_the_command_line(
        self, endpoint: Endpoint, lake: str, tmp_path: Path
    ) -> None:
        (tmp_path / "f").write_text("x")
        done = subprocess.run(
            [str(Path(sys.executable).parent / "aws"), "s3", "cp", "f", f"s3://{lake}/nobranch/x"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
            env={
                "AWS_ACCESS_KEY_ID": endpoint.process.access_key,
                "AWS_SECRET_ACCESS_KEY": endpoint.process.secret_key,
                "AWS_ENDPOINT_URL": endpoint.url,
                "AWS_DEFAULT_REGION": "us-east-1",
                "HOME": str(tmp_path),
                "PATH": str(Path(sys.executable).parent),
            },
        )
        assert done.returncode == 1
        assert "(NoSuchBranch)" in done.stderr
        assert "branch 'nobranch' not found" in done.stderr

    def test_permissions_are_those_of_the_rest_api(self, endpoint: Endpoint, s3: Any, lake: str) -> None:
        s3.put_object(Bucket=lake, Key="main/public/x", Body=b"1")
        s3.put_object(Bucket=lake, Key="main/secret/x", Body=b"1")
        user, policy = f"user-of-{lake}", f"policy-of-{lake}"
        endpoint.rest("POST", "/auth/users", json={"id": user})
        statement = {
            "effect": "allow",
            "action": ["fs:ReadObject", "fs:DeleteObject"],
            "resource": f"arn:lakefs:fs:::repository/{lake}/object/public/*",
        }
        endpoint.rest("POST", "/auth/policies", json={"id": policy, "statement": [statement]})
        endpoint.rest("PUT", f"/auth/users/{user}/policies/{policy}")
        key = endpoint.rest("POST", f"/auth/users/{user}/credentials").json()
        theirs = endpoint.client(
            aws_access_key_id=key["access_key_id"], aws_secret_access_key=key["secret_access_key"]
        )
        assert theirs.get_object(Bucket=lake, Key="main/public/x")["Body"].read() == b"1"
        for call in (
            lambda: theirs.get_object(Bucket=lake, Key="main/secret/x"),
            lambda: theirs.put_object(Bucket=lake, Key="main/public/x", Body=b"2"),
            lambda: theirs.list_objects_v2(Bucket=lake, Prefix="main/"),
            lambda: theirs.create_multipart_upload(Bucket=lake, Key="main/public/x"),
            lambda: theirs.copy_object(
                Bucket=lake, Key="main/public/y", CopySource={"Bucket": lake, "Key": "main/secret/x"}
            ),
        ):
            with pytest.raises(ClientError) as refused:
                call()
            assert code(refused) == ("AccessDenied", 403)
        assert theirs.list_buckets()["Buckets"] == []
        done = theirs.delete_objects(
            Bucket=lake, Delete={"Objects": [{"Key": "main/public/x"}, {"Key": "main/secret/x"}]}
        )
        assert [each["Key"] for each in done["Deleted"]] == ["main/public/x"]
        assert [(each["Key"], each["Code"]) for each in done["Errors"]] == [("main/secret/x", "AccessDenied")]

    def test_what_is_not_ours_is_not_implemented(self, s3: Any, lake: str) -> None:
        s3.put_object(Bucket=lake, Key="main/x", Body=b"1")
        for call in (
            lambda: s3.create_bucket(Bucket="brand-new"),
            lambda: s3.delete_bucket(Bucket=lake),
            lambda: s3.list_object_versions(Bucket=lake),
            lambda: s3.get_object(Bucket=lake, Key="main/x", VersionId="1"),
            lambda: s3.put_bucket_versioning(Bucket=lake, VersioningConfiguration={"Status": "Enabled"}),
            lambda: s3.restore_object(Bucket=lake, Key="main/x"),
        ):
            with pytest.raises(ClientError) as refused:
                call()
            assert code(refused) == ("NotImplemented", 501)
        with pytest.raises(s3.exceptions.BucketAlreadyOwnedByYou):
            s3.create_bucket(Bucket=lake)
        with pytest.raises(s3.exceptions.NoSuchBucket, match="a bucket is a repository"):
            s3.delete_bucket(Bucket="nowhere")

    def test_a_tool_that_was_pointed_at_the_rest_api_is_told(self, endpoint: Endpoint, lake: str) -> None:
        for url in (endpoint.url, endpoint.own_url):
            client = endpoint.client(endpoint_url=f"{url}/api/v1")
            for call in (
                client.list_buckets,
                lambda: client.create_bucket(Bucket=lake),  # noqa: B023  called at once
                lambda: client.list_objects_v2(Bucket=lake),  # noqa: B023  called at once
                lambda: client.list_objects(Bucket=lake, Prefix="main/"),  # noqa: B023  called at once
                lambda: client.put_object(Bucket=lake, Key="main/x", Body=b"1"),  # noqa: B023  called at once
                lambda: client.get_object(Bucket=lake, Key="main/x"),  # noqa: B023  called at once
                lambda: client.create_multipart_upload(Bucket=lake, Key="main/x"),  # noqa: B023  called at once
                lambda: client.delete_objects(Bucket=lake, Delete={"Objects": [{"Key": "main/x"}]}),  # noqa: B023  called at once
            ):
                with pytest.raises(ClientError) as refused:
                    call()
                assert code(refused) == ("WrongEndpoint", 400)
                address = url.removeprefix("http://")
                assert f"The S3 endpoint is {address} without /api/v1" in str(refused.value)

    def test_a_wrong_secret_and_an_unknown_key(self, endpoint: Endpoint, lake: str) -> None:
        for options, told, named in (
            ({"aws_secret_access_key": "wrong"}, "SignatureDoesNotMatch", endpoint.process.access_key),
            ({"aws_access_key_id": "AKIANOBODY"}, "InvalidAccessKeyId", "AKIANOBODY"),
        ):
            with pytest.raises(ClientError) as refused:
                endpoint.client(**options).put_object(Bucket=lake, Key="main/x", Body=b"1")
            assert code(refused) == (told, 403)
            assert named in refused.value.response["Error"]["Message"]

    def test_an_error_repeats_little_of_a_long_request(self, endpoint: Endpoint, lake: str) -> None:
        for path, headers in (
            (f"/{lake}/main/{'a' * 20_000}", {}),
            (f"/{lake}/main/x?{'b' * 20_000}", {}),
            (f"/{lake}/main/x", {"x-amz-meta-c": "c" * 20_000}),
        ):
            signature = f"AWS {endpoint.process.access_key}:{'d' * 20_000}"
            sent = {"authorization": signature, "x-amz-date": "20260101T000000Z", **headers}
            for given in (sent, {**sent, "x-amz-date": http_date(SystemClock().now()).decode()}):
                answer = httpx.get(endpoint.url + path, headers=given)
                assert answer.status_code == 403
                assert len(answer.content) < 30_000

    def test_a_body_that_is_not_what_was_signed_leaves_nothing(
        self, endpoint: Endpoint, s3: Any, lake: str
    ) -> None:
        for key, size in (("main/small", 10), ("main/large", 2_000_000)):
            sent = _signed(endpoint, "PUT", f"/{lake}/{key}", b"a" * size)
            answer = httpx.put(endpoint.url + f"/{lake}/{key}", content=b"b" * size, headers=sent)
            assert answer.status_code == 400
            assert "<Code>XAmzContentSHA256Mismatch</Code>" in answer.text
            with pytest.raises(s3.exceptions.NoSuchKey):
                s3.get_object(Bucket=lake, Key=key)

    def test_a_document_with_a_dtd_is_refused(self, endpoint: Endpoint, lake: str) -> None:
        bomb = b'<!DOCTYPE d [<!ENTITY a "aaaa">]><Delete><Object><Key>&a;</Key></Object></Delete>'
        sent = _signed(endpoint, "POST", f"/{lake}?delete=", bomb)
        answer = httpx.post(f"{endpoint.url}/{lake}?delete=", content=bomb, headers=sent)
        assert (answer.status_code, "<Code>MalformedXML</Code>" in answer.text) == (400, True)

    @pytest.mark.parametrize(
        ("key", "status"), [("nobranch/x", b"404"), ("v9/x", b"404"), ("main/x", b"100")]
    )
    def test_whoever_waits_for_100_continue_is_refused_before_the_body(
        self, endpoint: Endpoint, lake: str, key: str, status: bytes
    ) -> None:
        path = f"/{lake}/{key}"
        sent = _signed(endpoint, "PUT", path, b"x" * 100_000) | {
            "Expect": "100-continue",
            "Content-Length": "100000",
        }
        host, port = endpoint.url.removeprefix("http://").split(":")
        head = f"PUT {path} HTTP/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in sent.items())
        with socket.create_connection((host, int(port)), timeout=20) as connection:
            connection.sendall(head.encode() + b"\r\n")
            assert connection.recv(1000).split(b" ")[1] == status

    def test_the_host_names_the_bucket_under_the_domain(self, endpoint: Endpoint, s3: Any, lake: str) -> None:
        s3.put_object(Bucket=lake, Key="main/x", Body=b"1")
        port = endpoint.url.rpartition(":")[2]
        host = f"{lake}.s3.localhost:{port}"
        sent = _signed(endpoint, "GET", "/main/x", b"", host=host)
        answer = httpx.get(f"{endpoint.url}/main/x", headers=sent)
        assert (answer.status_code, answer.content) == (200, b"1")
        unsigned = httpx.get(f"{endpoint.url}/main/x", headers={"host": host})
        assert (unsigned.status_code, "<Code>AccessDenied</Code>" in unsigned.text) == (403, True)

    def test_a_port_of_its_own_serves_nothing_but_s3(self, endpoint: Endpoint, s3: Any, lake: str) -> None:
        s3.put_object(Bucket=lake, Key="main/x", Body=b"1")
        own = endpoint.client(endpoint_url=endpoint.own_url)
        assert own.get_object(Bucket=lake, Key="main/x")["Body"].read() == b"1"
        rest = httpx.get(
            f"{endpoint.own_url}/api/v1/repositories",
            auth=(endpoint.process.access_key, endpoint.process.secret_key),
        )
        assert (rest.status_code, rest.headers["content-type"]) == (400, "application/json")
        assert "this address serves S3 and not the REST API" in rest.json()["message"]
        assert endpoint.url.rpartition(":")[2] in rest.json()["message"]
        unsigned = httpx.get(f"{endpoint.own_url}/{lake}/main/x")
        assert (unsigned.status_code, "<Code>AccessDenied</Code>" in unsigned.text) == (403, True)
        assert httpx.get(f"{endpoint.own_url}/_health").status_code == 200

    def test_presigned_urls_of_both_versions(self, endpoint: Endpoint, lake: str) -> None:
        for version in ("s3v4", "s3"):
            client = boto3.client(
                "s3",
                endpoint_url=endpoint.url,
                aws_access_key_id=endpoint.process.access_key,
                aws_secret_access_key=endpoint.process.secret_key,
                region_name="us-east-1",
                config=Config(signature_version=version, s3={"addressing_style": "path"}),
            )
            params = {"Bucket": lake, "Key": f"main/presigned {version}"}
            assert (
                httpx.put(client.generate_presigned_url("put_object", params), content=b"p").status_code
                == 200
            )
            url = client.generate_presigned_url("get_object", params)
            assert httpx.get(url).content == b"p"
            assert httpx.get(url.replace("presigned", "other")).status_code == 403


def _signed(
    endpoint: Endpoint, method: str, path: str, body: bytes, *, host: str | None = None
) -> dict[str, str]:
    """Return the headers of a request that is signed for `body`."""
    host = host or endpoint.url.removeprefix("http://")
    request = AWSRequest(method, f"http://{host}{path}", data=body)
    credentials = Credentials(endpoint.process.access_key, endpoint.process.secret_key)
    signer = SigV4Auth(credentials, "s3", "us-east-1")
    request.headers["x-amz-content-sha256"] = hashlib.sha256(body).hexdigest()
    request.headers["host"] = host
    signer.add_auth(request)
    return dict(request.headers.items())
