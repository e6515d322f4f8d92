"""The REST API as one ASGI application.

For each request: find the operation, decode and check its parameters (before anyone
asks who is calling, as clients expect), recognise the caller, read and decode the body,
call the handler, send the reply. Whatever goes wrong on the way becomes an error body
in one place.

Nothing of a body is read before the caller is recognised. Where anyone may call, a body
is a few KiB. What all requests of a worker hold of their bodies is bounded (`HeldBodies`).
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from lakebed.api.call import Call, ClientGoneError
from lakebed.api.cookies import login_cookie
from lakebed.api.errors import ErrorBody, error_reply, unexpected_reply
from lakebed.api.malformed import bad_body, bad_content_type, missing_body, not_json
from lakebed.api.operation import Access, Body, Operation
from lakebed.api.phrases import Asked
from lakebed.api.query import Parameters
from lakebed.api.reply import json_reply
from lakebed.api.router import Router
from lakebed.api.services import Services
from lakebed.auth.caller import Caller, unauthenticated
from lakebed.auth.decisions import Permissions
from lakebed.errors import ErrorKind, InvalidInputError, LakebedError, cut
from lakebed.http.held import HeldBodies, Hold
from lakebed.http.pages import require_own_page
from lakebed.http.reply import Receive, Reply, Scope, Send, begun, headers_of, send_reply
from lakebed.limits import (
    ANONYMOUS_BODY_BYTES_MAX,
    JSON_BODY_BYTES_MAX,
    JSON_VALUE_BYTES,
    SMALL_BODY_BYTES_MAX,
)
from lakebed.telemetry.log import info
from lakebed.telemetry.request_ids import RequestIds
from lakebed.telemetry.requests import RequestMeter

ROOT: Final = "/api/v1"
NO_OPERATION: Final = "none"
"""What requests that lead nowhere are counted as."""
_ROOT_BYTES: Final = len(ROOT)

_READS: Final = frozenset({"GET", "HEAD"})
_CLIENT_GONE: Final = 499
_JSON: Final = b"application/json"
_NO_BODY: Final = Hold(HeldBodies(0))
_NOBODY: Final = Caller(id="", permissions=Permissions([], user=""))


class RestApp:
    """Serves the operations of a table."""

    def __init__(
        self, operations: Iterable[Operation], services: Services, *, meter: RequestMeter | None = None
    ) -> None:
        rows = list(operations)
        self._services = services
        self._is_direct = services.front.proxies.are_none
        self._router = Router(rows)
        self._request_ids = RequestIds(services.ids.token())
        self._meter = meter or RequestMeter(meter_names(rows))
        self._nowhere = self._meter.place(NO_OPERATION)
        self._decoders = {
            operation.id: _Decoder(operation, self._meter.place(operation.id)) for operation in rows
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = self._services.clock.monotonic()
        headers = headers_of(scope)
        request_id = self._request_ids.of(headers)
        place = self._nowhere
        try:
            match = self._router.find(scope["method"], scope["raw_path"].partition(b"?")[0][_ROOT_BYTES:])
            if match is None:
                reply = json_reply(404, ErrorBody("invalid API endpoint"))
            else:
                decoder = self._decoders[match.operation.id]
                place = decoder.place
                reply = await self._reply(
                    decoder, match.params, scope, headers, receive=receive, request_id=request_id
                )
        except LakebedError as error:
            reply = error_reply(error)
        except ClientGoneError:
            # Whoever only broke off the body, and still listens, is told; nobody else notices.
            reply = json_reply(_CLIENT_GONE, ErrorBody("the request ended before its body did"))
        except Exception as error:  # noqa: BLE001  the outermost loop of a request: a bug is answered and logged
            reply = unexpected_reply(error, request_id=request_id)
        request_header = (b"x-request-id", request_id.encode())
        await send_reply(reply, send, request_header, head=scope["method"] == "HEAD")
        self._meter.observe(place, reply.status, self._services.clock.monotonic() - started)

    async def _reply(
        self,
        decoder: "_Decoder",
        params: Mapping[str, str],
        scope: Scope,
        headers: dict[bytes, bytes],
        *,
        receive: Receive,
        request_id: str,
    ) -> Reply:
        operation = decoder.operation
        client: tuple[str, int] | None = scope.get("client")
        peer = client[0] if client else ""
        query = typed = body = None
        hold = _NO_BODY
        try:
            if decoder.query:
                query = decoder.query.from_query(scope["query_string"])
            if decoder.headers:
                typed = decoder.headers.from_headers(headers)
            caller = await self._caller(operation, headers, peer)
            if decoder.has_body:
                hold = Hold(self._services.held)
                if decoder.takes_json:
                    body = await decoder.body(receive, headers, hold)
            call = Call(
                session=self._services.sessions.of(caller),
                services=self._services,
                path=params,
                raw_headers=headers,
                request_id=request_id,
                peer=peer,
                hold=hold,
                _query=query,
                _headers=typed,
                _body=body,
                _receive=receive,
            )
            if operation.method in _READS:
                reply = await operation.handler(call)
            else:
                reply = await self._logged(operation, call, caller)
            return reply if isinstance(reply.body, bytes) else await begun(reply)
        except LakebedError as error:
            return error_reply(error, Asked(operation.id, _Given(params, query, typed, body)))
        finally:
            if hold.bytes:
                hold.release()

    async def _logged(self, operation: Operation, call: Call, caller: Caller) -> Reply:
        """Call a handler that changes something, and say who did what to what, and how it went."""
        fields = {"request_id": call.request_id, "user": caller.id, "action": operation.id, **call.path}
        try:
            reply = await operation.handler(call)
        except LakebedError as error:
            named = {name: cut(value) for name, value in fields.items()}
            info(__name__, "request", {**named, "outcome": error.kind.value})
            raise
        info(__name__, "request", {**fields, "outcome": reply.status})
        return reply

    async def _caller(self, operation: Operation, headers: Mapping[bytes, bytes], peer: str) -> Caller:
        authorization = headers.get(b"authorization")
        cookie = login_cookie(headers.get(b"cookie")) if not authorization else None
        if operation.method not in _READS:
            by_cookie = cookie is not None and operation.access is not Access.ANYONE
            require_own_page(headers, self._services.front.hosts, by_cookie=by_cookie)
        if operation.access is Access.ANYONE:
            return _NOBODY
        caller = await self._services.auth.authenticator.caller_for(
            authorization=authorization.decode("latin-1") if authorization is not None else None,
            cookie=cookie,
            client=peer if self._is_direct else self._services.front.proxies.client(peer, headers),
        )
        if caller is None:
            raise unauthenticated()
        return caller


def meter_names(operations: Iterable[Operation]) -> list[str]:
    """Return the names under which requests to these operations are counted."""
    return [*(operation.id for operation in operations), NO_OPERATION]


class _Decoder:
    """Decodes what one operation takes; `place` is where it is counted."""

    def __init__(self, operation: Operation, place: int) -> None:
        self.operation = operation
        self.place = place
        self.query = Parameters(operation.query, where="query") if operation.query else None
        self.headers = Parameters(operation.headers, where="header") if operation.headers else None
        self.has_body = operation.body is not Body.NONE
        self.takes_json = not isinstance(operation.body, Body)
        self._json = None if isinstance(operation.body, Body) else msgspec.json.Decoder(operation.body)
        self._empty = None if isinstance(operation.body, Body) or operation.body_required else operation.body
        is_open = operation.access is Access.ANYONE
        self._bytes_max = ANONYMOUS_BODY_BYTES_MAX if is_open else JSON_BODY_BYTES_MAX

    async def body(self, receive: Receive, headers: Mapping[bytes, bytes], hold: Hold) -> Any:
        """Return the JSON body, decoded; its bytes are held until the request is answered."""
        assert self._json is not None
        length = headers.get(b"content-length", b"")
        if length.isdigit() and int(length) > self._bytes_max:
            raise _too_large(self._bytes_max)
        data = await _whole_body(receive, hold, bytes_max=self._bytes_max)
        if not data and self._empty is not None:
            return self._empty()
        kind = headers.get(b"content-type", b"")
        if data and kind != _JSON and kind.partition(b";")[0].strip().lower() != _JSON:
            raise bad_content_type(kind.decode("latin-1"))
        if not data:
            raise missing_body()
        try:
            return self._json.decode(data)
        except msgspec.ValidationError as error:
            raise bad_body(error, self.operation.body) from error
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise not_json(error) from error
        except RecursionError as error:
            raise InvalidInputError(ErrorKind.INVALID_ARGUMENT, "body is nested too deep") from error


async def _whole_body(receive: Receive, hold: Hold, *, bytes_max: int) -> bytes:
    parts: list[bytes] = []
    counted = values_bytes = 0
    more = True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGoneError
        parts.append(message.get("body", b""))
        hold.take(len(parts[-1]))
        # A body has no more values than bytes, so those of small ones need not be counted.
        if hold.bytes > SMALL_BODY_BYTES_MAX:
            values_bytes += sum(_values(part) for part in parts[counted:]) * JSON_VALUE_BYTES
            counted = len(parts)
        if hold.bytes + values_bytes > bytes_max:
            raise _too_large(bytes_max)
        more = message.get("more_body", False)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _values(data: bytes) -> int:
    """Return how many values a piece of JSON can have at most."""
    return data.count(b",") + data.count(b"[") + data.count(b"{")


class _Given(Mapping[str, str]):
    """What a request gave in its path, query, headers and JSON body; put together for the few phrases that ask for it."""

    def __init__(self, params: Mapping[str, str], *structs: Any) -> None:
        self._params = params
        self._structs = structs

    def __getitem__(self, name: str) -> str:
        return self._together()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._together())

    def __len__(self) -> int:
        return len(self._together())

    def _together(self) -> dict[str, str]:
        given = dict(self._params)
        for struct in self._structs:
            if isinstance(struct, msgspec.Struct):
                for name, encoded in zip(
                    struct.__struct_fields__, struct.__struct_encode_fields__, strict=True
                ):
                    value = getattr(struct, name)
                    if isinstance(value, str | int):
                        given.setdefault(encoded, str(value))
        return given


def _too_large(bytes_max: int) -> InvalidInputError:
    return InvalidInputError(
        ErrorKind.TOO_LARGE,
        f"a JSON body has at most {bytes_max} bytes here, and each comma and opening bracket of a large one counts for "
        f"{JSON_VALUE_BYTES}: send less at a time",
    )
