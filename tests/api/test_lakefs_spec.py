"""`lakefs-spec`, the fsspec filesystem of the lakeFS world, does all it does against a server of ours."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import lakefs
import pandas as pd
import pytest
from lakefs_spec import LakeFSFileSystem

from lakebed.testing.server_process import ServerProcess
from tests.api.clients import fresh_repository

pytestmark = [pytest.mark.server, pytest.mark.xdist_group("server")]


@pytest.fixture
def repo(server: ServerProcess) -> Iterator[lakefs.Repository]:
    yield from fresh_repository(server, "spec")


def _options(server: ServerProcess) -> dict[str, Any]:
    return {"host": server.endpoint, "username": server.access_key, "password": server.secret_key}


@pytest.fixture
def fs(server: ServerProcess) -> LakeFSFileSystem:
    """A filesystem without listings of another test."""
    return LakeFSFileSystem(**_options(server), skip_instance_cache=True, use_listings_cache=False)


@pytest.fixture
def main(repo: lakefs.Repository) -> str:
    """Where the default branch begins."""
    return f"lakefs://{repo.id}/main"


@pytest.fixture
def tree(fs: LakeFSFileSystem, main: str) -> str:
    """A few files in folders on the default branch."""
    for path in ("a.txt", "dir/b.txt", "dir/c.csv", "dir/sub/d.txt", "other/e.txt"):
        fs.pipe_file(f"{main}/{path}", path.encode())
    return main


def _below(paths: object, root: str) -> list[str]:
    """Return paths relative to a root."""
    assert isinstance(paths, list)
    return sorted(str(path).removeprefix(root.removeprefix("lakefs://") + "/") for path in paths)


def test_a_new_object_is_touched_into_being(fs: LakeFSFileSystem, main: str) -> None:
    fs.touch(f"{main}/marker")

    assert fs.info(f"{main}/marker")["size"] == 0


def test_what_is_written_is_read(fs: LakeFSFileSystem, main: str) -> None:
    with fs.open(f"{main}/text", "w") as file:
        file.write("first\nsecond é\n")
    with fs.open(f"{main}/text", "r") as file:
        assert file.read() == "first\nsecond é\n"
    with fs.open(f"{main}/bytes", "wb") as file:
        file.write(b"0123456789" * 1000)
    with fs.open(f"{main}/bytes", "rb") as file:
        file.seek(9995)
        assert file.read() == b"56789"
    assert fs.cat_file(f"{main}/bytes", start=3, end=6) == b"345"
    assert fs.tail(f"{main}/bytes", 4) == b"6789"
    assert fs.head(f"{main}/bytes", 2) == b"01"


def test_what_is_not_there_says_so(fs: LakeFSFileSystem, main: str, repo: lakefs.Repository) -> None:
    for path in (f"{main}/none", f"{repo.id}/none/path", "no-such-repository/main/path"):
        assert not fs.exists(path)
        with pytest.raises(FileNotFoundError):
            fs.info(path)
        with pytest.raises(FileNotFoundError):
            fs.open(path, "rb").read()


def test_a_file_has_what_is_known_of_it(fs: LakeFSFileSystem, tree: str) -> None:
    info = fs.info(f"{tree}/dir/b.txt")
    assert (info["type"], info["size"]) == ("file", len("dir/b.txt"))
    assert fs.checksum(f"{tree}/dir/b.txt") == info["checksum"]
    assert fs.isfile(f"{tree}/dir/b.txt")
    assert fs.isdir(f"{tree}/dir")
    assert fs.size(f"{tree}/a.txt") == 5
    assert fs.modified(f"{tree}/a.txt") >= fs.created(f"{tree}/a.txt")


def test_folders_are_listed(fs: LakeFSFileSystem, tree: str) -> None:
    assert _below(fs.ls(f"{tree}/", detail=False), tree) == ["a.txt", "dir/", "other/"]
    assert _below(fs.ls(f"{tree}/dir", detail=False), tree) == ["dir/b.txt", "dir/c.csv", "dir/sub/"]
    assert [each["type"] for each in fs.ls(f"{tree}/dir/sub/")] == ["file"]
    assert _below(fs.find(f"{tree}/dir"), tree) == ["dir/b.txt", "dir/c.csv", "dir/sub/d.txt"]
    assert _below(fs.glob(f"{tree}/**/*.txt"), tree) == ["a.txt", "dir/b.txt", "dir/sub/d.txt", "other/e.txt"]
    assert _below(fs.glob(f"{tree}/dir/*.csv"), tree) == ["dir/c.csv"]
    walked = {
        folder.rstrip("/").rpartition("/")[2]: sorted(files) for folder, _, files in fs.walk(f"{tree}/dir")
    }
    assert walked == {"dir": ["b.txt", "c.csv"], "sub": ["d.txt"]}
    assert fs.du(f"{tree}/other") == len("other/e.txt")


def test_a_listing_longer_than_a_page_is_whole(
    fs: LakeFSFileSystem, main: str, repo: lakefs.Repository
) -> None:
    branch = repo.branch("main")
    for number in range(101):
        branch.object(f"many/{number:03d}").upload(data=b"")
    assert len(fs.find(f"{main}/many")) == 101


def test_odd_names_stay_what_they_are(fs: LakeFSFileSystem, main: str) -> None:
    odd = ["a b", "a%2Fb", "ü/é", "a+b&c=d", "#x", "dots/../up"]
    for path in odd:
        fs.pipe_file(f"{main}/{path}", path.encode())
    assert sorted(_below(fs.find(f"{main}/"), main)) == sorted(odd)
    for path in odd:
        assert fs.cat_file(f"{main}/{path}") == path.encode()


def test_files_are_copied_moved_and_removed(fs: LakeFSFileSystem, tree: str) -> None:
    fs.cp_file(f"{tree}/a.txt", f"{tree}/copy.txt")
    assert fs.cat_file(f"{tree}/copy.txt") == b"a.txt"
    fs.mv(f"{tree}/copy.txt", f"{tree}/moved.txt")
    assert not fs.exists(f"{tree}/copy.txt")
    assert fs.cat_file(f"{tree}/moved.txt") == b"a.txt"
    fs.rm_file(f"{tree}/moved.txt")
    assert not fs.exists(f"{tree}/moved.txt")
    fs.rm(f"{tree}/dir", recursive=True)
    assert _below(fs.find(f"{tree}/"), tree) == ["a.txt", "other/e.txt"]


def test_folders_go_up_and_come_down(fs: LakeFSFileSystem, main: str, tmp_path: Path) -> None:
    (tmp_path / "up" / "sub").mkdir(parents=True)
    (tmp_path / "up" / "one").write_text("1")
    (tmp_path / "up" / "sub" / "two").write_bytes(bytes(range(256)) * 1000)
    fs.put(f"{tmp_path}/up/", f"{main}/put/", recursive=True)
    assert _below(fs.find(f"{main}/put"), main) == ["put/one", "put/sub/two"]
    fs.get(f"{main}/put/", f"{tmp_path}/down/", recursive=True)
    assert (tmp_path / "down" / "one").read_text() == "1"
    assert (tmp_path / "down" / "sub" / "two").read_bytes() == bytes(range(256)) * 1000


def test_a_file_that_is_there_already_is_not_sent_again(
    fs: LakeFSFileSystem, main: str, repo: lakefs.Repository, tmp_path: Path
) -> None:
    (tmp_path / "same").write_text("same")
    fs.put_file(str(tmp_path / "same"), f"{main}/same", precheck=True)
    first = repo.branch("main").object("same").stat().physical_address
    fs.put_file(str(tmp_path / "same"), f"{main}/same", precheck=True)
    assert repo.branch("main").object("same").stat().physical_address == first, "known by its checksum"
    fs.put_file(str(tmp_path / "same"), f"{main}/same", precheck=False)
    assert repo.branch("main").object("same").stat().physical_address != first


def test_a_branch_is_made_when_it_is_written_to(
    fs: LakeFSFileSystem, tree: str, repo: lakefs.Repository
) -> None:
    fs.pipe_file(f"{repo.id}/fresh/a.txt", b"on a branch")
    assert fs.cat_file(f"{repo.id}/fresh/a.txt") == b"on a branch"
    assert fs.cat_file(f"{tree}/a.txt") == b"a.txt"
    assert {each.id for each in repo.branches()} == {"main", "fresh"}


def test_commits_and_tags_are_read_like_branches(
    fs: LakeFSFileSystem, tree: str, repo: lakefs.Repository
) -> None:
    commit = repo.branch("main").commit("first").get_commit().id
    repo.tag("v1").create("main")
    fs.pipe_file(f"{tree}/a.txt", b"changed")
    for ref in (commit, "v1", "main@"):
        assert fs.cat_file(f"{repo.id}/{ref}/a.txt") == b"a.txt"
    with pytest.raises(OSError, match=r".*"):
        fs.pipe_file(f"{repo.id}/{commit}/a.txt", b"no")


def test_a_transaction_is_merged_and_its_branch_is_gone(
    fs: LakeFSFileSystem, tree: str, repo: lakefs.Repository
) -> None:
    repo.branch("main").commit("before")
    with fs.transaction(repo.id, "main") as tx:
        fs.pipe_file(f"{repo.id}/{tx.branch.id}/t/one", b"1")
        fs.pipe_file(f"{repo.id}/{tx.branch.id}/t/two", b"2")
        tx.commit("both", metadata={"k": "v"})
        assert not fs.exists(f"{tree}/t/one")
    assert fs.cat_file(f"{tree}/t/two") == b"2"
    assert [each.id for each in repo.branches()] == ["main"]
    merged, both = list(repo.branch("main").log(max_amount=2))
    assert (both.message, both.metadata) == ("both", {"k": "v"})
    assert both.id in merged.parents


def test_a_transaction_reverts_tags_and_finds_commits(
    fs: LakeFSFileSystem, tree: str, repo: lakefs.Repository
) -> None:
    first = repo.branch("main").commit("first").get_commit()
    with fs.transaction(repo.id, "main") as tx:
        fs.pipe_file(f"{repo.id}/{tx.branch.id}/a.txt", b"wrong")
        wrong = tx.commit("wrong")
        assert tx.rev_parse(wrong).message == "wrong"
        tx.revert(tx.branch, wrong)
        tx.tag(first.id, "kept")
    assert fs.cat_file(f"{tree}/a.txt") == b"a.txt"
    assert repo.tag("kept").get_commit().id == first.id


def test_a_transaction_that_fails_leaves_nothing_on_its_base(
    fs: LakeFSFileSystem, tree: str, repo: lakefs.Repository
) -> None:
    repo.branch("main").commit("before")

    def fail() -> None:
        with fs.transaction(repo.id, "main", delete="always") as tx:
            fs.pipe_file(f"{repo.id}/{tx.branch.id}/a.txt", b"never")
            tx.commit("never")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert fs.cat_file(f"{tree}/a.txt") == b"a.txt"
    assert [each.id for each in repo.branches()] == ["main"]


def test_pandas_reads_and_writes(server: ServerProcess, main: str) -> None:
    frame = pd.DataFrame({"name": ["é", "b"], "number": [1, 2]})
    options = _options(server)
    frame.to_parquet(f"{main}/frame.parquet", storage_options=options)
    frame.to_csv(f"{main}/frame.csv", index=False, storage_options=options)
    assert pd.read_parquet(f"{main}/frame.parquet", storage_options=options).equals(frame)
    assert pd.read_csv(f"{main}/frame.csv", storage_options=options).equals(frame)


def test_fsspec_finds_it_by_its_protocol(server: ServerProcess, main: str) -> None:
    with fsspec.open(f"{main}/by-url", "wb", **_options(server)) as file:
        file.write(b"content")
    with fsspec.open(f"{main}/by-url", "rb", **_options(server)) as file:
        assert file.read() == b"content"
