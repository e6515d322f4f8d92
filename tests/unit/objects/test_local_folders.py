"""What a folder says is in it, whoever else is asking."""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from lakebed.objects.local.disk import RealDisk
from lakebed.objects.local.folders import Folder, Folders, open_root
from lakebed.objects.local.walk import walk

FILES = 300
ROUNDS = 400
READERS = 4


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    for number in range(FILES):
        (tmp_path / f"{number:04d}").touch()
    return open_root(str(tmp_path))


def test_two_who_read_the_names_at_once_both_get_all(folder: Folder) -> None:
    with ThreadPoolExecutor(READERS) as pool:
        found = list(pool.map(lambda _: len(folder.names()), range(ROUNDS)))

    assert found == [FILES] * ROUNDS


def test_two_who_list_at_once_both_get_all(folder: Folder) -> None:
    folders = Folders(folder, RealDisk())
    with ThreadPoolExecutor(READERS) as pool:
        found = list(
            pool.map(lambda _: sum(1 for _ in walk(folders, prefix="", start_after="")), range(ROUNDS // 4))
        )

    assert found == [FILES] * (ROUNDS // 4)


def test_reading_names_leaves_nothing_open(folder: Folder) -> None:
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208  counted, not walked
    for _ in range(10):
        folder.names()

    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208


def test_a_folder_that_was_removed_is_empty(tmp_path: Path) -> None:
    (tmp_path / "gone").mkdir()
    folder = open_root(str(tmp_path / "gone"))
    (tmp_path / "gone").rmdir()

    assert folder.names() == []
