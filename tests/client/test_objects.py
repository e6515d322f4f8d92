"""Objects through the client: bytes, files, conditions, copies, deletions."""

import gc
import io
from pathlib import Path

import pytest

from lakebed.client.repo import Repo
from lakebed.client.uploads import UploadOptions
from lakebed.errors import ConflictError, ErrorKind, InvalidInputError, NotFoundError, PreconditionError

pytestmark = pytest.mark.server


def test_what_is_written_is_read_and_described(repo: Repo) -> None:
    main = repo.branch("main")

    info = main.write("a/b.csv", "x,y\n", UploadOptions(metadata={"owner": "Zoë"}))

    assert main.read("a/b.csv") == b"x,y\n"
    assert main.stat("a/b.csv") == info
    assert (info.size_bytes, info.content_type, info.metadata) == (4, "text/csv", {"owner": "Zoë"})


def test_a_path_may_hold_any_character(repo: Repo) -> None:
    main = repo.branch("main")
    paths = ["a b", "a+b", "a%2Fb", "ü/☃", "a?b=c&d", "x/../y", "#"]

    for path in paths:
        main.write(path, path)

    assert [main.read(path).decode() for path in paths] == paths
    assert sorted(info.path for info in main.objects()) == sorted(paths)


def test_a_reader_seeks_and_reads_like_a_file(repo: Repo) -> None:
    data = bytes(range(256)) * 64
    main, model = repo.branch("main"), io.BytesIO(data)
    main.write("data", data)

    with main.open("data", buffer_bytes=1000) as file:
        for offset, whence, count in [(0, 0, 10), (-5, 2, 100), (300, 0, 5000), (-7, 1, 3), (0, 0, -1)]:
            assert file.seek(offset, whence) == model.seek(offset, whence)
            assert file.read(count) == model.read(count)
            assert file.tell() == model.tell()
        file.seek(10**9)
        assert file.read(5) == b""


def test_an_empty_object_reads_as_nothing(repo: Repo) -> None:
    repo.branch("main").write("empty", b"")

    with repo.ref("main").open("empty") as file:
        assert file.read() == b""


def test_text_is_written_and_read_line_by_line(repo: Repo) -> None:
    main = repo.branch("main")

    with main.open("notes", "w") as file:
        file.write("one\ntwø\n")

    with main.open("notes", "r") as file:
        assert list(file) == ["one\n", "twø\n"]


def test_a_missing_object_is_found_missing_when_it_is_opened(repo: Repo) -> None:
    with pytest.raises(NotFoundError):
        repo.ref("main").open("nothing")
    assert not repo.ref("main").exists("nothing")


def test_a_ref_that_is_no_branch_cannot_be_opened_for_writing(repo: Repo) -> None:
    with pytest.raises(InvalidInputError, match="'wb'"):
        repo.ref("main").open("a", "wb")


def test_an_object_that_changes_under_its_reader_is_never_mixed(repo: Repo) -> None:
    main = repo.branch("main")
    main.write("data", b"a" * 100)

    with main.open("data", buffer_bytes=10) as file:
        file.read(5)
        main.write("data", b"b" * 100)
        with pytest.raises(ConflictError) as caught:
            file.read()

    assert caught.value.kind is ErrorKind.VERSION_CHANGED


def test_a_writer_that_is_left_by_an_exception_writes_nothing(repo: Repo) -> None:
    main = repo.branch("main")

    def write_half(mode, half) -> None:
        with main.open("broken", mode) as file:
            file.write(half)
            raise ZeroDivisionError

    for mode, half in (("wb", b"half"), ("w", "half")):
        with pytest.raises(ZeroDivisionError):
            write_half(mode, half)

    assert not main.exists("broken")


def test_a_writer_that_is_forgotten_writes_nothing(repo: Repo) -> None:
    main = repo.branch("main")

    main.open("forgotten", "wb").write(b"half")
    main.open("forgotten", "w").write("half")
    gc.collect()

    assert not main.exists("forgotten")


def test_a_writer_may_go_back_and_change_what_it_wrote(repo: Repo) -> None:
    main = repo.branch("main")

    with main.open("data", "wb") as file:
        file.write(b"....body")
        file.seek(0)
        file.write(b"head")

    assert main.read("data") == b"headbody"


def test_exclusive_writing_keeps_the_object_that_is_there(repo: Repo) -> None:
    main = repo.branch("main")
    main.write("once", b"first")

    with pytest.raises(PreconditionError), main.open("once", "xb") as file:
        file.write(b"second")

    assert main.read("once") == b"first"


def test_a_write_over_a_checksum_loses_to_an_earlier_one(repo: Repo) -> None:
    main = repo.branch("main")
    seen = main.write("data", b"1").checksum
    main.write("data", b"2", UploadOptions(if_checksum=seen))

    with pytest.raises(PreconditionError):
        main.write("data", b"3", UploadOptions(if_checksum=seen))

    assert main.read("data") == b"2"


def test_metadata_that_no_header_can_carry_is_refused_before_anything_is_sent(repo: Repo) -> None:
    with pytest.raises(InvalidInputError, match="set_metadata"):
        repo.branch("main").write("a", b"", UploadOptions(metadata={"Key": "value"}))
    with pytest.raises(InvalidInputError):
        repo.branch("main").write("a", b"", UploadOptions(metadata={"key": "a\nb: c"}))


def test_metadata_can_be_replaced_later(repo: Repo) -> None:
    main = repo.branch("main")
    main.write("a", b"", UploadOptions(metadata={"old": "1"}))

    main.set_metadata("a", {"New Key": "2"})

    assert main.stat("a").metadata == {"New Key": "2"}


def test_a_large_file_survives_the_round_trip(repo: Repo, tmp_path: Path) -> None:
    data = b"".join(i.to_bytes(4) for i in range(5_000_000))
    (tmp_path / "big").write_bytes(data)
    main, seen = repo.branch("main"), []

    main.upload("big", tmp_path / "big", on_bytes=seen.append)
    main.download("big", tmp_path / "back")

    assert sum(seen) == len(data)
    assert (tmp_path / "back").read_bytes() == data


def test_an_upload_to_a_branch_that_is_not_there_says_so(repo: Repo) -> None:
    with pytest.raises(NotFoundError):
        repo.branch("nowhere").write("a", b"x" * 3_000_000)


@pytest.mark.parametrize("shallow", [True, False])
def test_a_copy_has_the_same_content_and_outlives_its_source(repo: Repo, shallow: bool) -> None:
    main = repo.branch("main")
    main.write("from", b"data")

    main.copy("from", "to", shallow=shallow)
    main.delete_object("from")

    assert main.read("to") == b"data"
    assert not main.exists("from")


def test_many_objects_are_deleted_and_missing_ones_do_not_matter(repo: Repo) -> None:
    main = repo.branch("main")
    for name in "abc":
        main.write(name, name)

    main.delete_objects(["a", "c", *(f"missing-{i}" for i in range(1500))])

    assert [info.path for info in main.objects()] == ["b"]


def test_objects_are_listed_in_folders_and_page_by_page(repo: Repo) -> None:
    main = repo.branch("main")
    for path in ("a/1", "a/2", "b", "c/1"):
        main.write(path, path)

    folded = [(info.path, info.is_prefix) for info in main.objects(delimiter="/")]

    assert folded == [("a/", True), ("b", False), ("c/", True)]
    assert [info.path for info in main.objects("a/")] == ["a/1", "a/2"]
    assert [info.path for info in main.objects(limit=3)] == ["a/1", "a/2", "b"]
    assert [info.path for info in main.objects(after="a/2")] == ["b", "c/1"]
