"""`lakebed config`: the client's settings and the server's in one place."""

from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner

from lakebed.cli.main import app
from lakebed.errors import InvalidInputError
from lakebed.server.settings import SETTINGS

CLIENT = {
    "LAKEBED_ENDPOINT": "http://127.0.0.1:1",
    "LAKEBED_ACCESS_KEY_ID": "AKIA",
    "LAKEBED_SECRET_ACCESS_KEY": "hush-client",
}


@pytest.fixture(autouse=True)
def _nothing_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in (*(setting.variable for setting in SETTINGS.values()), *CLIENT):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)


def config(*words: str, **environment: str) -> str:
    result = CliRunner().invoke(app, ["config", *words], env=environment, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_it_shows_both_halves_with_their_sources_and_no_secret(tmp_path: Path) -> None:
    (tmp_path / "given.toml").write_text(
        'workers = 7\n[installation]\nkey = "hush-server-hush-server-hush-server"'
    )
    said = config("--config", "given.toml", **CLIENT)
    assert "http://127.0.0.1:1" in said
    assert any(line.split() == ["workers", "7", "given.toml"] for line in said.splitlines())
    assert [name for name in SETTINGS if name not in said] == []
    assert "hush" not in said


def test_json_has_the_same(tmp_path: Path) -> None:
    shown = msgspec.json.decode(config("--json", "--data", "lake", **CLIENT, LAKEBED_WORKERS="3"))
    assert shown["client"]["endpoint"] == "http://127.0.0.1:1"
    rows = {row["name"]: row for row in shown["server"]["settings"]}
    assert (rows["workers"]["value"], rows["workers"]["source"]) == ("3", "LAKEBED_WORKERS")
    assert (rows["data"]["value"], rows["data"]["source"]) == ("lake", "--data")
    assert "hush" not in repr(shown)


def test_without_a_client_the_servers_half_is_shown_all_the_same() -> None:
    assert "no server is configured" in config()


def test_a_variable_that_is_nearly_a_setting_is_pointed_out() -> None:
    assert "LAKEBED_WORKERS may be meant" in config(LAKEBED_WORKRS="3")


def test_a_mistake_ends_it_with_the_reason() -> None:
    with pytest.raises(InvalidInputError, match="LAKEBED_WORKERS is 'x'"):
        config(LAKEBED_WORKERS="x")
