"""Matching and deciding in the most obvious way, to compare the compiled way with."""

from collections.abc import Sequence

from lakebed.auth.statements import split_resources
from lakebed.model.auth import Effect, Policy


def naive_match(pattern: str, text: str) -> bool:
    if not pattern:
        return not text
    if pattern[0] == "*":
        return naive_match(pattern[1:], text) or (bool(text) and naive_match(pattern, text[1:]))
    return bool(text) and pattern[0] in ("?", text[0]) and naive_match(pattern[1:], text[1:])


def naive_arn_match(pattern: str, arn: str) -> bool:
    if pattern == "*":
        return True
    left, right = pattern.split(":", 5), arn.split(":", 5)
    for parts in (left, right):
        if len(parts) < 6 or parts[:2] != ["arn", "lakefs"] or not parts[2] or not parts[5]:
            return False
    return left[2] == right[2] and left[4] == right[4] and naive_match(left[5], right[5])


def naive_may(policies: Sequence[Policy], action: str, resource: str, user: str) -> bool:
    effects = {
        statement.effect
        for policy in policies
        for statement in policy.statements
        for pattern in statement.actions
        for arn in split_resources(statement.resource)
        if naive_match(pattern, action) and naive_arn_match(arn.replace("${user}", user), resource)
    }
    return effects == {Effect.ALLOW}
