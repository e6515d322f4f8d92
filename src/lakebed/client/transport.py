"""Requests to the server: authentication, time-outs, retries, and replies as values.

What is repeated, and when:

    never reached the server    any request
    429                         any request: the server says that it did nothing
    503, connection lost        only a request that may be repeated without harm

The last row is the delicate one, because the request may have been carried out. A
request is repeatable if carrying it out twice leaves what once leaves: reads, PUT,
DELETE, and those POSTs whose caller says so. Any other raises `OUTCOME_UNKNOWN`.
"""

import base64
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from importlib.metadata import version
from typing import Any, Final, Self, TypeVar
from urllib.parse import quote

import httpx
import msgspec

from lakebed.client.config import ClientConfig
from lakebed.client.errors import KIND_HEADER, error_of
from lakebed.client.replies import Page
from lakebed.env.ids import IdSource, SystemIds
from lakebed.errors import CorruptError, ErrorKind, InvalidInputError, UnavailableError
from lakebed.limits import (
    CLIENT_ATTEMPTS_MAX,
    CLIENT_BACKOFF_SECONDS,
    CLIENT_CONNECT_SECONDS,
    CLIENT_RETRY_AFTER_SECONDS_MAX,
    CLIENT_TIMEOUT_SECONDS,
    LIST_PAGE_MAX,
    TRANSFERS_AT_ONCE,
)

T = TypeVar("T")

Query = Mapping[str, str | int | bool | list[str] | None]
Content = bytes | Callable[[], Iterable[bytes]]
"""A request's body: bytes, or what makes its chunks anew for each try."""

_API_ROOT: Final = "/api/v1"
_TIMEOUT: Final = httpx.Timeout(CLIENT_TIMEOUT_SECONDS, connect=CLIENT_CONNECT_SECONDS, pool=None)
_LIMITS: Final = httpx.Limits(max_connections=None, max_keepalive_connections=2 * TRANSFERS_AT_ONCE)
_REPEATABLE: Final = frozenset({"GET", "HEAD", "PUT", "DELETE"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request, as often as it has to be sent."""

    method: str
    path: tuple[str, ...] = ()
    """Segments below the API's root, not yet percent-encoded."""
    signed_url: str = ""
    """A URL of the storage instead: it is asked without our access key, which is none of its business."""
    query: Query = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    content: Content = b""
    repeatable: bool | None = None
    """None: as the method says."""
    timeout_seconds: float | None = None

    @property
    def may_repeat(self) -> bool:
        return self.method in _REPEATABLE if self.repeatable is None else self.repeatable

    @property
    def url(self) -> str:
        """Where it goes.

        Raises:
            InvalidInputError: a name that a URL cannot hold as a segment. `..` would climb: to delete
                the branch `..` of a repository is to delete the repository.
        """
        if self.signed_url:
            return self.signed_url
        for segment in self.path:
            if segment in ("", ".", ".."):
                raise InvalidInputError(ErrorKind.INVALID_ARGUMENT, f"{segment!r} is no name")
        return "/".join((_API_ROOT, *(quote(segment, safe="") for segment in self.path)))

    @property
    def name(self) -> str:
        """What it is called in messages: of a signed URL all but the signature."""
        return f"{self.method} {self.url.partition('?')[0]}"


@dataclass(frozen=True, slots=True)
class Answer:
    """A reply, read to its end.

    Not httpx's own: that one refers to itself, so its body would wait for the cycle
    collector, and a large download would hold hundreds of megabytes of the past.
    """

    status: int
    headers: httpx.Headers
    content: bytes
    url: str

    @property
    def text(self) -> str:
        return self.content.decode()

    @property
    def is_success(self) -> bool:
        return 200 <= self.status < 300


class Transport:
    """Sends requests. Safe to share between threads."""

    def __init__(
        self,
        config: ClientConfig,
        *,
        http: httpx.BaseTransport | None = None,
        ids: IdSource | None = None,
        sleep: Callable[[float], None] = time.sleep,
        attempts_max: int = CLIENT_ATTEMPTS_MAX,
    ) -> None:
        self.config = config
        self.ids = ids or SystemIds()
        self.sleep = sleep
        self._attempts_max = attempts_max
        pair = f"{config.access_key_id}:{config.secret_access_key}".encode()
        self._http = httpx.Client(
            base_url=config.endpoint,
            headers={
                "Authorization": f"Basic {base64.b64encode(pair).decode()}",
                "User-Agent": f"lakebed/{version('lakebed')}",
            },
            timeout=_TIMEOUT,
            limits=_LIMITS,
            transport=http,
        )
        self._transport = http
        # Made when it is needed: reading the certificates that it trusts takes longer than most commands.
        self._storage: httpx.Client | None = None
        self._storage_made = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()
        if self._storage is not None:
            self._storage.close()

    def get(self, kind: type[T], *path: str, query: Query | None = None) -> T:
        """Return what a GET answers, as a `kind`."""
        return self.ask(kind, Request(method="GET", path=path, query=query or {}))

    def ask(self, kind: type[T], request: Request) -> T:
        """Return what a request answers, as a `kind`."""
        return decode(self.send(request), kind)

    def post(
        self,
        *path: str,
        body: Any = None,
        query: Query | None = None,
        repeatable: bool = False,
        timeout_seconds: float | None = None,
    ) -> Answer:
        """Send JSON by POST."""
        return self._send_json(
            "POST",
            path,
            body,
            query=query,
            repeatable=repeatable,
            timeout_seconds=timeout_seconds,
        )

    def put(self, *path: str, body: Any = None, query: Query | None = None) -> Answer:
        """Send JSON by PUT."""
        return self._send_json("PUT", path, body, query=query)

    def delete(self, *path: str, query: Query | None = None) -> None:
        """Delete what a path names."""
        self.send(Request(method="DELETE", path=path, query=query or {}))

    def pages(
        self, kind: type[T], *path: str, query: Query | None = None, limit: int | None = None
    ) -> Iterator[T]:
        """Yield the results of a listing, fetching each page when the one before is used up."""
        page_of: Any = Page
        after, left = (query or {}).get("after") or "", limit
        while left is None or left > 0:
            amount = LIST_PAGE_MAX if left is None else min(left, LIST_PAGE_MAX)
            asked = {**(query or {}), "after": after or None, "amount": amount}
            page: Page[T] = self.get(page_of[kind], *path, query=asked)
            yield from page.results
            if not page.pagination.has_more:
                return
            after = page.pagination.next_offset
            left = None if left is None else left - len(page.results)

    def send(self, request: Request) -> Answer:
        """Send a request until it is answered for good, and return a successful reply.

        Raises:
            LakebedError: the server refused; the class is that of the status.
            UnavailableError: it could not be reached, or with `OUTCOME_UNKNOWN`, may have done what was asked.
        """
        uncertain = False
        for attempt in range(self._attempts_max):
            last = attempt + 1 == self._attempts_max
            wait = CLIENT_BACKOFF_SECONDS * 2**attempt
            try:
                answer = self._once(request)
            except (httpx.ConnectError, httpx.ConnectTimeout) as error:
                if last:
                    raise self._unreachable(error) from error
            except httpx.TransportError as error:
                uncertain = True
                if last or not request.may_repeat:
                    raise _lost(request, error) from error
            else:
                if answer.is_success:
                    return answer
                if request.method == "DELETE" and answer.status == HTTPStatus.NOT_FOUND and uncertain:
                    return answer  # An earlier try deleted it, and its reply was lost.
                if last or not _worth_repeating(request, answer):
                    raise _refused(request, answer)
                uncertain = uncertain or answer.status == HTTPStatus.SERVICE_UNAVAILABLE
                wait = max(wait, _retry_after(answer))
            self.sleep(wait * self.ids.jitter())
        raise AssertionError("the last attempt returns or raises")

    def is_alive(self) -> bool:
        """Return whether something answers `/_health`; asks once."""
        try:
            return self._http.get("/_health").is_success
        except httpx.TransportError:
            return False

    def _send_json(
        self,
        method: str,
        path: tuple[str, ...],
        body: Any,
        *,
        query: Query | None = None,
        repeatable: bool | None = None,
        timeout_seconds: float | None = None,
    ) -> Answer:
        return self.send(
            Request(
                method=method,
                path=path,
                query=query or {},
                headers={} if body is None else {"Content-Type": "application/json"},
                content=b"" if body is None else msgspec.json.encode(body),
                repeatable=repeatable,
                timeout_seconds=timeout_seconds,
            )
        )

    def _once(self, request: Request) -> Answer:
        timeout: Any = httpx.USE_CLIENT_DEFAULT
        if request.timeout_seconds is not None:
            timeout = httpx.Timeout(request.timeout_seconds, connect=CLIENT_CONNECT_SECONDS, pool=None)
        client = self._storage_client() if request.signed_url else self._http
        params = {name: value for name, value in request.query.items() if value is not None}
        with client.stream(
            request.method,
            request.url,
            # None at all for a signed URL: httpx would write its query anew, and another spelling is another signature.
            params=params or None,
            headers=httpx.Headers(dict(request.headers), encoding="utf-8"),
            content=request.content if isinstance(request.content, bytes) else request.content(),
            timeout=timeout,
        ) as response:
            content = b"".join(response.iter_bytes())
        return Answer(response.status_code, response.headers, content, str(response.request.url))

    def _storage_client(self) -> httpx.Client:
        with self._storage_made:
            if self._storage is None:
                self._storage = httpx.Client(timeout=_TIMEOUT, limits=_LIMITS, transport=self._transport)
            return self._storage

    def _unreachable(self, error: Exception) -> UnavailableError:
        return UnavailableError(
            ErrorKind.STORE_UNAVAILABLE,
            f"no server answers at {self.config.endpoint} ({error}): is it running, "
            f"and is the endpoint from {self.config.endpoint_source} right?",
        )


def decode(answer: Answer, kind: type[T]) -> T:
    """Return a reply's JSON as a `kind`.

    Raises:
        CorruptError: it is something else; most likely another kind of server answered.
    """
    try:
        return msgspec.json.decode(answer.content, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise CorruptError(
            ErrorKind.UNREADABLE,
            f"{answer.url} answered what no Lakebed server answers: is the endpoint right? ({error})",
        ) from error


def _worth_repeating(request: Request, answer: Answer) -> bool:
    if answer.status == HTTPStatus.TOO_MANY_REQUESTS:
        return True
    return answer.status == HTTPStatus.SERVICE_UNAVAILABLE and request.may_repeat


def _retry_after(answer: Answer) -> float:
    told = answer.headers.get("retry-after", "")
    return min(float(told), CLIENT_RETRY_AFTER_SECONDS_MAX) if told.isdecimal() else 0.0


def _refused(request: Request, answer: Answer) -> Exception:
    return error_of(
        answer.status,
        answer.content,
        kind=answer.headers.get(KIND_HEADER),
        asked=request.name,
    )


def _lost(request: Request, error: Exception) -> UnavailableError:
    kind = ErrorKind.STORE_UNAVAILABLE if request.method in ("GET", "HEAD") else ErrorKind.OUTCOME_UNKNOWN
    hint = (
        ""
        if request.method in ("GET", "HEAD")
        else "; it may have been carried out: look before you repeat it"
    )
    return UnavailableError(kind, f"{request.name} got no reply ({error!r}){hint}")
