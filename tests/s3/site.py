"""The S3 endpoint in this process, and requests to it that botocore has signed."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from botocore.auth import S3SigV4Auth, S3SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from lakebed.catalog.session import Sessions
from lakebed.env.clock import SystemClock
from lakebed.env.work import InlineWorkers
from lakebed.s3.app import S3App, S3Services
from lakebed.s3.signatures.gate import Gate
from lakebed.testing.lake import Lake
from lakebed.testing.rest import Rest

HOST = "127.0.0.1:8000"


@dataclass(slots=True)
class Sent:
    """A request as it goes over the wire."""

    method: str
    path: str
    query: str
    headers: list[tuple[str, str]]
    body: bytes


@dataclass(frozen=True, slots=True)
class Site:
    lake: Lake
    app: S3App
    credentials: Credentials

    async def send(self, sent: Sent) -> tuple[int, bytes]:
        scope = {
            "type": "http",
            "method": sent.method,
            "path": sent.path,
            "raw_path": sent.path.encode("utf-8", "surrogatepass"),
            "query_string": sent.query.encode("utf-8", "surrogatepass"),
            "headers": [
                (name.lower().encode("latin-1", "replace"), value.encode("latin-1", "replace"))
                for name, value in sent.headers
            ],
        }
        answers: list[Any] = []

        async def receive() -> Any:
            return {"type": "http.request", "body": sent.body, "more_body": False}

        async def send(message: Any) -> None:
            answers.append(message)

        await self.app(scope, receive, send)
        return answers[0]["status"], b"".join(each.get("body", b"") for each in answers[1:])

    def signed(
        self,
        method: str,
        target: str,
        body: bytes = b"",
        *,
        presigned: bool = False,
        headers: Mapping[str, str] | None = None,
    ) -> Sent:
        path, _, query = target.partition("?")
        request = AWSRequest(
            method, f"http://{HOST}{path}" + (f"?{query}" if query else ""), data=b"" if presigned else body
        )
        request.headers["host"] = HOST
        if presigned:
            S3SigV4QueryAuth(self.credentials, "s3", "us-east-1", expires=60).add_auth(request)
        else:
            request.headers["x-amz-content-sha256"] = hashlib.sha256(body).hexdigest()
            request.headers["x-amz-meta-colour"] = "red"
            for name, value in (headers or {}).items():
                request.headers[name] = value
            S3SigV4Auth(self.credentials, "s3", "us-east-1").add_auth(request)
        path, _, query = str(request.url).removeprefix(f"http://{HOST}").partition("?")
        sent = [(name, value) for name, value in request.headers.items()]
        if body:
            sent.append(("content-length", str(len(body))))
        return Sent(method, path, query, sent, body)


async def site_of(rest: Rest, user: str = "admin") -> Site:
    """Return the endpoint over the lake of a REST API, with a new key of a user."""
    clock = SystemClock()
    key = await rest.auth.credentials.create(user)
    services = S3Services(
        sessions=Sessions(rest.lake.engine).with_auth(rest.auth),
        gate=Gate(rest.auth.authenticator, clock),
        clock=clock,
        workers=InlineWorkers(),
        process="test",
        region="us-east-1",
        domain="s3.test",
    )
    return Site(rest.lake, S3App(services), Credentials(key.id, key.secret_access_key))
