"""The names of downloads."""

import pytest

from lakebed.objects.disposition import attachment


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("", "attachment"),
        ("a.csv", "attachment; filename=a.csv"),
        ("z z.txt", 'attachment; filename="z z.txt"'),
        ('say "hi"\\', r'attachment; filename="say \"hi\"\\"'),
        ("é.csv", "attachment; filename*=utf-8''%C3%A9.csv"),
        ("a\r\nx: y", "attachment; filename*=utf-8''a%0D%0Ax%3A%20y"),
    ],
)
def test_a_download_is_named(name: str, value: str) -> None:
    assert attachment(name) == value
