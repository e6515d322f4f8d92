"""The part of docs/compatibility.md that the table of differences by design makes: `python -m tests.contract.page` writes it."""

import re
from collections import Counter
from pathlib import Path
from typing import Final

from tests.contract.by_design import expected_places

PAGE: Final = Path(__file__).parents[2] / "docs" / "compatibility.md"
_LIST: Final = re.compile(r"(?<=<!-- by design -->\n)(?:- [^\n]+\n)*")


def with_differences(page: str) -> str:
    """Return the page with one line for each reason, the most frequent one first."""
    counts = Counter(expected_places().values())
    reasons = sorted(counts, key=lambda reason: (-counts[reason], reason))
    lines = "".join(f"- {reason[0].upper()}{reason[1:].removesuffix('.')}.\n" for reason in reasons)
    assert len(_LIST.findall(page)) == 1
    return _LIST.sub(lambda _: lines, page)


if __name__ == "__main__":
    PAGE.write_text(with_differences(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
