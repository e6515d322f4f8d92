"""What people do with the `lakefs` package, against a server of ours."""

from collections.abc import Iterator
from datetime import timedelta

import lakefs
import pytest
from lakefs.exceptions import (
    BadRequestException,
    ConflictException,
    LakeFSException,
    NotAuthorizedException,
    NotFoundException,
    ObjectExistsException,
    ObjectNotFoundException,
    TransactionException,
)

from lakebed.testing.server_process import ServerProcess
from tests.api.clients import fresh_name, fresh_repository, high_level

pytestmark = [pytest.mark.server, pytest.mark.xdist_group("server")]


@pytest.fixture
def repo(server: ServerProcess) -> Iterator[lakefs.Repository]:
    """An empty repository."""
    yield from fresh_repository(server)


@pytest.fixture
def main(repo: lakefs.Repository) -> lakefs.Branch:
    """The default branch of an empty repository."""
    return repo.branch("main")


def _put(branch: lakefs.Branch, **objects: str) -> None:
    for path, content in objects.items():
        branch.object(path).upload(data=content)


def _paths(ref: lakefs.Reference, **query: object) -> list[str]:
    return [each.path for each in ref.objects(**query)]


def test_a_repository_is_made_once_and_listed(server: ServerProcess, repo: lakefs.Repository) -> None:
    assert repo.id in [each.id for each in lakefs.repositories(client=high_level(server))]
    assert repo.properties.default_branch == "main"
    with pytest.raises(ConflictException):
        lakefs.Repository(repo.id, client=high_level(server)).create("local://elsewhere")
    repo.create("local://elsewhere", exist_ok=True)


def test_a_repository_that_is_not_there_is_not_found(server: ServerProcess) -> None:
    with pytest.raises(NotFoundException):
        lakefs.Repository("nowhere", client=high_level(server)).delete()


def test_a_wrong_secret_is_nobody(server: ServerProcess) -> None:
    client = lakefs.client.Client(
        host=f"{server.endpoint}/api/v1", username=server.access_key, password="wrong"
    )
    with pytest.raises(NotAuthorizedException, match="error authenticating request"):
        list(lakefs.repositories(client=client))


def test_objects_come_back_as_they_went_in(main: lakefs.Branch) -> None:
    content = bytes(range(256)) * 8000
    main.object("bin").upload(data=content, mode="wb", content_type="image/png", metadata={"k": "v"})
    stat = main.object("bin").stat()
    assert (stat.size_bytes, stat.content_type, stat.metadata) == (len(content), "image/png", {"k": "v"})
    with main.object("bin").reader(mode="rb") as reader:
        assert reader.read(10) == content[:10]
        reader.seek(1_000_000)
        assert reader.read(5) == content[1_000_000:1_000_005]
        reader.seek(0)
        assert reader.read() == content


def test_a_writer_writes_when_it_is_closed(main: lakefs.Branch) -> None:
    with main.object("text").writer(mode="w", content_type="text/plain") as writer:
        writer.write("hello ")
        writer.write("world")
    with main.object("text").reader(mode="r") as reader:
        assert reader.read() == "hello world"


def test_exclusive_creation_happens_once(main: lakefs.Branch) -> None:
    main.object("once").upload(data="1", mode="x")
    with pytest.raises(ObjectExistsException):
        main.object("once").upload(data="2", mode="x")


def test_a_missing_object_is_not_found_and_deleting_it_is_no_error(main: lakefs.Branch) -> None:
    assert not main.object("none").exists()
    with pytest.raises(ObjectNotFoundException):
        main.object("none").stat()
    main.object("none").delete()


def test_many_objects_are_deleted_at_once(main: lakefs.Branch) -> None:
    _put(main, a="1", b="2", c="3")
    main.delete_objects(["a", "b", "none"])
    assert _paths(main) == ["c"]


def test_a_copy_is_the_same_object_elsewhere(repo: lakefs.Repository, main: lakefs.Branch) -> None:
    _put(main, a="1")
    main.commit("first")
    other = repo.branch("other").create("main")
    main.object("a").copy("other", "b/c")
    with other.object("b/c").reader(mode="r") as reader:
        assert reader.read() == "1"


def test_listing_folds_folders_and_turns_pages(main: lakefs.Branch) -> None:
    _put(main, **{"a/1": "", "a/2": "", "b/1": "", "c": ""})
    assert _paths(main, delimiter="/") == ["a/", "b/", "c"]
    assert _paths(main, prefix="a/") == ["a/1", "a/2"]
    assert _paths(main, after="a/1") == ["a/2", "b/1", "c"]
    assert _paths(main, max_amount=2) == ["a/1", "a/2"]


def test_odd_paths_stay_what_they_are(main: lakefs.Branch) -> None:
    odd = ["a//b", "a b", "a%2Fb", "ü/é", "a+b&c=d", "../up", "trailing/", "#?"]
    for path in odd:
        main.object(path).upload(data=path)
    assert sorted(_paths(main)) == sorted(odd)
    for path in odd:
        with main.object(path).reader(mode="r") as reader:
            assert reader.read() == path


def test_commits_have_messages_metadata_and_a_history(main: lakefs.Branch) -> None:
    _put(main, a="1")
    first = main.commit("first", metadata={"why": "test"}).get_commit()
    _put(main, a="2")
    second = main.commit("second").get_commit()
    assert (first.message, first.metadata, first.committer) == ("first", {"why": "test"}, "admin")
    assert second.parents == [first.id]
    assert [each.message for each in main.log()] == ["second", "first", "Repository created"]
    assert [each.message for each in main.log(max_amount=1)] == ["second"]
    assert [each.message for each in main.log(objects=["none"])] == []


def test_an_empty_commit_is_refused(main: lakefs.Branch) -> None:
    with pytest.raises(BadRequestException):
        main.commit("nothing")
    main.commit("nothing, on purpose", allow_empty=True)


def test_uncommitted_changes_are_shown_and_reset(main: lakefs.Branch) -> None:
    _put(main, a="1", b="1")
    main.commit("first")
    _put(main, a="2", c="1")
    main.object("b").delete()
    assert [(each.type, each.path) for each in main.uncommitted()] == [
        ("changed", "a"),
        ("removed", "b"),
        ("added", "c"),
    ]
    main.reset_changes("object", "a")
    assert [each.path for each in main.uncommitted()] == ["b", "c"]
    main.reset_changes()
    assert list(main.uncommitted()) == []


def test_a_branch_is_merged_once(repo: lakefs.Repository, main: lakefs.Branch) -> None:
    _put(main, a="1")
    main.commit("first")
    feature = repo.branch("feature").create("main")
    _put(feature, b="2")
    feature.commit("second")
    assert [(each.type, each.path) for each in main.diff("feature")] == [("added", "b")]
    merged = feature.merge_into("main")
    assert repo.commit(merged).get_commit().message == "Merge 'feature' into 'main'"
    assert _paths(main) == ["a", "b"]
    with pytest.raises(BadRequestException):
        feature.merge_into("main")


def test_a_conflict_is_409_and_a_strategy_settles_it(repo: lakefs.Repository, main: lakefs.Branch) -> None:
    _put(main, a="base")
    main.commit("first")
    feature = repo.branch("feature").create("main")
    _put(feature, a="theirs")
    feature.commit("theirs")
    _put(main, a="ours")
    main.commit("ours")
    with pytest.raises(ConflictException) as refused:
        feature.merge_into("main")
    assert refused.value.body == {"reference": ""}
    feature.merge_into("main", strategy="source-wins")
    with main.object("a").reader(mode="r") as reader:
        assert reader.read() == "theirs"


def test_a_commit_is_reverted_and_picked(repo: lakefs.Repository, main: lakefs.Branch) -> None:
    _put(main, a="1")
    main.commit("first")
    other = repo.branch("other").create("main")
    _put(main, b="2")
    second = main.commit("second")
    main.revert(second)
    assert _paths(main) == ["a"]
    picked = other.cherry_pick(second)
    assert picked.message == "second"
    assert _paths(other) == ["a", "b"]


def test_tags_name_commits(repo: lakefs.Repository, main: lakefs.Branch) -> None:
    _put(main, a="1")
    first = main.commit("first")
    repo.tag("v1").create("main")
    assert repo.tag("v1").get_commit().id == first.get_commit().id
    assert [each.id for each in repo.tags()] == ["v1"]
    with pytest.raises(ConflictException):
        repo.tag("v1").create("main")
    repo.tag("v1").delete()
    assert list(repo.tags()) == []


def test_branches_are_listed_in_pages(repo: lakefs.Repository) -> None:
    for name in ("b1", "b2", "b3"):
        repo.branch(name).create("main")
    assert [each.id for each in repo.branches()] == ["b1", "b2", "b3", "main"]
    assert [each.id for each in repo.branches(after="b1", max_amount=1)] == ["b2"]
    repo.branch("b2").delete()
    assert [each.id for each in repo.branches(prefix="b")] == ["b1", "b3"]


def test_a_transaction_shows_all_or_nothing(repo: lakefs.Repository, main: lakefs.Branch) -> None:
    with main.transact(commit_message="both") as tx:
        tx.object("a").upload(data="1")
        tx.object("b").upload(data="2")
        assert [each.id for each in repo.branches()] == ["main"], "its branch is hidden"
        assert _paths(main) == []
    assert _paths(main) == ["a", "b"]
    assert [each.id for each in repo.branches(show_hidden=True)] == ["main"]


def test_a_transaction_that_fails_leaves_nothing(repo: lakefs.Repository, main: lakefs.Branch) -> None:
    def fail() -> None:
        with main.transact(commit_message="never") as tx:
            tx.object("a").upload(data="1")
            raise RuntimeError

    with pytest.raises((TransactionException, RuntimeError)):
        fail()
    assert _paths(main) == []


def test_files_are_imported_without_being_copied(server: ServerProcess, main: lakefs.Branch) -> None:
    folder = server.imports / fresh_name("files")
    (folder / "sub").mkdir(parents=True)
    (folder / "one").write_text("1")
    (folder / "sub" / "two").write_text("2")
    importer = main.import_data("imported").prefix(f"local://{folder}/", destination="in/")
    status = importer.run(poll_interval=timedelta(milliseconds=50))
    assert (status.ingested_objects, status.commit.message) == (2, "imported")
    assert _paths(main) == ["in/one", "in/sub/two"]
    with main.object("in/sub/two").reader(mode="r") as reader:
        assert reader.read() == "2"


def test_what_lies_outside_the_import_folders_stays_outside(main: lakefs.Branch) -> None:
    with pytest.raises(LakeFSException):
        main.import_data("stolen").object("local:///etc/passwd", destination="x").run()


def test_an_import_is_started_waited_for_and_cancelled(server: ServerProcess, main: lakefs.Branch) -> None:
    folder = server.imports / fresh_name("files")
    folder.mkdir(parents=True)
    (folder / "one").write_text("1")
    importer = main.import_data("imported", metadata={"k": "v"}).object(
        f"local://{folder}/one", destination="in/one"
    )
    assert importer.start() == importer.import_id
    done = importer.wait(poll_interval=timedelta(milliseconds=50))
    assert (done.completed, done.ingested_objects, done.commit.metadata["k"]) == (True, 1, "v")
    assert importer.status().completed
    with pytest.raises(ConflictException):
        importer.cancel()


def test_a_branch_knows_its_head(main: lakefs.Branch) -> None:
    _put(main, a="1")
    commit = main.commit("first").get_commit()
    assert main.head.get_commit().id == commit.id == main.get_commit().id
    assert main.repo_id == main.object("a").repo


def test_a_transaction_has_metadata_and_a_tag(repo: lakefs.Repository, main: lakefs.Branch) -> None:
    with main.transact(commit_message="tagged", commit_metadata={"k": "v"}, tag="v1") as tx:
        tx.object("a").upload(data="1")
    assert [each.path for each in repo.tag("v1").objects()] == ["a"]
    assert {"k": "v"}.items() <= next(c for c in main.log() if c.message == "tagged").metadata.items()


def test_a_writer_that_is_discarded_writes_nothing(main: lakefs.Branch) -> None:
    writer = main.object("never").writer(mode="w")
    writer.write("content")
    writer.discard()
    assert not main.object("never").exists()


def test_lines_are_read_one_by_one(main: lakefs.Branch) -> None:
    main.object("lines").upload(data="one\ntwo\nthree")
    with main.object("lines").reader(mode="r") as reader:
        assert list(reader) == ["one\n", "two\n", "three"]
    with main.object("lines").reader(mode="rb") as reader:
        assert reader.readline() == b"one\n"
        assert reader.tell() == 4
        assert reader.readline() == b"two\n"


def test_a_merge_is_reverted_by_its_parent(repo: lakefs.Repository, main: lakefs.Branch) -> None:
    _put(main, a="1")
    main.commit("first")
    feature = repo.branch("feature").create("main")
    _put(feature, b="2")
    feature.commit("second")
    merged = feature.merge_into("main")
    with pytest.raises(LakeFSException):
        main.revert(merged)
    main.revert(merged, parent_number=1)
    assert _paths(main) == ["a"]


def test_a_diff_is_narrowed_and_folded(repo: lakefs.Repository, main: lakefs.Branch) -> None:
    _put(main, a="1")
    main.commit("first")
    feature = repo.branch("feature").create("main")
    _put(feature, **{"d/1": "", "d/2": "", "e": ""})
    feature.commit("second")
    assert [each.path for each in main.diff(feature, prefix="d/")] == ["d/1", "d/2"]
    assert [each.path for each in main.diff(feature, after="d/1")] == ["d/2", "e"]
    assert [(each.path, each.path_type) for each in main.diff(feature, delimiter="/")] == [
        ("d/", "common_prefix"),
        ("e", "object"),
    ]
    assert [each.path for each in main.diff(feature, max_amount=1)] == ["d/1"]


def test_a_log_stops_where_it_is_told(main: lakefs.Branch) -> None:
    for name in ("one", "two", "three"):
        _put(main, **{name: name})
        main.commit(name)
    two = next(each for each in main.log() if each.message == "two")
    assert [each.message for each in main.log(stop_at=two.id)] == ["three", "two"]
    assert [each.message for each in main.log(objects=["two"])] == ["two"]
    assert [each.message for each in main.log(prefixes=["t"])] == ["three", "two"]
    assert [each.message for each in main.log(first_parent=True, limit=True, max_amount=1)] == ["three"]


def test_metadata_of_a_repository_is_read(repo: lakefs.Repository) -> None:
    assert repo.metadata == {}
