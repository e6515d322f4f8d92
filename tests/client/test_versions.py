"""Branches, commits, merges, tags and transactions through the client."""

import pytest

from lakebed.client.client import Client
from lakebed.client.repo import Repo
from lakebed.errors import (
    AlreadyExistsError,
    ConflictError,
    DeniedError,
    ErrorKind,
    InvalidInputError,
    NotFoundError,
)
from lakebed.testing.server_process import ServerProcess

pytestmark = pytest.mark.server


@pytest.fixture
def filled(repo: Repo) -> Repo:
    """A repository whose `main` has one commit with one object, `a`."""
    repo.branch("main").write("a", "1")
    repo.branch("main").commit("First")
    return repo


def changes(found) -> list[tuple[str, str]]:
    return [(change.type, change.path) for change in found]


def test_a_repository_is_created_listed_and_deleted(client: Client, repo: Repo) -> None:
    assert repo.info().storage_namespace == f"local://{repo.name}"
    assert [each.id for each in client.repositories(prefix=repo.name)] == [repo.name]
    with pytest.raises(AlreadyExistsError):
        repo.create(f"local://{repo.name}-other")

    repo.delete()

    with pytest.raises(NotFoundError):
        repo.info()


def test_a_commit_holds_what_was_uncommitted(repo: Repo) -> None:
    main = repo.branch("main")
    main.write("a", "1")

    assert changes(main.uncommitted()) == [("added", "a")]
    made = main.commit("Add a", metadata={"by": "test"})

    assert list(main.uncommitted()) == []
    assert main.head() == made == repo.commit(made.id)
    assert (made.message, made.metadata) == ("Add a", {"by": "test"})


def test_a_commit_of_nothing_is_refused_unless_it_is_meant(filled: Repo) -> None:
    with pytest.raises(InvalidInputError):
        filled.branch("main").commit("Nothing")

    assert filled.branch("main").commit("Nothing", allow_empty=True).message == "Nothing"


def test_a_commit_takes_what_equals_the_committed_object_if_it_is_meant(filled: Repo) -> None:
    main = filled.branch("main")
    lost = main.stat("a").physical_address
    main.write("a", main.read("a"))
    with pytest.raises(InvalidInputError):
        main.commit("No change")
    assert main.stat("a").physical_address == lost

    main.write("a", main.read("a"))
    main.commit("Repair", take_staged=True)

    assert main.stat("a").physical_address != lost


def test_a_branch_sees_its_own_changes_until_it_is_merged(filled: Repo) -> None:
    main, fix = filled.branch("main"), filled.branch("fix")
    fix.create(main)
    fix.write("b", "2")
    fix.delete_object("a")
    fix.commit("Fix")

    assert changes(main.diff(fix)) == [("removed", "a"), ("added", "b")]
    merged = main.merge(fix, message="Take the fix")

    assert main.info().commit_id == merged
    assert [info.path for info in main.objects()] == ["b"]
    assert [commit.message for commit in main.log(first_parent=True, limit=2)] == ["Take the fix", "First"]
    assert main.merge_base(fix).base_commit_id == fix.info().commit_id


def test_a_conflict_is_told_and_settled_by_a_strategy(filled: Repo) -> None:
    main, fix = filled.branch("main"), filled.branch("fix")
    fix.create("main")
    for branch in (main, fix):
        branch.write("a", branch.name)
        branch.commit("Change a")

    with pytest.raises(ConflictError) as caught:
        main.merge(fix)
    assert caught.value.kind is ErrorKind.MERGE_CONFLICT

    main.merge(fix, strategy="source-wins")
    assert main.read("a") == b"fix"


def test_reset_revert_and_cherry_pick(filled: Repo) -> None:
    main = filled.branch("main")
    main.write("x", "")
    main.write("y/1", "")
    main.write("y/2", "")
    main.reset(path="x")
    assert changes(main.uncommitted()) == [("added", "y/1"), ("added", "y/2")]
    main.reset(prefix="y/")
    assert changes(main.uncommitted()) == []
    main.write("z", "")
    main.reset()
    assert changes(main.uncommitted()) == []

    main.revert("main")
    assert list(main.objects()) == []
    other = filled.branch("other")
    other.create("main")
    other.cherry_pick("main~1")
    assert [info.path for info in other.objects()] == ["a"]
    other.hard_reset("main")
    assert other.info().commit_id == main.info().commit_id


def test_a_tag_stays_where_it_was_put(filled: Repo) -> None:
    main, tag = filled.branch("main"), filled.tag("v1")
    tag.create("main")
    main.write("a", "2")
    main.commit("Second")

    assert tag.read("a") == b"1"
    assert [each.id for each in filled.tags()] == ["v1"]
    assert filled.ref("main~1").head().id == tag.info().commit_id
    tag.delete()
    assert list(filled.tags()) == []


def test_the_log_can_be_asked_about_one_object(filled: Repo) -> None:
    main = filled.branch("main")
    main.write("b", "")
    main.commit("Second")

    assert [commit.message for commit in main.log(objects=["a"])] == ["First"]
    assert [commit.message for commit in main.log(limit=1)] == ["Second"]


def test_a_transaction_becomes_one_commit(filled: Repo) -> None:
    main = filled.branch("main")

    with main.transaction("Add two", metadata={"job": "7"}) as tx:
        tx.write("b", "2")
        tx.write("c", "3")
        assert not main.exists("b")
        assert [each.id for each in filled.branches()] == ["main"]

    head = main.head()
    assert (head.message, head.metadata and head.metadata.get("job")) == ("Add two", "7")
    assert [info.path for info in main.objects()] == ["a", "b", "c"]
    assert changes(filled.ref("main~1").diff("main", two_dot=True)) == [("added", "b"), ("added", "c")]
    assert [each.id for each in filled.branches(show_hidden=True)] == ["main"]


def test_a_transaction_needs_no_message(filled: Repo) -> None:
    with filled.branch("main").transaction() as tx:
        tx.write("b", "2")

    assert filled.branch("main").head().message == "Transaction"


def test_a_transaction_that_raises_leaves_nothing(filled: Repo) -> None:
    main, before = filled.branch("main"), filled.branch("main").info()

    def fail() -> None:
        with main.transaction("Half") as tx:
            tx.write("b", "2")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()

    assert main.info() == before
    assert [info.path for info in main.objects()] == ["a"]
    assert [each.id for each in filled.branches(show_hidden=True)] == ["main"]


def test_a_transaction_that_changes_nothing_makes_no_commit(filled: Repo) -> None:
    before = filled.branch("main").info()

    with filled.branch("main").transaction("Nothing") as tx:
        assert tx.read("a") == b"1"

    assert filled.branch("main").info() == before


def test_a_transaction_that_meets_a_conflict_leaves_the_other_side_as_it_is(filled: Repo) -> None:
    main = filled.branch("main")

    def collide() -> None:
        with main.transaction("Mine") as tx:
            tx.write("a", "mine")
            main.write("a", "theirs")
            main.commit("Theirs")

    with pytest.raises(ConflictError):
        collide()

    assert main.read("a") == b"theirs"
    assert [each.id for each in filled.branches(show_hidden=True)] == ["main"]


def test_an_import_brings_in_what_lies_outside(repo: Repo, server: ServerProcess) -> None:
    folder = server.imports / repo.name
    (folder / "sub").mkdir(parents=True)
    (folder / "sub" / "x.csv").write_text("x")

    commit = repo.branch("main").start_import(f"local://{folder}/", "in/", message="Bring it").wait()

    assert commit.message == "Bring it"
    assert repo.ref(commit.id).read("in/sub/x.csv") == b"x"


def test_an_import_that_fails_says_why(repo: Repo) -> None:
    with pytest.raises((InvalidInputError, DeniedError)):
        repo.branch("main").start_import("local:///etc/", "in/").wait()


def test_the_kind_of_an_error_is_the_one_that_the_engine_raised(filled: Repo) -> None:
    with pytest.raises(InvalidInputError) as nothing:
        filled.branch("main").commit("Nothing")
    with pytest.raises(NotFoundError) as missing:
        filled.branch("nowhere").info()

    assert (nothing.value.kind, missing.value.kind) == (ErrorKind.NO_CHANGES, ErrorKind.BRANCH_NOT_FOUND)


def test_the_server_says_what_it_is(client: Client) -> None:
    info = client.server()

    assert info.storage_config.blockstore_type == "local"
    assert client.is_alive()
