"""A real Chromium, as Debian packages it, and another site for it to visit.

`apt-get install -y chromium` installs it, and `.ci/run` does so where it may. Without one these tests are skipped, and say so.

Playwright drives it. Its calls are plain ones, but it runs an event loop in the thread of the test, so each module gets a
browser of its own, which has ended when tests with loops of their own come.
"""

import shutil
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

REBOUND = "rebound.example"
"""A name of another site that leads to this machine."""
_ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    f"--host-resolver-rules=MAP {REBOUND} 127.0.0.1, EXCLUDE localhost",
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A Chromium with an empty profile."""
    executable = shutil.which("chromium")
    if executable is None:
        pytest.skip("there is no Chromium here: apt-get install -y chromium")
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=executable, args=list(_ARGUMENTS))
        yield launched
        launched.close()


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    """A person's browser, without cookies."""
    opened = browser.new_context()
    opened.set_default_timeout(60_000)
    yield opened
    opened.close()


@pytest.fixture
def page(context: BrowserContext) -> Page:
    """An empty tab."""
    return context.new_page()


@dataclass
class OtherSite:
    """Another site: it shows pages that a test gives it, and remembers who visited."""

    port: int
    pages: dict[str, str] = field(default_factory=dict)
    visits: list[str] = field(default_factory=list)

    @property
    def other_port(self) -> str:
        """Its address by the name that the server has: another origin of the same site."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def other_host(self) -> str:
        """Its address by another name: another site."""
        return f"http://localhost:{self.port}"


@pytest.fixture(scope="module")
def other_site() -> Iterator[OtherSite]:
    """A site that is up to no good."""
    site: OtherSite

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            site.visits.append(self.path)
            body = site.pages.get(self.path, "").encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_POST(self) -> None:
            self.do_GET()

        def log_message(self, *_args: Any) -> None:
            pass

    served = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    site = OtherSite(served.server_port)
    thread = threading.Thread(target=served.serve_forever)
    thread.start()
    yield site
    served.shutdown()
    thread.join()
    served.server_close()
