"""docs/compatibility.md tells every difference by design."""

from tests.contract.page import PAGE, with_differences


def test_the_page_has_the_reasons_of_the_table() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page == with_differences(page), "run python -m tests.contract.page"
