"""`lakebed setup`, the first start, and starts that go wrong."""

import re
import socket
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from lakebed.cli.main import app
from lakebed.errors import AlreadyExistsError, InvalidInputError, UnavailableError
from lakebed.server.settings import SETTINGS
from lakebed.testing.server_process import running_server
from tests.server.http import Http

Run = Callable[..., str]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    """Calls `lakebed` with no variables of ours but those given; returns what it prints, or raises what it raises."""
    for setting in SETTINGS.values():
        monkeypatch.delenv(setting.variable, raising=False)

    def call(*words: str | Path, **environment: str) -> str:
        result = CliRunner().invoke(
            app, [str(word) for word in words], env=environment, catch_exceptions=False
        )
        assert result.exit_code == 0, result.output
        return result.output

    return call


def issued(text: str) -> tuple[str, str]:
    found = re.search(r"access key id +(\S+)\n +secret access key +(\S+)\n", text)
    assert found is not None, text
    return found[1], found[2]


@pytest.mark.server
def test_the_key_that_set_up_prints_opens_the_server_and_no_other_does(run: Run, tmp_path: Path) -> None:
    key, secret = issued(run("setup", "--data", tmp_path / "data", "--user-name", "ada"))
    # The quickstart's key is for an installation that nobody has set up.
    with running_server(tmp_path) as server:
        assert Http(server)("GET", "/user")[0] == 401
        ada = Http(replace(server, access_key=key, secret_key=secret))
        assert ada("GET", "/user")[1]["user"]["id"] == "ada"
        assert ada.whole("GET", "/_ready")[:2] == (200, b"ready")
        with pytest.raises(UnavailableError, match="another lakebed serves"):
            run("setup", "--data", tmp_path / "data")


def test_set_up_refuses_clearly_a_second_time(run: Run, tmp_path: Path) -> None:
    run("setup", "--data", tmp_path)
    with pytest.raises(AlreadyExistsError, match=f"{tmp_path} is already set up"):
        run("setup", "--data", tmp_path, "--user-name", "eve")


def test_set_up_takes_the_user_and_the_pair_that_are_configured(run: Run, tmp_path: Path) -> None:
    (tmp_path / "lakebed.toml").write_text(
        '[installation]\nuser_name = "ada"\naccess_key_id = "AKIACHOSEN"\nsecret_access_key = "chosen-secret"\n'
    )
    said = run("setup", LAKEBED_DATA=str(tmp_path))
    assert issued(said) == ("AKIACHOSEN", "chosen-secret")
    assert re.search(r"user +ada\n", said)


@pytest.mark.server
def test_a_key_from_the_environment_sets_the_server_up_at_its_first_start(tmp_path: Path) -> None:
    first = {
        "LAKEBED_INSTALLATION_USER_NAME": "ada",
        "LAKEBED_INSTALLATION_ACCESS_KEY_ID": "AKIACHOSEN",
        "LAKEBED_INSTALLATION_SECRET_ACCESS_KEY": "chosen-secret",
    }
    with running_server(tmp_path, environment=first) as server:
        ada = Http(replace(server, access_key="AKIACHOSEN", secret_key="chosen-secret"))
        assert ada("GET", "/user")[1]["user"]["id"] == "ada"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--listen", "nowhere"), "--listen is 'nowhere': it must be HOST:PORT"),
        (("--listen", "0.0.0.0:9", "--quickstart"), "loopback only"),
        (("--listen", "203.0.113.7:9"), "cannot be listened on"),
        (("--workers", "none"), "--workers is 'none'"),
        (("--tls-cert", "c.pem"), "tls.key is not"),
        (("--tls-cert", "c.pem", "--tls-key", "k.pem"), "c.pem cannot be read"),
        (("--config", "no.toml"), "no.toml cannot be read"),
    ],
)
def test_a_server_that_cannot_start_says_why_and_leaves_nothing(
    run: Run, tmp_path: Path, words: tuple[str, ...], said: str
) -> None:
    data = tmp_path / "data"
    with pytest.raises(InvalidInputError, match=re.escape(said)):
        run("run", "--data", data, *words)
    assert not data.exists()


def test_a_port_that_somebody_listens_on_is_not_shared(run: Run, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as somebody:
        listen = f"127.0.0.1:{somebody.getsockname()[1]}"
        with pytest.raises(UnavailableError, match="somebody listens"):
            run("run", "--listen", listen, "--data", tmp_path)
