"""Folders to a branch and back."""

from collections import Counter
from pathlib import Path

import pytest

from lakebed.client.repo import Repo
from lakebed.client.transfers import (
    Done,
    Outcome,
    copy_folder,
    download_file,
    download_folder,
    files_below,
    place_below,
    upload_folder,
)
from lakebed.errors import ConflictError, InvalidInputError


def fill(folder: Path, count: int) -> dict[str, bytes]:
    content = {f"d{i % 7}/f{i}.bin": bytes([i % 256]) * (i * 37) for i in range(count)}
    for path, data in content.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(data)
    return content


def tally(outcomes: list[Outcome]) -> Counter[Done]:
    return Counter(outcome.done for outcome in outcomes)


@pytest.mark.server
def test_a_folder_survives_the_round_trip(repo: Repo, tmp_path: Path) -> None:
    content, main, sent = fill(tmp_path / "from", 120), repo.branch("main"), []

    up = list(upload_folder(tmp_path / "from", main, "in/", on_bytes=sent.append))
    down = list(download_folder(main, "in/", tmp_path / "to"))

    assert tally(up) == tally(down) == {Done.COPIED: 120}
    assert sum(sent) == sum(map(len, content.values()))
    found = {file.relative_to(tmp_path / "to").as_posix(): file for file in files_below(tmp_path / "to")}
    assert {path: file.read_bytes() for path, file in found.items()} == content


@pytest.mark.server
def test_what_is_there_already_is_not_sent_again(repo: Repo, tmp_path: Path) -> None:
    fill(tmp_path / "from", 20)
    main = repo.branch("main")
    list(upload_folder(tmp_path / "from", main, ""))
    same_size = b"o" * (tmp_path / "from" / "d1" / "f1.bin").stat().st_size
    (tmp_path / "from" / "d1" / "f1.bin").write_bytes(same_size)

    up = list(upload_folder(tmp_path / "from", main, ""))
    list(download_folder(main, "", tmp_path / "to"))
    (tmp_path / "to" / "d2" / "f2.bin").unlink()
    again = list(download_folder(main, "", tmp_path / "to"))

    assert [each.path for each in up if each.done is Done.COPIED] == ["d1/f1.bin"]
    assert [each.path for each in again if each.done is Done.COPIED] == ["d2/f2.bin"]
    assert main.read("d1/f1.bin") == same_size


@pytest.mark.server
def test_one_file_that_fails_does_not_stop_the_others(repo: Repo, tmp_path: Path) -> None:
    main = repo.branch("main")
    for path in ("ok/1", "../escape", "ok/2", "file", "file/below"):
        main.write(path, path)

    outcomes = {each.path: each.done for each in download_folder(main, "", tmp_path / "to")}

    assert outcomes.pop("../escape") is Done.FAILED
    assert Counter(outcomes.values())[Done.FAILED] == 1, "a file cannot also be a folder"
    assert not (tmp_path / "escape").exists()
    assert (tmp_path / "to" / "ok" / "2").read_text() == "ok/2"


@pytest.mark.server
def test_a_download_that_fails_leaves_the_local_file_as_it_was(repo: Repo, tmp_path: Path) -> None:
    main = repo.branch("main")
    info = main.write("a", b"new")
    (tmp_path / "a").write_bytes(b"old")
    main.write("a", b"newer")

    with pytest.raises(ConflictError):
        download_file(main, info, tmp_path / "a")

    assert (tmp_path / "a").read_bytes() == b"old"
    assert [file.name for file in tmp_path.iterdir()] == ["a"]


@pytest.mark.parametrize("path", ["", "/etc/passwd", "../up", "a/../../up", "folder/", "a\x00b"])
def test_a_path_that_leads_out_of_the_folder_is_refused(tmp_path: Path, path: str) -> None:
    with pytest.raises(InvalidInputError):
        place_below(tmp_path, path)


@pytest.mark.server
def test_a_folder_is_copied_once_and_what_has_changed_again(repo: Repo) -> None:
    main = repo.branch("main")
    for i in range(30):
        main.write(f"a/{i:02}", f"{i}")
    main.commit("Thirty")
    dev = repo.branch("dev")
    dev.create("main")

    first = list(copy_folder(repo.ref("main"), "a/", dev, "b/"))
    main.write("a/07", "changed")
    dev.delete_object("b/11")
    second = list(copy_folder(repo.ref("main"), "a/", dev, "b/"))

    assert tally(first) == {Done.COPIED: 30}
    assert sorted(each.path for each in second if each.done is Done.COPIED) == ["b/07", "b/11"]
    assert dev.read("b/07") == b"changed"
    assert dev.stat("b/11").physical_address == main.stat("a/11").physical_address


@pytest.mark.server
def test_a_folder_is_copied_into_itself_without_what_lies_there(repo: Repo) -> None:
    main = repo.branch("main")
    main.write("x", "1")
    main.write("old/y", "2")

    for _ in range(2):
        list(copy_folder(repo.ref("main"), "", main, "old/"))

    assert [info.path for info in main.objects()] == ["old/x", "old/y", "x"]
