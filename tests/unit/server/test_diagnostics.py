"""`lakebed diagnostics`: the bundle tells how things are, and no secret is in it."""

import asyncio
import json
import zipfile
from pathlib import Path

import pytest

from lakebed.auth.auth import build_auth
from lakebed.cli.main import main
from lakebed.env.clock import SystemClock
from lakebed.env.ids import SystemIds
from lakebed.model.auth import KeyPair
from lakebed.server.config import Config
from lakebed.server.installation import open_installation
from lakebed.server.installation_key import installation_key
from lakebed.server.scrub import scrub

SECRETS = {
    "LAKEBED_STORAGE_S3_SECRET_ACCESS_KEY": "s3-secret-that-nobody-sees",
    "LAKEBED_STORAGE_S3_SESSION_TOKEN": "session-that-nobody-sees",
    "LAKEBED_INSTALLATION_SECRET_ACCESS_KEY": "first-secret-that-nobody-sees",
    "LAKEBED_SECRET_ACCESS_KEY": "client-secret-that-nobody-sees",
}
USER_SECRET = "user-secret-that-nobody-sees"


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installation with a user, a repository, something staged, and secrets everywhere."""
    folder = tmp_path / "data"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LAKEBED_DATA", str(folder))
    monkeypatch.setenv("LAKEBED_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv("LAKEBED_STORAGE_S3_ACCESS_KEY_ID", "s3-key")
    monkeypatch.setenv("LAKEBED_INSTALLATION_ACCESS_KEY_ID", "first-key")
    for name, secret in SECRETS.items():
        monkeypatch.setenv(name, secret)

    async def fill() -> None:
        async with open_installation(Config(data=folder)) as wired:
            await wired.catalog.repositories.create("lake", "local://lake")
            await wired.catalog.objects.upload("lake", "main", "a", b"one")
            ids = SystemIds()
            key = installation_key(None, folder / "installation.key", ids)
            auth = build_auth(wired.engine.parts.kv, key=key, clock=SystemClock(), ids=ids)
            await auth.setup.set_up(
                "admin", pair=KeyPair(access_key_id="AKIAADMIN", secret_access_key=USER_SECRET)
            )

    asyncio.run(fill())
    return folder


def bundle(monkeypatch: pytest.MonkeyPatch, file: Path, *args: str) -> dict[str, str]:
    monkeypatch.setattr("sys.argv", ["lakebed", "diagnostics", "--out", str(file), *args])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 0
    with zipfile.ZipFile(file) as opened:
        return {name: opened.read(name).decode() for name in opened.namelist()}


def test_the_bundle_tells_how_things_are(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = bundle(monkeypatch, tmp_path / "out.zip")

    assert "polars" in json.loads(texts["about.json"])["packages"]
    (lake,) = json.loads(texts["repositories.json"])
    assert (lake["name"], lake["commits"], lake["branch_records"]) == ("lake", 1, 1)
    assert lake["branches"][0]["staged_rows"] == 1
    assert json.loads(texts["database.json"])["driver"] == "LmdbKV"
    assert json.loads(texts["disk.json"])["objects"]["files"] > 0
    settings = {each["name"]: each for each in json.loads(texts["settings.json"])["settings"]}
    assert settings["storage.s3.access_key_id"]["value"] == "s3-key"
    assert "metrics.error.txt" in texts  # No server runs at that address.


def test_no_secret_of_the_installation_is_in_it(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "server.log"
    key = (data / "installation.key").read_text()
    lines = [*SECRETS.values(), key, f"secret_access_key={USER_SECRET}", "the last line"]
    log.write_text("\n".join(lines))
    monkeypatch.setenv("LAKEBED_CONFIG", str(tmp_path / "lakebed.toml"))
    (tmp_path / "lakebed.toml").write_text('data = "data"\n')

    texts = bundle(monkeypatch, tmp_path / "out.zip", "--log", str(log))

    whole = "\n".join([*texts, *texts.values()])
    assert "the last line" in texts["log.txt"]
    for secret in (*SECRETS.values(), USER_SECRET, key):
        assert secret not in whole
    assert USER_SECRET.encode() not in (tmp_path / "out.zip").read_bytes()


def test_a_database_that_does_not_open_is_told_and_stops_nothing(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (data / "kv" / "data.mdb").write_bytes(b"not a database" * 1000)

    texts = bundle(monkeypatch, tmp_path / "out.zip")

    assert texts["database.error.txt"]
    assert "disk.json" in texts


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("postgresql://me:open-sesame@host/db", "postgresql://me:***@host/db"),
        ('{"secret_access_key": "abcdef"}', '{"secret_access_key": "***"}'),
        ("Authorization: Basic QUtJQTpzZWNyZXQ=", "Authorization: Basic ***"),
        ("GET /a?X-Amz-Signature=0123&x=1", "GET /a?X-Amz-Signature=***&x=1"),
        ("key is hidden-one here", "key is *** here"),
        ("no secret here", "no secret here"),
    ],
)
def test_what_looks_like_a_secret_is_hidden(text: str, shown: str) -> None:
    assert scrub(text, ["hidden-one", ""]) == shown
