import pytest

from lakebed.errors import ErrorKind, InvalidInputError
from lakebed.refs.expressions import RefExpression, Step, StepKind, View, parse_expression

UP, PARENT = StepKind.ANCESTOR, StepKind.PARENT


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("main", RefExpression(base="main")),
        ("v1.0-rc", RefExpression(base="v1.0-rc")),
        ("main~", RefExpression(base="main", steps=(Step(UP, 1),))),
        ("main~0", RefExpression(base="main", steps=(Step(UP, 0),))),
        ("main~12", RefExpression(base="main", steps=(Step(UP, 12),))),
        ("main^", RefExpression(base="main", steps=(Step(PARENT, 1),))),
        ("main^0", RefExpression(base="main", steps=(Step(PARENT, 0),))),
        (
            "main~~^2~3",
            RefExpression(base="main", steps=(Step(UP, 1), Step(UP, 1), Step(PARENT, 2), Step(UP, 3))),
        ),
        ("main@", RefExpression(base="main", view=View.COMMITTED)),
        ("main$", RefExpression(base="main", view=View.STAGED)),
    ],
)
def test_an_expression_is_a_base_and_what_follows(text: str, parsed: RefExpression) -> None:
    assert parse_expression(text) == parsed


@pytest.mark.parametrize(
    "text",
    ["", "~1", "^", "@", "$", "main@1", "main$0", "main@@", "main@$", "main~1@", "main@~1", "main~x", "main~-1",
     "ma in", "main ", "\tmain", "main~1 ", "main~" + "9" * 19, "main~\u0661"],
)  # fmt: skip
def test_anything_else_is_no_ref(text: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        parse_expression(text)
    assert caught.value.kind is ErrorKind.INVALID_REF
