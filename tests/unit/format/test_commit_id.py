from typing import Any

import pytest

from lakebed.format.commit_id import commit_id
from lakebed.format.tree_names import hash_of, tree_file_name
from lakebed.model.ids import EMPTY_TREE, CommitId, MetarangeId, Nonce, is_commit_id

FIELDS: dict[str, Any] = {
    "committer": "ada",
    "message": "first ✓",
    "tree": MetarangeId("ab-cd"),
    "date": 1_700_000_000,
    "metadata": {"k": "v", "a": "b"},
    "parents": (CommitId("1" * 64),),
    "nonce": Nonce("n"),
}


def test_the_id_of_a_known_commit_never_changes() -> None:
    assert commit_id(**FIELDS) == GOLDEN


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("committer", "bob"),
        ("message", "second"),
        ("tree", "ac-cd"),
        ("date", -1),
        ("metadata", {"k": "v"}),
        ("metadata", {"k": "v", "ab": ""}),
        ("parents", ()),
        ("parents", (CommitId("1" * 64), CommitId("2" * 64))),
        ("nonce", "m"),
    ],
)
def test_every_field_counts(field: str, value: Any) -> None:
    changed = commit_id(**{**FIELDS, field: value})
    assert is_commit_id(changed)
    assert changed != commit_id(**FIELDS)


def test_the_order_of_parents_counts_and_that_of_metadata_does_not() -> None:
    parents = (CommitId("1" * 64), CommitId("2" * 64))
    one = commit_id(**{**FIELDS, "parents": parents})
    assert one != commit_id(**{**FIELDS, "parents": parents[::-1]})
    assert commit_id(**{**FIELDS, "metadata": {"a": "b", "k": "v"}}) == commit_id(**FIELDS)


def test_the_nonce_in_a_trees_file_name_does_not_count() -> None:
    assert commit_id(**{**FIELDS, "tree": MetarangeId("ab-other")}) == commit_id(**FIELDS)
    named = [MetarangeId(tree_file_name("ab" * 32, nonce)) for nonce in ("one", "other")]
    assert named[0] != named[1]
    assert commit_id(**{**FIELDS, "tree": named[0]}) == commit_id(**{**FIELDS, "tree": named[1]})
    assert hash_of(EMPTY_TREE) == ""


def test_text_cannot_move_from_one_field_to_the_next() -> None:
    one = commit_id(**{**FIELDS, "committer": "ab", "message": "c"})
    assert one != commit_id(**{**FIELDS, "committer": "a", "message": "bc"})


GOLDEN = "48ad52967e2b2d5c712c00291a1c6607232d0488b8772b6ea173eda9dc2dc34f"
