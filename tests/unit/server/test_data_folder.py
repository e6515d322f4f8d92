"""The data folder: held by one process, marked with its version, and refused where it cannot be one."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from lakebed.errors import CorruptError, ErrorKind, InvalidInputError, LakebedError, UnavailableError
from lakebed.server.config import Config
from lakebed.server.data_folder import DataFolder
from lakebed.server.installation import open_installation

HOLD = """
import sys
from pathlib import Path
from lakebed.server.data_folder import DataFolder
folder = DataFolder.open(Path(sys.argv[1]))
print("held", flush=True)
sys.stdin.read()
"""


def files(folder: Path) -> dict[str, bytes]:
    return {
        str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.name != "lock"
    }


def test_the_first_opening_makes_the_folder_and_says_its_version(tmp_path: Path) -> None:
    DataFolder.open(tmp_path / "a" / "b").close()

    made = sorted(file.name for file in (tmp_path / "a" / "b").iterdir())
    assert made == ["VERSION", "cache", "kv", "lock", "objects", "tmp"]
    assert (tmp_path / "a" / "b" / "VERSION").read_text() == "1\n"


def test_a_second_process_is_told_what_to_do_and_the_first_goes_on(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, tmp_path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        with pytest.raises(UnavailableError) as caught:
            DataFolder.open(tmp_path)
        assert caught.value.kind is ErrorKind.IN_USE
        assert "--data" in str(caught.value)

        other.kill()
        other.wait()
        DataFolder.open(tmp_path).close()


async def test_an_installation_is_not_opened_twice(tmp_path: Path) -> None:
    async with open_installation(Config(data=tmp_path)) as wired:
        with pytest.raises(UnavailableError) as caught:
            async with open_installation(Config(data=tmp_path)):
                pass
        assert caught.value.kind is ErrorKind.IN_USE
        await wired.catalog.repositories.create("lake", "local://lake")


def test_a_folder_of_a_newer_version_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "VERSION").write_text("2\n")

    for _ in range(2):
        with pytest.raises(CorruptError) as caught:
            DataFolder.open(tmp_path)
        assert caught.value.kind is ErrorKind.NEWER_VERSION
        assert "upgrade lakebed" in str(caught.value)
    assert files(tmp_path) == {"VERSION": b"2\n"}


@pytest.mark.parametrize("content", [b"", b"one", b"-1", b"\xff", "²".encode(), b"1 2"])
def test_a_version_that_is_none_is_refused_and_left_as_it_is(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "VERSION").write_bytes(content)

    with pytest.raises(CorruptError) as caught:
        DataFolder.open(tmp_path)
    assert caught.value.kind is ErrorKind.UNREADABLE
    assert files(tmp_path) == {"VERSION": content}


def test_what_cannot_be_a_folder_is_refused_with_the_next_step(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "kv").write_text("mine")
    (tmp_path / "odd").mkdir()
    (tmp_path / "odd" / "VERSION").mkdir()

    for path in (tmp_path / "file", tmp_path / "file" / "below", tmp_path / "taken", tmp_path / "odd"):
        with pytest.raises(InvalidInputError) as caught:
            DataFolder.open(path)
        assert caught.value.kind is ErrorKind.INVALID_CONFIG
        assert "--data" in str(caught.value)
    assert (tmp_path / "file").read_text() == (tmp_path / "taken" / "kv").read_text() == "mine"


def test_a_full_disk_is_said_and_leaves_no_half_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(LakebedError) as caught:
            DataFolder.open(tmp_path)
    assert caught.value.kind is ErrorKind.DISK_FULL
    assert not (tmp_path / "VERSION").exists(), "a crash before the sync must not leave an empty file"
    DataFolder.open(tmp_path).close()


def test_the_version_and_the_names_of_the_folders_are_synced_before_anything_is_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[tuple[str, list[str]]] = []

    def spy(descriptor: int) -> None:
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        names = sorted(file.name for file in path.iterdir()) if path.is_dir() else []
        synced.append((path.name, names))

    monkeypatch.setattr(os, "fsync", spy)
    DataFolder.open(tmp_path / "a" / "b").close()

    assert ("VERSION.new", []) in synced, "its bytes, before it gets its name"
    assert synced[-1] == ("b", ["VERSION", "cache", "kv", "lock", "objects", "tmp"])
    assert ("a", ["b"]) in synced
    assert (tmp_path.name, ["a"]) in synced
