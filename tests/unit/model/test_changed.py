"""A changed record is what `dataclasses.replace` makes of it."""

from dataclasses import replace

import pytest

from lakebed.env.clock import Instant
from lakebed.model.branch import Branch
from lakebed.model.changed import changed
from lakebed.model.ids import BranchName, CommitId, Nonce

BRANCH = Branch(
    name=BranchName("main"),
    incarnation=Nonce("n"),
    commit_id=CommitId("c"),
    tentative=True,
    created_by=Nonce("n"),
    updated_at=Instant(1),
)


def test_every_other_field_stays() -> None:
    assert changed(BRANCH, tentative=False, updated_at=Instant(2)) == replace(
        BRANCH, tentative=False, updated_at=Instant(2)
    )


def test_a_field_that_is_none_is_refused() -> None:
    with pytest.raises(TypeError, match="nothing"):
        changed(BRANCH, nothing=1)
