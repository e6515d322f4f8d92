"""From the statements of a policy document to `Statement`s, with errors that name the field.

    {"effect": "allow" | "deny", "action": ["fs:Read*", …], "resource": "arn:…", "condition": …}

`resource` is one ARN or `*`, or a list of them in one text: as JSON
(`["arn:…", "arn:…"]`) or as lakeFS also writes it (`[arn:…,arn:…]`, a comma inside an ARN
after a backslash). Conditions are refused: to ignore one would allow more than its
author meant.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from lakebed.auth.actions import is_action_pattern
from lakebed.auth.arns import EVERYTHING, is_arn
from lakebed.errors import ErrorKind, InvalidInputError, quoted
from lakebed.limits import POLICY_CHARACTERS_MAX, POLICY_WILDCARDS_MAX
from lakebed.model.auth import Effect, Statement

_LISTED = re.compile(r"(?:\\.|[^,\\])+")
_ESCAPED = re.compile(r"\\(.)")


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementDocument:
    """One statement as a client sent it."""

    effect: str
    action: Sequence[str]
    resource: str
    condition: object = None


def parse_statements(documents: Sequence[StatementDocument]) -> tuple[Statement, ...]:
    """Return the statements of a policy.

    Raises:
        InvalidInputError: `INVALID_POLICY`: the message begins with the field, `statement[0].effect`.
    """
    if not documents:
        raise _invalid("statement", "needs at least one statement")
    size = sum(len(d.resource) + len(d.effect) + sum(map(len, d.action)) for d in documents)
    if size > POLICY_CHARACTERS_MAX:
        raise _invalid(
            "statement",
            f"has {size} characters, at most {POLICY_CHARACTERS_MAX} are allowed: split the policy",
        )
    wildcards = sum(d.resource.count("*") + d.resource.count("?") for d in documents)
    if wildcards > POLICY_WILDCARDS_MAX:
        raise _invalid(
            "statement",
            f"has {wildcards} wildcards, at most {POLICY_WILDCARDS_MAX} are allowed: split the policy",
        )
    return tuple(_parse(f"statement[{index}]", document) for index, document in enumerate(documents))


def split_resources(resource: str) -> tuple[str, ...]:
    r"""Return the ARNs of a statement's resource.

    >>> split_resources(r"[arn:lakefs:fs:::a, arn:lakefs:fs:::b\,c]")
    ('arn:lakefs:fs:::a', 'arn:lakefs:fs:::b,c')
    """
    text = resource.strip()
    if not text.startswith("["):
        return (text,)
    try:
        return tuple(map(str.strip, msgspec.json.decode(text, type=list[str])))
    except (msgspec.MsgspecError, UnicodeEncodeError):
        listed = _LISTED.findall(text[1:].removesuffix("]"))
        return tuple(_ESCAPED.sub(r"\1", each).strip() for each in listed)


def _parse(field: str, document: StatementDocument) -> Statement:
    if document.effect not in tuple(Effect):
        raise _invalid(f"{field}.effect", f"must be 'allow' or 'deny', not {quoted(document.effect)}")
    if not document.action:
        raise _invalid(f"{field}.action", "needs at least one action")
    for position, action in enumerate(document.action):
        if not is_action_pattern(action):
            raise _invalid(
                f"{field}.action[{position}]",
                f"{quoted(action)} is no action: write one like 'fs:ReadObject', 'fs:List*' or '*'",
            )
    resources = split_resources(document.resource)
    if not resources:
        raise _invalid(f"{field}.resource", "needs at least one ARN")
    for resource in resources:
        if resource != EVERYTHING and not is_arn(resource):
            raise _invalid(
                f"{field}.resource",
                f"{quoted(resource)} is no ARN: write '*' or one like 'arn:lakefs:fs:::repository/lake/*'",
            )
    if document.condition:
        raise _invalid(
            f"{field}.condition", "conditions are not supported: leave it out, and limit the resource instead"
        )
    return Statement(
        effect=Effect(document.effect), actions=tuple(document.action), resource=document.resource
    )


def _invalid(field: str, problem: str) -> InvalidInputError:
    return InvalidInputError(ErrorKind.INVALID_POLICY, f"{field}: {problem}")
