"""Numbers in queries, headers and paths: as many ASCII digits as the largest one has, and no other form of a number."""


def whole_number(text: str, *, most: int) -> int | None:
    """Return the number that `text` is, or None if it is none from 0 to `most`. Any length of text is safe.

    >>> whole_number("0042", most=10_000), whole_number("²", most=9), whole_number("9" * 5_000, most=9)
    (42, None, None)
    """
    if not (text.isascii() and text.isdigit()) or len(text) > len(str(most)):
        return None
    number = int(text)
    return number if number <= most else None
