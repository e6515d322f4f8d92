"""fsspec over a real server: what pandas and the others will call."""

from collections.abc import Iterator
from pathlib import Path

import fsspec
import pytest

from lakebed.client.client import Client
from lakebed.client.repo import Repo
from lakebed.env.ids import SystemIds
from lakebed.fs.filesystem import LakebedFileSystem
from lakebed.testing.server_process import ACCESS_KEY, SECRET_KEY, ServerProcess

pytestmark = pytest.mark.server


@pytest.fixture
def fs(server: ServerProcess) -> Iterator[LakebedFileSystem]:
    made = LakebedFileSystem(server.endpoint, ACCESS_KEY, SECRET_KEY, skip_instance_cache=True)
    yield made
    made.client.close()


@pytest.fixture
def root(repo: Repo) -> str:
    """A branch with a few files."""
    main = repo.branch("main")
    for path in ("a.csv", "b/1.csv", "b/2.txt", "b/c/3.csv"):
        main.write(path, path)
    return f"{repo.name}/main"


def below(root: str, *paths: str) -> list[str]:
    return [f"{root}/{path}" for path in paths]


def test_the_protocol_is_found_by_its_name(
    server: ServerProcess, root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in server.client_environment.items():
        monkeypatch.setenv(name, value)
    fsspec.get_filesystem_class("lakebed").clear_instance_cache()

    with fsspec.open(f"lakebed://{root}/a.csv", "rt") as file:
        assert file.read() == "a.csv"


def test_a_folder_lists_files_and_folders(fs: LakebedFileSystem, root: str) -> None:
    assert fs.ls(root, detail=False) == below(root, "a.csv", "b")
    assert fs.ls(f"lakebed://{root}/b/", detail=False) == below(root, "b/1.csv", "b/2.txt", "b/c")
    assert fs.ls(f"{root}/a.csv", detail=False) == below(root, "a.csv")
    kinds = {entry["name"]: entry["type"] for entry in fs.ls(f"{root}/b")}
    assert kinds == dict(
        zip(below(root, "b/1.csv", "b/2.txt", "b/c"), ["file", "file", "directory"], strict=True)
    )


def test_repositories_and_refs_are_folders(fs: LakebedFileSystem, repo: Repo) -> None:
    repo.tag("v1").create("main")

    assert repo.name in fs.ls("", detail=False)
    assert fs.ls(f"lakebed://{repo.name}", detail=False) == [f"{repo.name}/main", f"{repo.name}/v1"]
    assert fs.isdir(repo.name)
    assert fs.isdir(f"{repo.name}/v1")
    assert fs.ls(f"{repo.name}/main") == []


def test_info_tells_files_from_folders_from_nothing(fs: LakebedFileSystem, root: str) -> None:
    info = fs.info(f"{root}/a.csv")

    assert (info["type"], info["size"], info["content_type"]) == ("file", 5, "text/csv")
    assert info["ETag"] == f'"{info["checksum"]}"'
    assert fs.checksum(f"{root}/a.csv") == info["checksum"]
    assert fs.modified(f"{root}/a.csv").timestamp() == info["mtime"]
    assert (fs.isfile(f"{root}/a.csv"), fs.isdir(f"{root}/a.csv")) == (True, False)
    assert (fs.isfile(f"{root}/b"), fs.isdir(f"{root}/b")) == (False, True)
    assert not fs.exists(f"{root}/nothing")
    assert not fs.exists(f"{root}/a")
    assert not fs.exists("no-such-repo/main/a")


@pytest.mark.parametrize("ask", ["info", "ls", "cat_file", "open", "rm_file", "checksum"])
def test_what_is_not_there_is_file_not_found(fs: LakebedFileSystem, root: str, ask: str) -> None:
    with pytest.raises(FileNotFoundError):
        getattr(fs, ask)(f"{root}/nothing")


def test_find_and_glob_see_every_level(fs: LakebedFileSystem, root: str) -> None:
    assert fs.find(root) == below(root, "a.csv", "b/1.csv", "b/2.txt", "b/c/3.csv")
    assert fs.find(f"{root}/b", withdirs=True) == below(root, "b", "b/1.csv", "b/2.txt", "b/c", "b/c/3.csv")
    assert fs.find(f"{root}/a.csv") == below(root, "a.csv")
    assert fs.find(root, maxdepth=1) == below(root, "a.csv")
    assert fs.glob(f"{root}/*.csv") == below(root, "a.csv")
    assert fs.glob(f"{root}/**/*.csv") == below(root, "a.csv", "b/1.csv", "b/c/3.csv")
    assert fs.glob(f"{root}/b/*") == below(root, "b/1.csv", "b/2.txt", "b/c")
    assert min(fs.walk(root)) == (root, ["b"], ["a.csv"])


def test_bytes_and_slices_are_read(fs: LakebedFileSystem, root: str) -> None:
    path = f"{root}/b/c/3.csv"

    assert fs.cat(path) == b"b/c/3.csv"
    assert fs.cat_file(path, start=2, end=5) == b"c/3"
    assert fs.cat_file(path, start=-3) == b"csv"
    assert fs.cat(below(root, "a.csv", "b/1.csv")) == {
        f"{root}/a.csv": b"a.csv",
        f"{root}/b/1.csv": b"b/1.csv",
    }
    assert fs.head(path, 3) == b"b/c"


def test_files_are_written_in_bytes_and_text_and_not_at_all_when_it_fails(
    fs: LakebedFileSystem, root: str
) -> None:
    fs.pipe(f"{root}/new", b"bytes")
    with fs.open(f"{root}/text", "w") as file:
        file.write("zoë")

    def fail() -> None:
        with fs.open(f"{root}/broken", "wb") as file:
            file.write(b"half")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()

    assert fs.cat(f"{root}/new") == b"bytes"
    assert fs.cat(f"{root}/text") == "zoë".encode()
    assert not fs.exists(f"{root}/broken")
    with pytest.raises(NotImplementedError):
        fs.open(f"{root}/new", "ab")
    with pytest.raises(IsADirectoryError):
        fs.open(root, "wb")


def test_an_exclusive_write_finds_what_is_there(fs: LakebedFileSystem, root: str, tmp_path: Path) -> None:
    (tmp_path / "x").write_text("x")

    with pytest.raises(FileExistsError):
        fs.put_file(str(tmp_path / "x"), f"{root}/a.csv", mode="create")

    assert fs.cat(f"{root}/a.csv") == b"a.csv"


def test_folders_go_up_and_down(fs: LakebedFileSystem, root: str, tmp_path: Path) -> None:
    fs.get(f"{root}/b", str(tmp_path / "b"), recursive=True)
    assert (tmp_path / "b" / "c" / "3.csv").read_text() == "b/c/3.csv"

    fs.put(str(tmp_path / "b"), f"{root}/up", recursive=True)

    assert fs.find(f"{root}/up") == below(root, "up/1.csv", "up/2.txt", "up/c/3.csv")


def test_copies_moves_and_deletions(fs: LakebedFileSystem, root: str) -> None:
    fs.cp(f"{root}/b", f"{root}/copy", recursive=True)
    fs.mv(f"{root}/a.csv", f"{root}/moved.csv")
    fs.rm(f"{root}/b", recursive=True)

    assert fs.find(root) == below(root, "copy/1.csv", "copy/2.txt", "copy/c/3.csv", "moved.csv")
    assert fs.cat(f"{root}/copy/c/3.csv") == b"b/c/3.csv"
    fs.rm(below(root, "copy/1.csv", "moved.csv"))
    fs.rm(f"{root}/copy/*.txt")
    assert fs.find(root) == below(root, "copy/c/3.csv")


def test_a_copy_between_repositories_keeps_content_and_type(
    fs: LakebedFileSystem, root: str, client: Client
) -> None:
    other = client.repo(f"repo-{SystemIds().token()}")
    other.create(f"local://{other.name}")

    fs.cp(f"{root}/a.csv", f"{other.name}/main/a.csv")

    assert other.branch("main").read("a.csv") == b"a.csv"
    assert other.branch("main").stat("a.csv").content_type == "text/csv"


def test_a_transaction_is_one_commit(fs: LakebedFileSystem, root: str, repo: Repo, tmp_path: Path) -> None:
    repo.branch("main").commit("Before")
    (tmp_path / "z").write_text("z")

    with fs.transaction:
        fs.pipe(f"{root}/x", b"x")
        with fs.open(f"{root}/y", "w") as file:
            file.write("y")
        fs.put_file(str(tmp_path / "z"), f"{root}/z")
        assert not fs.exists(f"{root}/x")

    changes = [change.path for change in repo.ref("main~1").diff("main", two_dot=True)]
    assert changes == ["x", "y", "z"]
    assert repo.ref("main").head().message == fs.commit_message
    assert list(repo.branch("main").uncommitted()) == []


def test_a_transaction_that_fails_writes_nothing(fs: LakebedFileSystem, root: str, repo: Repo) -> None:
    before = repo.branch("main").commit("Before").id

    def fail() -> None:
        with fs.transaction:
            fs.pipe(f"{root}/x", b"x")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()

    assert repo.branch("main").info().commit_id == before
    assert not fs.exists(f"{root}/x")
    fs.pipe(f"{root}/after", b"")
    assert fs.exists(f"{root}/after")


def test_listings_are_fresh_unless_a_cache_is_asked_for(server: ServerProcess, root: str, repo: Repo) -> None:
    options = {"skip_instance_cache": True}
    fresh = LakebedFileSystem(server.endpoint, ACCESS_KEY, SECRET_KEY, **options)
    cached = LakebedFileSystem(server.endpoint, ACCESS_KEY, SECRET_KEY, use_listings_cache=True, **options)
    for each in (fresh, cached):
        each.ls(root)

    repo.branch("main").write("late", b"")

    assert f"{root}/late" in fresh.ls(root, detail=False)
    assert f"{root}/late" not in cached.ls(root, detail=False)
    cached.invalidate_cache()
    assert f"{root}/late" in cached.ls(root, detail=False)
    fresh.client.close()
    cached.client.close()


def test_an_empty_object_that_marks_a_folder_is_no_file(fs: LakebedFileSystem, repo: Repo) -> None:
    repo.branch("main").write("marked/", b"")
    repo.branch("main").write("marked/file", b"")
    root = f"{repo.name}/main"

    assert fs.ls(f"{root}/marked", detail=False) == [f"{root}/marked/file"]
    assert fs.find(root) == [f"{root}/marked/file"]
    fs.rm(f"{root}/marked", recursive=True)
    assert list(repo.branch("main").objects()) == []
