"""Ref expressions as text: a base and what follows it. Pure.

    expression = base (step* | "@" | "$")
    step       = "~" [number] | "^" [number]

`~n` is the n-th ancestor along first parents, `^n` the n-th parent (`^0` the commit
itself), both with n = 1 if it is left out. `@` is a branch as last committed,
`$` its staging view. What the base names, and whether it exists, is for `resolve`.
"""

import re
from dataclasses import dataclass
from enum import Enum

from lakebed.errors import ErrorKind, InvalidInputError, cut, quoted
from lakebed.format.memo import memo

_EXPRESSION = re.compile(r"([^\s~^@$]+)((?:[~^][0-9]*)*|[@$])")
_STEP = re.compile(r"([~^])([0-9]*)")
# More digits than any history has commits: refused before somebody computes with them.
_DIGITS_MAX = 18
# Each step may read a commit.
_STEPS_MAX = 256
# Expressions are remembered: a long name and all steps with all digits fit.
_CHARACTERS_MAX = 8 * 1024


class View(Enum):
    """Which state of a branch is meant."""

    PLAIN = ""
    """What is staged over what is committed."""
    COMMITTED = "@"
    STAGED = "$"


class StepKind(Enum):
    """Where a step leads."""

    ANCESTOR = "~"
    PARENT = "^"


@dataclass(frozen=True, slots=True)
class Step:
    """One move from a commit to an older one."""

    kind: StepKind
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RefExpression:
    """A parsed expression. With steps, `view` is `PLAIN`."""

    base: str
    steps: tuple[Step, ...] = ()
    view: View = View.PLAIN


@memo
def parse_expression(text: str) -> RefExpression:
    """Return the parts of a ref expression.

    Raises:
        InvalidInputError: `INVALID_REF`.
    """
    if len(text) > _CHARACTERS_MAX:
        raise InvalidInputError(
            ErrorKind.INVALID_REF, f"a ref of {len(text)} characters is longer than {_CHARACTERS_MAX}"
        )
    if text.count("~") + text.count("^") > _STEPS_MAX:
        raise InvalidInputError(
            ErrorKind.INVALID_REF, f"a ref takes at most {_STEPS_MAX} steps: write ~n for n of them"
        )
    matched = _EXPRESSION.fullmatch(text)
    if matched is None:
        raise InvalidInputError(
            ErrorKind.INVALID_REF,
            f"{quoted(text)} is no ref: expected a branch, tag or commit id, then ~n or ^n steps, or a single @ or $",
            about=text,
        )
    base, rest = matched.groups()
    if rest in {"@", "$"}:
        return RefExpression(base=base, view=View(rest))
    return RefExpression(base=base, steps=tuple(_step(*each) for each in _STEP.findall(rest)))


def _step(sign: str, digits: str) -> Step:
    if len(digits) > _DIGITS_MAX:
        raise InvalidInputError(
            ErrorKind.INVALID_REF, f"{cut(sign + digits)} is too far back for any history"
        )
    return Step(StepKind(sign), int(digits) if digits else 1)
