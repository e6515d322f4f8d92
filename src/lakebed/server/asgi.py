"""The application of one worker process, as the HTTP server calls it.

It opens the engine when the server starts it and closes it when the server stops, so
that everything acknowledged is on disk and nothing in flight is lost.
"""

import gc
from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import cache
from importlib.metadata import version
from typing import Final

import msgspec

from lakebed.api.app import ROOT, RestApp
from lakebed.api.app import meter_names as rest_names
from lakebed.api.openapi import document
from lakebed.api.services import Services, StorageInfo
from lakebed.api.table import OPERATIONS
from lakebed.auth.auth import build_auth
from lakebed.env.clock import SystemClock
from lakebed.env.ids import SystemIds
from lakebed.http.front import Front
from lakebed.http.hosts import Hosts
from lakebed.http.proxies import Proxies
from lakebed.http.reply import Receive, Scope, Send, headers_of
from lakebed.http.sandbox import NO_SNIFF
from lakebed.s3.app import S3App, S3Services, is_s3_request
from lakebed.s3.app import meter_names as s3_names
from lakebed.s3.signatures.gate import Gate
from lakebed.server.background import Background
from lakebed.server.config import Config
from lakebed.server.data_folder import Layout
from lakebed.server.gc_metrics import GcMetrics
from lakebed.server.installation import open_engine
from lakebed.server.installation_key import installation_key
from lakebed.server.maintenance import Maintenance
from lakebed.server.metrics import CONTENT_TYPE, Metrics
from lakebed.server.plain_routes import PLAIN_ROUTES, PlainRequest

_REST: Final = f"{ROOT}/".encode()
_HEALTH: Final = b"/_health"
_ASKED_FIRST: Final = frozenset({b"config", b"repositories"})
"""What clients ask of the API first. `lakectl doctor` knows a wrong endpoint URL by a page of HTML, with status 200."""
_ELSEWHERE: Final = (
    f"<!doctype html><title>Lakebed</title><p>The API is at <code>{ROOT}</code>.</p>\n".encode()
)
_MISDIRECTED: Final = (
    "the server does not answer to this Host: use one of `http.hosts`, or localhost with --quickstart"
)
_ONLY_S3: Final = (
    "this address serves S3 and not the REST API: point the client at the address that `listen` names,"
)
# A request of HTTP 1.0 that names no host: no page of another site can have sent it.
_NO_HOST: Final = b"localhost"
# A request makes hundreds of objects and no cycles: looking for some every 700 of them took a tenth of its time.
_GARBAGE_THRESHOLD: Final = 20_000


class WorkerApp:
    """Dispatches requests to the edges."""

    def __init__(self, config: Config, *, shared_metrics: bool = False) -> None:
        self._config = config
        self._shared_metrics = shared_metrics
        self._process = SystemIds().token()
        """Names the worker's files: one of each, however often it tries to start."""
        self._metrics: Metrics | None = None
        self._gc_metrics: GcMetrics | None = None
        self._stack = AsyncExitStack()
        self._rest: RestApp | None = None
        self._s3: S3App | None = None
        self._services: Services | None = None
        self._accepts: Callable[[bytes], bool] | None = None
        """Whether the server answers to a `Host`; None if it does to any."""
        self.background: Background | None = None
        """What runs beside the requests, once the worker has started."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer what comes in by the address for everything."""
        path: bytes = scope["raw_path"]
        headers = headers_of(scope)
        if self._s3 is None or self._rest is None:
            await _answer_early(path, send)
        elif self._accepts is not None and not self._accepts(headers.get(b"host", _NO_HOST)):
            await _answer_json(send, 421, _MISDIRECTED)
        elif is_s3_request(headers, scope["query_string"], domain=self._config.s3_domain):
            await self._s3(scope, receive, send)
        elif path.startswith(_REST):
            await self._rest(scope, receive, send)
        else:
            await self._answer_plainly(path, scope, send)

    async def s3(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer what comes in by the address for nothing but S3."""
        path: bytes = scope["raw_path"]
        if self._s3 is None or path == _HEALTH:
            await _answer_early(path, send)
        elif self._accepts is not None and not self._accepts(headers_of(scope).get(b"host", _NO_HOST)):
            await _answer_json(send, 421, _MISDIRECTED)
        elif path.startswith(_REST) and not is_s3_request(
            headers_of(scope), scope["query_string"], domain=self._config.s3_domain
        ):
            await _answer_json(send, 400, f"{_ONLY_S3} port {self._config.port}")
        else:
            await self._s3(scope, receive, send)

    async def start(self) -> None:
        """Open the engine."""
        config, clock, ids = self._config, SystemClock(), SystemIds()
        layout = Layout(config.data.absolute())
        metrics = self._metrics = Metrics(
            layout.metrics,
            self._process,
            [*rest_names(OPERATIONS), *s3_names()],
            shared=self._shared_metrics,
            clock=clock,
        )
        wired = await self._stack.enter_async_context(open_engine(config, layout, registry=metrics.registry))
        self._gc_metrics = GcMetrics(
            wired.engine.parts.kv,
            wired.engine.repositories,
            clock=clock,
            by_repository=config.metrics_repositories,
        )
        auth = build_auth(
            wired.engine.parts.kv,
            key=installation_key(config.installation_key, layout.key, ids),
            clock=clock,
            ids=ids,
        )
        front = _front(config)
        self._accepts = None if front.hosts.is_open else front.hosts.accepts
        services = self._services = Services(
            sessions=wired.sessions.with_auth(auth),
            auth=auth,
            storage=_storage_info(config),
            clock=clock,
            ids=ids,
            version=version("lakebed"),
            lifetimes=config.lifetimes,
            front=front,
        )
        maintenance = Maintenance(wired, clock=clock, ids=ids, seconds=config.maintenance_seconds)
        background = self.background = Background(clock)
        self._stack.push_async_callback(background.stop)
        background.start("maintenance", maintenance.run)
        background.start("read_ahead", wired.read_ahead.run)
        self._s3 = S3App(
            S3Services(
                sessions=services.sessions,
                gate=Gate(auth.authenticator, clock, region=config.s3_region),
                clock=clock,
                workers=wired.engine.transfers,
                process=self._process,
                held=services.held,
                proxies=services.front.proxies,
                region=config.s3_region or "us-east-1",
                domain=config.s3_domain,
            ),
            meter=metrics.requests,
        )
        self._rest = RestApp(OPERATIONS, services, meter=metrics.requests)
        # What is there now stays: the collector of cycles need not look at it again and again.
        gc.collect()
        gc.freeze()
        gc.set_threshold(_GARBAGE_THRESHOLD)

    async def stop(self) -> None:
        """Close the engine: what was acknowledged is on disk."""
        await self._stack.aclose()

    async def _answer_plainly(self, path: bytes, scope: Scope, send: Send) -> None:
        assert self._services is not None, "started"
        assert self._metrics is not None, "started"
        if path == _HEALTH:
            await _answer_early(path, send)
        elif path in PLAIN_ROUTES:
            client: tuple[str, int] | None = scope.get("client")
            request = PlainRequest(headers_of(scope), client[0] if client else "")
            reply = await PLAIN_ROUTES[path](self._services, request)
            await send({"type": "http.response.start", "status": reply.status, "headers": reply.headers})
            await send({"type": "http.response.body", "body": reply.body})
        elif path == b"/openapi.json":
            await _answer(send, 200, b"application/json", _openapi())
        elif path == b"/metrics":
            assert self._gc_metrics is not None, "started"
            text = self._metrics.text() + await self._gc_metrics.text()
            await _answer(send, 200, CONTENT_TYPE, text)
        elif path == ROOT.encode():
            await _answer_json(send, 404, "invalid API endpoint")
        elif scope["method"] == "GET" and path.rpartition(b"/")[2] in _ASKED_FIRST:
            await _answer(send, 200, b"text/html; charset=utf-8", _ELSEWHERE)
        else:
            await _answer_json(send, 404, "not found")


@cache
def _openapi() -> bytes:
    return document(OPERATIONS, version=version("lakebed"), root=ROOT)


async def _answer_early(path: bytes, send: Send) -> None:
    """Answer without the engine: the worker lives, and has not reached its database yet."""
    if path == _HEALTH:
        await _answer(send, 200, b"text/plain; charset=utf-8", b"alive!")
    else:
        await _answer_json(send, 503, "not ready: the database does not answer yet")


async def _answer_json(send: Send, status: int, message: str) -> None:
    await _answer(send, status, b"application/json", msgspec.json.encode({"message": message}))


async def _answer(send: Send, status: int, content_type: bytes, body: bytes) -> None:
    headers = [(b"content-type", content_type), NO_SNIFF, (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _front(config: Config) -> Front:
    return Front(
        hosts=Hosts(config.hosts, domain=config.s3_domain, loopback_only=config.loopback_hosts_only),
        proxies=Proxies(config.trusted_proxies),
        secure_cookies=config.secure_cookies,
        tls=config.tls is not None,
    )


def _storage_info(config: Config) -> StorageInfo:
    scheme = config.default_storage
    return StorageInfo(
        blockstore_type=scheme,
        namespace_example=f"{scheme}://example-bucket/",
        namespace_prefix="" if scheme == "s3" else "local://",
        namespace_regex=f"^{scheme}://",
        pre_sign_support=scheme == "s3",
        pre_sign_multipart=scheme == "s3",
        import_support=bool(config.import_prefixes),
        import_regex=f"^{scheme}://",
        s3_endpoint=config.storage.s3_endpoint or "",
        s3_region=config.storage.s3_region,
        s3_path_style=config.storage.s3_path_style,
        data_dir=config.storage.data_dir or Layout(config.data.absolute()).objects,
    )
