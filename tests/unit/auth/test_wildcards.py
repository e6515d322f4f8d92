import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lakebed.auth.wildcards import matches
from tests.unit.auth.naive import naive_match

patterns = st.text(alphabet="ab*?/.\n", max_size=8)
texts = st.text(alphabet="ab*?/.\n", max_size=10)


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        ("", "", True),
        ("", "a", False),
        ("*", "", True),
        ("*", "any/thing\nat all", True),
        ("a*", "a", True),
        ("a*c", "abbbc", True),
        ("a*c", "abbb", False),
        ("?", "x", True),
        ("?", "", False),
        ("?", "xy", False),
        ("fs:Read*", "fs:ReadObject", True),
        ("fs:Read*", "fs:WriteObject", False),
        ("a.c", "abc", False),
        ("[ab]", "a", False),
        ("*ab*ab", "abab", True),
        ("*ab*ab", "ab", False),
    ],
)
def test_a_star_is_any_text_and_a_question_mark_one_character(
    pattern: str, text: str, expected: bool
) -> None:
    assert matches(pattern, text) is expected


@given(patterns, texts)
@example("*a?*b", "aab")
def test_compiled_patterns_match_what_naive_ones_do(pattern: str, text: str) -> None:
    assert matches(pattern, text) == naive_match(pattern, text)


def test_no_pattern_takes_for_ever() -> None:
    assert not matches("*a" * 40 + "b", "a" * 20_000)
    assert matches("*a" * 40, "a" * 20_000)
