"""Pages of other sites and objects with scripts in them, in a real browser: none of them can use the server.

Each attack is made with a form or a script as another site would make it; what it would have changed is looked at from
outside afterwards.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import boto3
import httpx
import pytest
from botocore.config import Config
from playwright.sync_api import Browser, BrowserContext, Error, Page, Response

from lakebed.api.cookies import LOGIN_COOKIE
from lakebed.testing.server_process import ServerProcess, running_server
from tests.browser.conftest import REBOUND, OtherSite

pytestmark = [pytest.mark.server, pytest.mark.xdist_group("browser")]

SETUP = "/api/v1/setup_lakefs"
FETCH = """async ([url, method, type, body]) => {
    const options = {method, body, credentials: "include", mode: new URL(url, location).origin === origin ? "cors" : "no-cors"};
    if (type) options.headers = {"Content-Type": type};
    try { return (await fetch(url, options)).status } catch (error) { return String(error) }
}"""
SCRIPT = """
document.title = "it ran";
fetch("%(api)s/auth/users/admin/credentials", {method: "POST", credentials: "include"});
new Image().src = "%(other)s/it-ran";
"""


@pytest.fixture(scope="module")
def server(
    browser: Browser,  # first, because without one nothing needs a server
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[ServerProcess]:
    """A server with the quickstart's key and an empty repository."""
    with running_server(tmp_path_factory.mktemp("server")) as running:
        assert rest(running, "POST", "/repositories", json=REPOSITORY).status_code == 201
        yield running


DOWNLOADED = "downloaded"
REPOSITORY = {"name": "lake", "storage_namespace": "local://lake"}


def rest(server: ServerProcess, method: str, path: str, **options: Any) -> httpx.Response:
    """Ask as the administrator, and not as a browser."""
    key = (server.access_key, server.secret_key)
    return httpx.request(method, f"{server.endpoint}/api/v1{path}", auth=key, **options)


def branches(server: ServerProcess) -> set[str]:
    return {each["id"] for each in rest(server, "GET", "/repositories/lake/branches").json()["results"]}


def keys(server: ServerProcess) -> int:
    return len(rest(server, "GET", "/auth/users/admin/credentials").json()["results"])


@pytest.fixture
def logged_in(context: BrowserContext, server: ServerProcess) -> BrowserContext:
    """A browser whose person has logged in on a page of the server."""
    page = context.new_page()
    page.goto(f"{server.endpoint}/_health")
    body = f'{{"access_key_id": "{server.access_key}", "secret_access_key": "{server.secret_key}"}}'
    assert page.evaluate(FETCH, ["/api/v1/auth/login", "POST", "application/json", body]) == 200
    assert page.evaluate("document.cookie") == "", "scripts do not see the cookie"
    assert [each["name"] for each in context.cookies()] == [LOGIN_COOKIE]
    return context


def form(url: str, kind: str, body: str) -> str:
    """A page with a form that sends itself. With `text/plain`, name and value together are the body."""
    name, _, value = body.partition("=")
    return (
        f'<form method="post" action="{url}" enctype="{kind}">'
        f"<input name='{name}' value='{value}'></form><script>document.forms[0].submit()</script>"
    )


def sends(page: Page, other_site: OtherSite, origin: str, url: str, body: str) -> list[Response]:
    """Let a page of `origin` send a body there in every way that a browser allows without asking the server first."""
    answers: list[Response] = []
    page.on("response", lambda answer: answers.append(answer) if answer.url == url else None)
    for kind in ("text/plain", "multipart/form-data", "application/x-www-form-urlencoded"):
        other_site.pages["/form"] = form(url, kind, body)
        with page.expect_response(lambda answer: answer.url == url):
            page.goto(f"{origin}/form")
        page.wait_for_load_state()
    page.goto(f"{origin}/empty")
    for kind in ("text/plain", ""):
        page.evaluate(FETCH, [url, "POST", kind, body])
    # For JSON a browser asks first, and gets no permission.
    assert "TypeError" in page.evaluate(
        FETCH.replace('"no-cors"', '"cors"'), [url, "POST", "application/json", body]
    )
    return answers


@pytest.fixture(params=["other_port", "other_host"])
def origin(other_site: OtherSite, request: pytest.FixtureRequest) -> str:
    """The other site at another port of the server's host, and at another host."""
    return str(getattr(other_site, request.param))


def test_no_other_site_sets_a_fresh_server_up(page: Page, other_site: OtherSite, tmp_path: Path) -> None:
    with running_server(tmp_path, quickstart=False) as fresh:
        url = fresh.endpoint + SETUP
        for origin in (other_site.other_port, other_site.other_host):
            answers = sends(page, other_site, origin, url, '{"username": "mallory", "x=": ""}')
            assert {answer.status for answer in answers if answer.request.method == "POST"} == {403}
        # A name of another site that is pointed to the server while its page is open: same origin, foreign Host.
        page.goto(fresh.endpoint.replace("127.0.0.1", REBOUND) + "/_health")
        assert page.evaluate(FETCH, [SETUP, "POST", "application/json", '{"username": "mallory"}']) == 403
        assert httpx.get(url).json()["state"] == "not_initialized"
        page.goto(f"{fresh.endpoint}/_health")
        assert page.evaluate(FETCH, [SETUP, "POST", "application/json", '{"username": "ann"}']) == 200
        assert httpx.get(url).json()["state"] == "initialized"


def test_no_other_site_writes_with_the_login_cookie(
    logged_in: BrowserContext, server: ServerProcess, other_site: OtherSite, origin: str
) -> None:
    page = logged_in.new_page()
    url = f"{server.endpoint}/api/v1/repositories/lake/branches"
    answers = sends(page, other_site, origin, url, '{"name": "forged", "source": "main", "x=": ""}')
    assert {answer.status for answer in answers if answer.request.method == "POST"} <= {401, 403}
    upload = f"{server.endpoint}/api/v1/repositories/lake/branches/main/objects?path=forged"
    sends(page, other_site, origin, upload, "content=forged")
    assert branches(server) == {"main"}
    assert rest(server, "GET", "/repositories/lake/refs/main/objects/ls").json()["results"] == []


def test_the_servers_own_pages_write_with_the_login_cookie(
    logged_in: BrowserContext, server: ServerProcess
) -> None:
    page = logged_in.new_page()
    page.goto(f"{server.endpoint}/_health")
    url = "/api/v1/repositories/lake/branches"
    body = '{"name": "ours", "source": "main"}'
    assert page.evaluate(FETCH, [url, "POST", "text/plain", body]) == 400
    assert page.evaluate(FETCH, [url, "POST", "application/json", body]) == 201
    assert page.evaluate(FETCH, [f"{url}/ours", "DELETE", "", None]) == 204


def test_no_other_site_logs_somebody_in(
    page: Page, context: BrowserContext, server: ServerProcess, other_site: OtherSite, origin: str
) -> None:
    body = f'{{"access_key_id": "{server.access_key}", "secret_access_key": "{server.secret_key}", "x=": ""}}'
    answers = sends(page, other_site, origin, f"{server.endpoint}/api/v1/auth/login", body)
    assert {answer.status for answer in answers if answer.request.method == "POST"} == {403}
    assert context.cookies() == []


def test_only_the_servers_own_pages_log_somebody_out_and_the_token_ends_then(
    logged_in: BrowserContext, server: ServerProcess, other_site: OtherSite
) -> None:
    (cookie,) = logged_in.cookies()
    bearer = {"Authorization": f"Bearer {cookie['value']}"}
    page = logged_in.new_page()
    for origin in (other_site.other_port, other_site.other_host):
        other_site.pages["/out"] = (
            f'<img src="{server.endpoint}/logout"><a href="{server.endpoint}/logout">go</a>'
        )
        page.goto(f"{origin}/out")
        with page.expect_response("**/logout") as answer:
            page.click("a")
        assert answer.value.status == 403
        assert httpx.get(f"{server.endpoint}/api/v1/user", headers=bearer).status_code == 200
    page.goto(f"{server.endpoint}/logout")
    assert logged_in.cookies() == []
    assert httpx.get(f"{server.endpoint}/api/v1/user", headers=bearer).status_code == 401


OBJECTS = {
    "page.html": ("text/html", "<script>%s</script>"),
    "page.xhtml": (
        "application/xhtml+xml",
        '<html xmlns="http://www.w3.org/1999/xhtml"><script>%s</script></html>',
    ),
    "picture.svg": ("image/svg+xml", '<svg xmlns="http://www.w3.org/2000/svg"><script>%s</script></svg>'),
    "page.txt": ("text/plain", "<!doctype html><html><body><script>%s</script></body></html>"),
    "page.bin": ("application/octet-stream", "<!doctype html><html><script>%s</script></html>"),
}


def presigned(server: ServerProcess, path: str, **parameters: str) -> str:
    s3 = boto3.client(
        "s3",
        endpoint_url=server.endpoint,
        aws_access_key_id=server.access_key,
        aws_secret_access_key=server.secret_key,
        region_name="us-east-1",
        config=Config(signature_version="s3v4", s3={"addressing_style": "path"}),
    )
    url: str = s3.generate_presigned_url(
        "get_object", Params={"Bucket": "lake", "Key": f"evil/{path}", **parameters}
    )
    return url


def through_s3(server: ServerProcess, path: str) -> str:
    return presigned(server, path)


def through_s3_inline(server: ServerProcess, path: str) -> str:
    return presigned(server, path, ResponseContentDisposition="inline")


def through_s3_as_html(server: ServerProcess, path: str) -> str:
    return presigned(server, path, ResponseContentType="text/html", ResponseContentDisposition="inline")


def through_rest(server: ServerProcess, path: str) -> str:
    return f"{server.endpoint}/api/v1/repositories/lake/refs/evil/objects?path={path}"


@pytest.fixture(scope="module")
def evil(server: ServerProcess, other_site: OtherSite) -> Iterator[None]:
    """A branch with objects that have scripts in them."""
    script = SCRIPT % {"api": f"{server.endpoint}/api/v1", "other": other_site.other_port}
    body = {"name": "evil", "source": "main"}
    assert rest(server, "POST", "/repositories/lake/branches", json=body).status_code == 201
    for path, (content_type, text) in OBJECTS.items():
        stored = rest(
            server,
            "POST",
            "/repositories/lake/branches/evil/objects",
            params={"path": path},
            content=text % script.replace("<", "&lt;"),
            headers={"content-type": content_type},
        )
        assert stored.status_code == 201
    yield
    rest(server, "DELETE", "/repositories/lake/branches/evil")


@pytest.mark.usefixtures("evil")
@pytest.mark.parametrize("url_of", [through_s3, through_s3_inline, through_s3_as_html, through_rest])
def test_no_object_runs_a_script(
    logged_in: BrowserContext,
    server: ServerProcess,
    other_site: OtherSite,
    url_of: Callable[[ServerProcess, str], str],
) -> None:
    before = keys(server)
    other_site.visits.clear()
    page = logged_in.new_page()
    for path in OBJECTS:
        url = url_of(server, path)
        assert opened(page, url) in (DOWNLOADED, "null"), "an object's page has no origin"
        other_site.pages["/frame"] = f'<iframe src="{url.replace("&", "&amp;")}"></iframe>'
        page.goto(f"{other_site.other_port}/frame")
        assert page.title() != "it ran"
    # By now every script that was run has been here.
    page.goto(f"{other_site.other_port}/seen")
    assert "/seen" in other_site.visits
    assert "/it-ran" not in other_site.visits
    assert keys(server) == before


def opened(page: Page, url: str) -> str:
    """Return the origin of the page that an address leads to."""
    try:
        answer = page.goto(url)
    except Error as error:
        if "Download is starting" in str(error):
            return DOWNLOADED
        raise
    assert answer is not None
    assert answer.status == 200
    return str(page.evaluate("origin"))


def test_the_quickstart_answers_to_names_of_this_machine_only(page: Page, server: ServerProcess) -> None:
    rebound = server.endpoint.replace("127.0.0.1", REBOUND)
    for path in ("/_ready", "/metrics", "/api/v1/config", "/openapi.json"):
        answer = page.goto(rebound + path)
        assert answer is not None
        assert answer.status == 421
    answer = page.goto(server.endpoint.replace("127.0.0.1", "localhost") + "/_ready")
    assert answer is not None
    assert answer.status == 200
