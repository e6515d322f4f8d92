"""The S3 endpoint as one ASGI application.

For each request: take it apart, let it in or not (who signed it, and whether it holds),
find the operation, call the handler, send the reply. Nothing of a body is asked for before
the handler does, so that a client that waits for `100 Continue` is refused before it sends
anything. Whatever goes wrong on the way becomes an XML error in one place.
"""

from collections.abc import Awaitable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import unquote, unquote_plus

from msgspec.structs import replace

from lakebed.catalog.session import Session, Sessions
from lakebed.env.clock import Clock
from lakebed.env.work import Workers
from lakebed.errors import ErrorKind, LakebedError
from lakebed.format.memo import memo
from lakebed.http.held import HeldBodies, Hold
from lakebed.http.proxies import Proxies
from lakebed.http.reply import Receive, Reply, Scope, Send, begun, headers_of, send_reply
from lakebed.s3.call import Call
from lakebed.s3.errors import Code, S3Error
from lakebed.s3.kinds import s3_error
from lakebed.s3.operation import SUB_RESOURCES, Level, Operation, Table
from lakebed.s3.reply import error_reply
from lakebed.s3.request import Request, without_empty
from lakebed.s3.signatures.gate import Gate
from lakebed.s3.table import OPERATIONS
from lakebed.telemetry.failures import failure_fields
from lakebed.telemetry.log import get_logger, info
from lakebed.telemetry.request_ids import RequestIds
from lakebed.telemetry.requests import RequestMeter

NO_OPERATION: Final = "s3:none"
"""What requests that lead nowhere are counted as."""
_NO_REPOSITORY: Final = frozenset(
    {ErrorKind.REPO_NOT_FOUND, ErrorKind.INVALID_REPO_NAME, ErrorKind.PERMISSION_DENIED}
)
_NO_BRANCH: Final = frozenset({ErrorKind.BRANCH_NOT_FOUND, ErrorKind.INVALID_BRANCH_NAME})
_DOMAIN_SEPARATOR: Final = "."
_NO_QUERY: Final[Mapping[str, str]] = {}
_WITH_BODY: Final = frozenset({"PUT", "POST"})
_BUG: Final = S3Error(Code.INTERNAL_ERROR, "We encountered an internal error. Please try again.")
_CLOSE: Final = (b"connection", b"close")

log = get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class S3Services:
    """Parts of the server that are the same for every request."""

    sessions: Sessions
    gate: Gate
    clock: Clock
    workers: Workers
    process: str
    """A name that no other process has."""
    region: str
    held: HeldBodies = field(default_factory=HeldBodies)
    proxies: Proxies = field(default_factory=Proxies)
    domain: str | None = None
    """Hosts under it name a bucket."""


class S3App:
    """Serves the operations of the table."""

    def __init__(self, services: S3Services, *, meter: RequestMeter | None = None) -> None:
        self._services = services
        self._table = Table(OPERATIONS)
        self._meter = meter or RequestMeter(meter_names())
        self._places = {operation.name: self._meter.place(_metered(operation)) for operation in OPERATIONS}
        self._nowhere = self._meter.place(NO_OPERATION)
        self._request_ids = RequestIds(services.process)
        self._suffix = f".{services.domain}" if services.domain else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = self._services.clock.monotonic()
        request_id = self._request_ids.of({})
        place = self._nowhere
        resource = ""
        body = _Body(receive)
        hold = Hold(self._services.held)
        try:
            request = _request(scope)
            resource = request.raw_path
            bucket, key, virtual = self._target(request)
            admitted = await self._services.gate.admit(
                request, virtual_bucket=bucket if virtual else None, client=self._client(scope)
            )
            request = without_empty(request, SUB_RESOURCES)
            operation = self._operation(request, bucket, key)
            place = self._places[operation.name]
            call = Call(
                request=request,
                session=self._services.sessions.of(admitted.caller),
                admitted=admitted,
                bucket=bucket,
                key=key,
                request_id=request_id,
                region=self._services.region,
                clock=self._services.clock,
                workers=self._services.workers,
                receive=body,
                hold=hold,
            )
            reply = await (_logged(operation, call) if operation.writes else _answered(operation, call))
            reply = await begun(reply)
        except LakebedError as error:
            reply = error_reply(s3_error(error), resource=resource, request_id=request_id)
        except S3Error as error:
            reply = error_reply(error, resource=resource, request_id=request_id)
        except Exception as error:  # noqa: BLE001  the outermost loop of a request: a bug is answered and logged
            reply = _unexpected(error, resource=resource, request_id=request_id)
        finally:
            if hold.bytes:
                hold.release()
        if not body.asked_for and _waits(scope):
            reply = replace(reply, headers=(*reply.headers, _CLOSE))
        request_header = (b"x-amz-request-id", request_id.encode())
        await send_reply(reply, send, request_header, head=scope["method"] == "HEAD")
        self._meter.observe(place, reply.status, self._services.clock.monotonic() - started)

    def _operation(self, request: Request, bucket: str, key: str) -> Operation:
        try:
            return self._table.find(request, _level(bucket, key))
        except S3Error as error:
            if _is_rest(bucket, key):
                raise _wrong_endpoint(request) from error
            raise

    def _client(self, scope: Scope) -> str:
        """Return the address that a request comes from."""
        client: tuple[str, int] | None = scope.get("client")
        peer = client[0] if client else ""
        proxies = self._services.proxies
        return peer if proxies.are_none else proxies.client(peer, headers_of(scope))

    def _target(self, request: Request) -> tuple[str, str, bool]:
        """Return bucket and key, and whether the host names the bucket."""
        try:
            path = unquote(request.raw_path, errors="strict") if "%" in request.raw_path else request.raw_path
        except UnicodeDecodeError as error:
            raise S3Error(Code.INVALID_URI, "The path is not UTF-8.") from error
        if self._suffix is not None:
            host = request.headers.get("host", "").rpartition(":")
            name = host[0] if host[2].isdigit() else request.headers.get("host", "")
            if name.endswith(self._suffix):
                return name.removesuffix(self._suffix), path[1:], True
        bucket, _, key = path[1:].partition("/")
        return bucket, key, False


def _unexpected(error: Exception, *, resource: str, request_id: str) -> Reply:
    """Log a bug of ours, and return what the client is told of it: under which id to look for it."""
    log.error("request_failed", request_id=request_id, **failure_fields(error))
    return error_reply(_BUG, resource=resource, request_id=request_id)


class _Body:
    """The body of a request, and whether anyone has asked for it."""

    __slots__ = ("_receive", "asked_for")

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self.asked_for = False

    def __call__(self) -> Awaitable[Mapping[str, Any]]:
        self.asked_for = True
        return self._receive()


def meter_names() -> list[str]:
    """Return the names under which requests are counted."""
    return [NO_OPERATION, *(_metered(operation) for operation in OPERATIONS)]


def is_s3_request(headers: Mapping[bytes, bytes], query: bytes, *, domain: str | None) -> bool:
    """Return whether a request is meant for this endpoint: by an AWS signature, or by its host."""
    if domain is not None:
        host = headers.get(b"host", b"").decode("latin-1").partition(":")[0]
        if host == domain or host.endswith(f"{_DOMAIN_SEPARATOR}{domain}"):
            return True
    authorization = headers.get(b"authorization")
    if authorization is not None:
        return authorization.startswith((b"AWS4-HMAC-SHA256", b"AWS "))
    return bool(query) and (
        b"X-Amz-Signature=" in query or b"X-Amz-Algorithm=" in query or b"AWSAccessKeyId=" in query
    )


def _waits(scope: Scope) -> bool:
    """Return whether a client waits for `100 Continue`.

    One that was refused does not send its body, and what it sends next would be taken for it: such a connection ends.
    """
    return scope["method"] in _WITH_BODY and any(name == b"expect" for name, _ in scope["headers"])


def _metered(operation: Operation) -> str:
    return f"s3:{operation.name}"


def _level(bucket: str, key: str) -> Level:
    if key:
        return Level.OBJECT
    return Level.BUCKET if bucket else Level.SERVICE


def _request(scope: Scope) -> Request:
    headers: dict[str, str] = {}
    for raw_name, raw_value in scope["headers"]:
        name, value = raw_name.decode("latin-1"), raw_value.decode("latin-1")
        headers[name] = f"{headers[name]},{value}" if name in headers else value
    raw_query = scope["query_string"].decode("latin-1")
    return Request(
        method=scope["method"],
        raw_path=scope["raw_path"].decode("latin-1").partition("?")[0],
        raw_query=raw_query,
        headers=headers,
        query=_query(raw_query) if raw_query else _NO_QUERY,
    )


def _query(raw: str) -> dict[str, str]:
    """Return a query by name. The library's parser takes five times as long, for forms that S3 does not have."""
    query: dict[str, str] = {}
    for part in raw.split("&"):
        name, _, value = part.partition("=")
        if "%" in part or "+" in part:
            name, value = _plain(name), _plain(value)
        if name:
            query.setdefault(name, value)
    return query


# The same few credentials come again and again, each with four escaped slashes.
@memo
def _plain(text: str) -> str:
    return unquote_plus(text)


async def _answered(operation: Operation, call: Call) -> Reply:
    try:
        return await operation.handler(call)
    except LakebedError as error:
        raise await _explained(error, call, writes=operation.writes) from error


async def _logged(operation: Operation, call: Call) -> Reply:
    """Call a handler that changes something, and say who did what to what, and how it went."""
    fields = {
        "request_id": call.request_id,
        "user": call.session.caller.id,
        "action": _metered(operation),
        "repository": call.bucket,
        "key": call.key,
    }
    try:
        reply = await _answered(operation, call)
    except S3Error as error:
        info(__name__, "request", {**fields, "outcome": error.code.text})
        raise
    info(__name__, "request", {**fields, "outcome": reply.status})
    return reply


async def _explained(error: LakebedError, call: Call, *, writes: bool) -> S3Error:
    """Return the error with what Amazon's clients cannot know: what a ref is, and where the REST API is."""
    if _is_rest(call.bucket, call.key) and (
        error.kind in _NO_REPOSITORY
        or (error.kind is ErrorKind.OBJECT_NOT_FOUND and not await _is_repository(call))
    ):
        return _wrong_endpoint(call.request)
    if error.kind is ErrorKind.PERMISSION_DENIED:
        return S3Error(Code.ACCESS_DENIED, "Access Denied: the policies of this user do not allow it.")
    if error.kind in (ErrorKind.REPO_NOT_FOUND, ErrorKind.INVALID_REPO_NAME):
        return S3Error(Code.NO_SUCH_BUCKET, f"{error}: a bucket is a repository", BucketName=call.bucket)
    if writes and error.kind in _NO_BRANCH and await _is_ref(call.session, call.bucket, call.ref):
        return S3Error(
            Code.READ_ONLY_REF, f"{call.ref!r} is a tag or a commit, which never change: write to a branch."
        )
    if error.kind is ErrorKind.PROTECTED_BRANCH:
        return S3Error(
            Code.PROTECTED_BRANCH, f"branch {call.ref!r} is protected: write to another branch and merge it"
        )
    if error.kind is ErrorKind.BRANCH_NOT_FOUND:
        return S3Error(
            Code.NO_SUCH_BRANCH, f"{error}: create it, or write to <branch>/<path> of another", Key=call.key
        )
    translated = s3_error(error)
    if translated.code in (Code.NO_SUCH_KEY, Code.NO_SUCH_BRANCH):
        translated.details["Key"] = call.key
    return translated


def _is_rest(bucket: str, key: str) -> bool:
    """Return whether a request names what would be the address of the REST API."""
    return bucket == "api" and (key == "v1" or key.startswith("v1/"))


def _wrong_endpoint(request: Request) -> S3Error:
    host = request.headers.get("host", "")
    return S3Error(
        Code.WRONG_ENDPOINT,
        f"This is the address of the REST API, which takes Basic or Bearer credentials and no AWS signatures. "
        f"The S3 endpoint is {host} without /api/v1: set the endpoint of your S3 tool to that.",
        Endpoint=host,
    )


async def _is_repository(call: Call) -> bool:
    try:
        await call.session.repositories.get(call.bucket)
    except LakebedError:
        return False
    return True


async def _is_ref(session: Session, repository: str, ref: str) -> bool:
    try:
        await session.commits.get(repository, ref)
    except LakebedError:
        return False
    return True
