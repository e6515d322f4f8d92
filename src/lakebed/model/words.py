"""How numbers of things are told: `1 object`, `2 objects`, `1,000 branches`. Pure."""


def counted(number: int, noun: str) -> str:
    """Return a number and its noun, in the plural unless it is one; a noun of several words ends in the one that counts."""
    if number == 1:
        return f"1 {noun}"
    return f"{number:,} {noun}{'es' if noun.endswith('ch') else 's'}"
