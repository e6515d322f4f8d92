"""How numbers of things are told."""

from lakebed.model.words import counted


def test_a_noun_agrees_with_its_number() -> None:
    assert [counted(number, "object") for number in (0, 1, 2, 1000)] == [
        "0 objects",
        "1 object",
        "2 objects",
        "1,000 objects",
    ]
    assert [counted(number, "branch") for number in (1, 2)] == ["1 branch", "2 branches"]
    assert counted(2, "staged change") == "2 staged changes"
