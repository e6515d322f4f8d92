"""What an `x-amz-copy-source` header names."""

import pytest

from lakebed.s3.copies import parse_source


@pytest.mark.parametrize(
    ("header", "path"),
    [
        ("lake/main/a%20b%2Bc", "a b+c"),
        ("/lake/main/a%20b%2Bc", "a b+c"),
        # s5cmd escapes as forms do, and so Amazon reads it: a plus is a space.
        ("lake%2Fmain%2Fa+b%2Bc", "a b+c"),
        ("lake/main/%C3%BC/%E2%98%83?versionId=null", "ü/☃"),
    ],
)
def test_a_source_is_unescaped_as_amazon_does_it(header: str, path: str) -> None:
    source = parse_source(header)

    assert (source.repo_name, source.ref, source.path) == ("lake", "main", path)
