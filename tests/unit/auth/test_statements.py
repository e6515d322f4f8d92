from dataclasses import replace

import pytest

from lakebed.auth.actions import Action, is_action_pattern
from lakebed.auth.statements import StatementDocument, parse_statements, split_resources
from lakebed.errors import ErrorKind, InvalidInputError
from lakebed.limits import POLICY_CHARACTERS_MAX
from lakebed.model.auth import Effect, Statement
from tests.unit.auth.world import allow

GOOD = allow("fs:ReadObject", resource="arn:lakefs:fs:::repository/lake/*")


@pytest.mark.parametrize(
    ("resource", "expected"),
    [
        ("*", ("*",)),
        ("arn:lakefs:fs:::a", ("arn:lakefs:fs:::a",)),
        ("arn:lakefs:fs:::a,b", ("arn:lakefs:fs:::a,b",)),
        ('["arn:lakefs:fs:::a", "arn:lakefs:fs:::b,c"]', ("arn:lakefs:fs:::a", "arn:lakefs:fs:::b,c")),
        ("[arn:lakefs:fs:::a,arn:lakefs:fs:::b]", ("arn:lakefs:fs:::a", "arn:lakefs:fs:::b")),
        (r" [ arn:lakefs:fs:::a\,b , * ] ", ("arn:lakefs:fs:::a,b", "*")),
        ("[]", ()),
    ],
)
def test_a_resource_is_one_arn_or_a_list_of_them(resource: str, expected: tuple[str, ...]) -> None:
    assert split_resources(resource) == expected


def test_a_statement_keeps_what_its_author_wrote() -> None:
    document = StatementDocument(effect="deny", action=["fs:*", "ci:Read*"], resource='["*"]')
    assert parse_statements([document]) == (
        Statement(effect=Effect.DENY, actions=("fs:*", "ci:Read*"), resource='["*"]'),
    )


@pytest.mark.parametrize(
    ("bad", "field"),
    [
        (replace(GOOD, effect="Allow"), r"statement\[1\]\.effect: "),
        (replace(GOOD, effect=""), r"statement\[1\]\.effect: "),
        (replace(GOOD, action=[]), r"statement\[1\]\.action: "),
        (replace(GOOD, action=["fs:ReadObject", "read"]), r"statement\[1\]\.action\[1\]: "),
        (replace(GOOD, action=["s3:GetObject"]), r"statement\[1\]\.action\[0\]: "),
        (replace(GOOD, action=["fs:Read Object"]), r"statement\[1\]\.action\[0\]: "),
        (replace(GOOD, resource=""), r"statement\[1\]\.resource: "),
        (replace(GOOD, resource="lake"), r"statement\[1\]\.resource: 'lake'"),
        (replace(GOOD, resource="[]"), r"statement\[1\]\.resource: "),
        (replace(GOOD, resource='["*", "lake"]'), r"statement\[1\]\.resource: 'lake'"),
        (
            replace(GOOD, condition={"IpAddress": {"SourceIp": ["10.0.0.0/8"]}}),
            r"statement\[1\]\.condition: .* not supported",
        ),
    ],
)
def test_a_bad_statement_is_refused_and_the_message_names_the_field(
    bad: StatementDocument, field: str
) -> None:
    with pytest.raises(InvalidInputError, match=field) as caught:
        parse_statements([GOOD, bad])
    assert caught.value.kind is ErrorKind.INVALID_POLICY


def test_a_policy_without_statements_or_with_too_much_text_is_refused() -> None:
    with pytest.raises(InvalidInputError, match=r"^statement: "):
        parse_statements([])
    with pytest.raises(InvalidInputError, match=r"^statement: "):
        parse_statements([replace(GOOD, resource="arn:lakefs:fs:::" + "x" * POLICY_CHARACTERS_MAX)])


def test_an_empty_condition_is_none() -> None:
    assert parse_statements([replace(GOOD, condition={})]) == parse_statements([GOOD])


def test_every_action_and_actions_of_the_future_may_be_named() -> None:
    assert all(map(is_action_pattern, Action))
    assert is_action_pattern("catalog:ReadTable")
    assert is_action_pattern("fs:WhatComesLater")
    assert is_action_pattern("*")
