"""Names of things."""

import pytest

from lakebed.client.uri import Uri, parse_object, parse_other_ref, parse_ref, parse_repo, parse_uri
from lakebed.errors import InvalidInputError


@pytest.mark.parametrize("scheme", ["", "lakebed://", "lakefs://"])
def test_a_name_is_the_same_with_and_without_its_scheme(scheme: str) -> None:
    assert parse_uri(f"{scheme}repo/main/a/b") == Uri("repo", "main", "a/b")
    assert str(parse_uri(f"{scheme}repo/main/a/b")) == "lakebed://repo/main/a/b"
    assert parse_repo(f"{scheme}repo") == "repo"


def test_a_path_may_hold_what_looks_like_a_scheme() -> None:
    assert parse_uri("lakebed://repo/main/s3://x").path == "s3://x"
    assert parse_uri("repo/main/s3://x").path == "s3://x"


@pytest.mark.parametrize(
    ("parse", "text"),
    [
        (parse_uri, "s3://bucket/key"),
        (parse_uri, "lakebed://"),
        (parse_uri, "/repo"),
        (parse_repo, "repo/main"),
        (parse_ref, "repo"),
        (parse_ref, "repo/main/path"),
        (parse_object, "repo/main"),
    ],
)
def test_a_name_of_the_wrong_kind_is_refused(parse, text: str) -> None:
    with pytest.raises(InvalidInputError, match=r"lakebed://|names"):
        parse(text)


def test_a_second_ref_is_of_the_same_repository() -> None:
    assert parse_other_ref("dev", "repo") == "dev"
    assert parse_other_ref("lakebed://repo/dev", "repo") == "dev"
    with pytest.raises(InvalidInputError):
        parse_other_ref("lakebed://other/dev", "repo")
