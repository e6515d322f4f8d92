"""`lakebed verify` on a data folder, called as an operator calls it."""

import asyncio
import json
from pathlib import Path

import pytest

from lakebed.cli.main import main
from lakebed.committed.names import METARANGES_FOLDER, RANGES_FOLDER
from lakebed.objects.settings import StoreSettings
from lakebed.server.config import Config
from lakebed.server.data_folder import DataFolder
from lakebed.server.installation import open_installation
from lakebed.versioning.commit import CommitRequest

COMMIT = CommitRequest(committer="tester", message="a commit")


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installation with a repository `lake`: one object committed, one uncommitted."""
    folder = tmp_path / "data"
    monkeypatch.setenv("LAKEBED_DATA", str(folder))
    monkeypatch.setenv("COLUMNS", "200")

    async def fill() -> None:
        async with open_installation(Config(data=folder)) as wired:
            catalog = wired.catalog
            await catalog.repositories.create("lake", "local://lake")
            await catalog.objects.upload("lake", "main", "a", b"one")
            await catalog.commits.commit("lake", "main", COMMIT)
            await catalog.objects.upload("lake", "main", "b", b"two")

    asyncio.run(fill())
    return folder


def run(monkeypatch: pytest.MonkeyPatch, *args: str) -> int:
    monkeypatch.setattr("sys.argv", ["lakebed", *args])
    with pytest.raises(SystemExit) as ended:
        main()
    return int(ended.value.code or 0)


def test_a_whole_repository_is_called_whole(
    data: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "verify", "lakebed://lake", "--data") == 0

    said = capsys.readouterr().out
    assert "1 tree, 1 range, 1 staged change, 2 objects: everything is there and whole" in said
    assert "--data" not in said


def test_a_run_that_read_no_object_says_so(
    data: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "verify", "lake") == 0

    said = capsys.readouterr().out
    assert "2 objects: everything is there\n" in said
    assert "bytes were not read: --data reads them" in said


def test_it_reads_beside_whoever_serves_the_folder(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held = DataFolder.open(data)

    assert run(monkeypatch, "verify", "lake") == 0

    held.close()


def test_what_is_wrong_is_named_and_ends_with_1(
    data: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (lost,) = (data / "objects" / "lake" / RANGES_FOLDER).glob("*.parquet")
    lost.unlink()

    assert run(monkeypatch, "verify", "lake") == 1
    said = capsys.readouterr().out
    assert f"{RANGES_FOLDER}{lost.name} is not in the storage" in said
    assert "restore this file from a backup" in said
    assert "1 thing wrong" in said


def test_findings_are_json_for_programs(
    data: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (lost,) = (data / "objects" / "lake" / METARANGES_FOLDER).glob("*.parquet")
    lost.write_bytes(b"")

    assert run(monkeypatch, "verify", "lake", "--json") == 1
    report = json.loads(capsys.readouterr().out)
    assert report["counts"] == {"metarange-damaged": 1}
    assert report["verified"]["commits"] == 2
    assert report["findings"][0].keys() == {"kind", "where", "what", "remedy"}


def test_an_installation_that_is_not_there_is_not_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LAKEBED_DATA", str(tmp_path / "none"))

    assert run(monkeypatch, "verify", "lake") == 2

    assert "is no data folder" in capsys.readouterr().err
    assert not (tmp_path / "none").exists()


def test_a_repository_that_is_not_there_is_named(
    data: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "verify", "river") == 3

    assert "river" in capsys.readouterr().err


def test_a_database_elsewhere_needs_no_data_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    database = f"lmdb://{tmp_path}/database"

    async def fill() -> None:
        async with open_installation(
            Config(
                data=tmp_path / "server",
                kv_url=database,
                storage=StoreSettings(local_roots=(tmp_path / "lake",)),
            )
        ) as wired:
            await wired.catalog.repositories.create("lake", f"local://{tmp_path}/lake")
            await wired.catalog.objects.upload("lake", "main", "a", b"one")

    asyncio.run(fill())
    monkeypatch.setenv("LAKEBED_DATA", str(tmp_path / "none"))
    monkeypatch.setenv("LAKEBED_DATABASE", database)
    monkeypatch.setenv("LAKEBED_STORAGE_LOCAL_ROOTS", str(tmp_path / "lake"))

    assert run(monkeypatch, "verify", "lake") == 0

    assert "1 staged change, 1 object: everything is there" in capsys.readouterr().out
    assert not (tmp_path / "none").exists()
