"""What a process remembers of texts that clients send has a bound in bytes, not only in items."""

import ast
from pathlib import Path

import pytest

import lakebed
from lakebed.format.memo import memo
from lakebed.limits import MEMO_ITEMS_MAX, MEMO_TEXT_LENGTH_MAX

BOUNDED = {
    "http/dates.py:_second": "numbers",
    "kv/drivers/lmdb_keys.py:partition_prefix": "names of partitions, which the server chooses",
    "model/changed.py:_names": "classes of records",
    "model/ids.py:parse_branch_name": "an error for long names, which is not remembered",
    "model/ids.py:parse_repo_name": "an error for long names, which is not remembered",
    "objects/open_stores.py:__init__": "namespaces of repositories",
    "refs/protection.py:_regex": "an error for long patterns, which is not remembered",
    "server/asgi.py:_openapi": "one value",
}


def test_a_short_text_is_computed_once_and_a_long_one_each_time() -> None:
    asked: list[str] = []

    @memo
    def length(text: str) -> int:
        asked.append(text)
        return len(text)

    short, long = "a" * MEMO_TEXT_LENGTH_MAX, "a" * (MEMO_TEXT_LENGTH_MAX + 1)

    assert [length(short), length(short), length(long), length(long)] == [256, 256, 257, 257]
    assert asked == [short, long, long]


def test_the_oldest_text_makes_room() -> None:
    asked: list[str] = []

    @memo
    def same(text: str) -> str:
        asked.append(text)
        return text

    for number in range(MEMO_ITEMS_MAX + 1):
        same(str(number))
    asked.clear()

    assert [same("1"), same(str(MEMO_ITEMS_MAX)), same("0")] == ["1", str(MEMO_ITEMS_MAX), "0"]
    assert asked == ["0"]


def test_an_error_is_not_remembered() -> None:
    asked: list[bytes] = []

    @memo
    def refused(text: bytes) -> int:
        asked.append(text)
        return int(text)

    for _ in range(2):
        with pytest.raises(ValueError, match="invalid literal"):
            refused(b"x")

    assert asked == [b"x", b"x"]


def test_every_other_cache_of_the_package_has_a_known_bound() -> None:
    root = Path(lakebed.__file__).parent
    outside = ("testing", "spark", "client", "cli", "fs")
    files = [each for each in root.rglob("*.py") if each.relative_to(root).parts[0] not in outside]

    found = {f"{file.relative_to(root)}:{name}" for file in files for name in _cached(file)}

    assert found == BOUNDED.keys()


def _cached(file: Path) -> list[str]:
    """Return the functions of a module that are decorated with, or call, one of the caches of `functools`."""
    module = ast.parse(file.read_text())
    caches = {
        alias.name
        for each in module.body
        if isinstance(each, ast.ImportFrom) and each.module == "functools"
        for alias in each.names
        if "cache" in alias.name
    }
    return [
        function.name
        for function in ast.walk(module)
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        and any(isinstance(each, ast.Name) and each.id in caches for each in ast.walk(function))
    ]
