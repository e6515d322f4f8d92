import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.auth.arns import (
    OWN_USER_ARN,
    arn_regex,
    branch_arn,
    group_arn,
    is_arn,
    namespace_arn,
    object_arn,
    policy_arn,
    repository_arn,
    tag_arn,
    user_arn,
)
from tests.unit.auth.naive import naive_arn_match


def stands_for(pattern: str, arn: str, *, user: str = "ann") -> bool:
    source = arn_regex(pattern, user=user)
    return source is not None and re.fullmatch(source, arn) is not None


def test_every_noun_has_the_arn_that_policies_expect() -> None:
    assert repository_arn("lake") == "arn:lakefs:fs:::repository/lake"
    assert object_arn("lake", "a/b:c") == "arn:lakefs:fs:::repository/lake/object/a/b:c"
    assert branch_arn("lake", "main") == "arn:lakefs:fs:::repository/lake/branch/main"
    assert tag_arn("lake", "v1") == "arn:lakefs:fs:::repository/lake/tag/v1"
    assert namespace_arn("s3://bucket/x") == "arn:lakefs:fs:::namespace/s3://bucket/x"
    assert user_arn("ann") == "arn:lakefs:auth:::user/ann"
    assert group_arn("Admins") == "arn:lakefs:auth:::group/Admins"
    assert policy_arn("P") == "arn:lakefs:auth:::policy/P"


@pytest.mark.parametrize(
    ("pattern", "arn", "expected"),
    [
        ("arn:lakefs:fs:::repository/lake", "arn:lakefs:fs:::repository/lake", True),
        ("arn:lakefs:fs:::repository/lake", "arn:lakefs:fs:::repository/lake2", False),
        ("arn:lakefs:fs:::repository/lake", "arn:lakefs:fs:::repository/lake/object/a", False),
        ("arn:lakefs:fs:::repository/lake/*", "arn:lakefs:fs:::repository/lake/object/a/b:c", True),
        ("arn:lakefs:fs:::repository/*/object/raw/*", "arn:lakefs:fs:::repository/x/object/raw/1", True),
        ("arn:lakefs:fs:::repository/*/object/raw/*", "arn:lakefs:fs:::repository/x/object/rows/1", False),
        ("arn:lakefs:fs:::repository/l?ke", "arn:lakefs:fs:::repository/lake", True),
        ("arn:lakefs:fs:::*", "arn:lakefs:auth:::user/ann", False),
        ("arn:lakefs:*:::x", "arn:lakefs:fs:::x", False),
        ("arn:lakefs:fs:eu::x", "arn:lakefs:fs:::x", True),
        ("arn:lakefs:fs::me:x", "arn:lakefs:fs:::x", False),
        ("arn:lakefs:fs:::*", "*", False),
        ("arn:lakefs:fs:::*", "arn:lakefs:fs:::", False),
        ("arn:aws:fs:::x", "arn:lakefs:fs:::x", False),
        ("nonsense", "nonsense", False),
    ],
)
def test_only_the_resource_of_an_arn_has_wildcards(pattern: str, arn: str, expected: bool) -> None:
    assert stands_for(pattern, arn) is expected
    assert naive_arn_match(pattern, arn) is expected


def test_the_variable_stands_for_the_user_and_nobody_else() -> None:
    assert stands_for(OWN_USER_ARN, user_arn("ann"), user="ann")
    assert not stands_for(OWN_USER_ARN, user_arn("bob"), user="ann")
    assert not stands_for(OWN_USER_ARN, user_arn("annXb"), user="ann.b")
    assert stands_for("arn:lakefs:fs:::repository/home-${user}-*", "arn:lakefs:fs:::repository/home-ann-1")


@pytest.mark.parametrize(
    "text", ["", "*", "arn", "arn:lakefs:fs", "arn:lakefs::::x", "arn:lakefs:fs:::", "urn:lakefs:fs:::x"]
)
def test_what_misses_a_part_is_no_arn(text: str) -> None:
    assert not is_arn(text)


parts = st.text(alphabet="af:*?/", max_size=6)


@given(parts, parts, st.sampled_from(["fs", "auth", ""]), st.sampled_from(["", "x"]))
def test_compiled_arns_match_what_naive_ones_do(
    pattern: str, resource: str, service: str, account: str
) -> None:
    for left, right in [
        (f"arn:lakefs:fs::{account}:{pattern}", f"arn:lakefs:{service}:::{resource}"),
        (f"arn:lakefs:{service}:{pattern}", f"arn:lakefs:fs:::{resource}"),
    ]:
        assert stands_for(left, right) == naive_arn_match(left, right)
