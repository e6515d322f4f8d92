"""The judge of the crash tests sees what it is there to see."""

import pytest

from tests.crash.history import History


def written(*operations: tuple[str, dict[str, str | None]]) -> History:
    history = History()
    for name, values in operations:
        history.write_begins(name, values)
        history.write_ends(name, acknowledged=True)
    return history


def test_an_acknowledged_write_that_is_gone_or_old_is_noticed() -> None:
    for found in ({}, {"a": "1"}):
        history = written(("first", {"a": "1"}), ("second", {"a": "2"}))
        with pytest.raises(AssertionError):
            history.check_branch(found)


def test_a_path_that_was_deleted_or_never_written_is_noticed() -> None:
    with pytest.raises(AssertionError):
        written(("put", {"a": "1"}), ("delete", {"a": None})).check_branch({"a": "1"})
    with pytest.raises(AssertionError):
        History().check_branch({"a": "1"})


def test_a_write_under_way_may_have_happened_or_not_but_not_in_part() -> None:
    for found in ({"a": "1", "b": "1"}, {}):
        history = written(("put", {"a": "1", "b": "1"}))
        history.write_begins("delete", {"a": None, "b": None})
        history.check_branch(found)
        history.check_branch(found)
    history = written(("put", {"a": "1", "b": "1"}))
    history.write_begins("delete", {"a": None, "b": None})
    with pytest.raises(AssertionError):
        history.check_branch({"a": "1"})


def test_a_commit_that_is_gone_twice_there_or_unheard_of_is_noticed() -> None:
    for log in ([], [("id", "c"), ("other", "c")], [("id", "c"), ("other", "who?")]):
        history = History()
        history.commit_begins("c")
        history.commit_ends("c", "id")
        with pytest.raises(AssertionError):
            history.check_log(log)


def test_a_commit_holds_what_was_acknowledged_before_it_began() -> None:
    history = written(("put", {"a": "1"}))
    history.commit_begins("c")
    history.write_begins("meanwhile", {"b": "2"})
    history.commit_ends("c", "id")
    history.write_begins("later", {"c": "3"})

    history.check_commit("id", {"a": "1"})
    history.check_commit("id", {"a": "1", "b": "2"})
    for found in ({"b": "2"}, {"a": "1", "c": "3"}):
        with pytest.raises(AssertionError):
            history.check_commit("id", found)
