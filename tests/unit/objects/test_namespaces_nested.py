import pytest

from lakebed.errors import InvalidInputError
from lakebed.objects.namespaces import normalise_namespace, overlap, places_above


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("s3://bucket", "s3://bucket"),
        ("s3://bucket/", "s3://bucket"),
        ("local://name", "local://name"),
        ("local:///abs/folder/", "local:///abs/folder"),
    ],
)
def test_a_namespace_has_one_spelling(text: str, normal: str) -> None:
    assert normalise_namespace(text) == normal


@pytest.mark.parametrize(
    "text",
    ["", "bucket", "s3:/bucket", "S3://b", "local:///", "s3://b/./c", "s3://b//c", "s3://b?x", "s3://b/a\n"],
)
def test_what_is_no_namespace_is_refused(text: str) -> None:
    with pytest.raises(InvalidInputError):
        normalise_namespace(text)


def test_namespaces_clash_if_one_holds_the_other() -> None:
    assert overlap("s3://b/a", "s3://b/a")
    assert overlap("s3://b", "s3://b/a")
    assert overlap("s3://b/a/c", "s3://b/a")
    assert not overlap("s3://b/a", "s3://b/ab")
    assert not overlap("s3://b/a", "gs://b/a")


def test_namespaces_above_end_at_the_bucket() -> None:
    assert places_above("s3://b/x/y") == ["s3://b/x", "s3://b"]
    assert places_above("s3://b") == []
    assert places_above("local:///x/y") == ["local:///x"]
    assert places_above("local:///x") == []
