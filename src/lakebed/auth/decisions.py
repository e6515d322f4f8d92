"""May this user do that? Pure.

A request is allowed if some statement allows it and none denies it: a deny counts
whatever else allows. Policies are compiled once for a user, and for each action when it
is first asked about, because the same few questions come with every request: the usual
ones (an administrator's `fs:*` on `*`) then cost one look-up.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from lakebed.auth.arns import EVERYTHING, arn_may_begin, arn_regex
from lakebed.auth.statements import split_resources
from lakebed.auth.wildcards import matches
from lakebed.model.auth import Effect, Policy, Statement

_NOTHING = "(?!)"


@dataclass(frozen=True, slots=True)
class Allowed:
    """Go ahead."""


@dataclass(frozen=True, slots=True)
class Denied:
    """Do not. The reason is for the log, not for whoever was denied: it tells what policies there are."""

    reason: str


Decision: TypeAlias = Allowed | Denied


def decide(policies: Sequence[Policy], action: str, resource: str, *, user: str) -> Decision:
    """Return whether policies let a user do `action` to `resource` (an ARN, or `*` for none in particular)."""
    return Permissions(policies, user=user).decide(action, resource)


class Permissions:
    """What policies let one user do."""

    def __init__(self, policies: Sequence[Policy], *, user: str) -> None:
        self._policies = tuple(policies)
        self._user = user
        self._rules: dict[str, _Rule] = {}
        """By action, for those that were asked about."""

    def may(self, action: str, resource: str) -> bool:
        """Return whether the user may do `action` to `resource`."""
        # As `_rule`, without a call: this is asked several times for each request.
        rule = self._rules.get(action) or self._rule(action)
        if rule.settled is not None:
            return rule.settled
        return rule.denied.fullmatch(resource) is None and rule.allowed.fullmatch(resource) is not None

    def may_all(self, action: str, prefix: str) -> bool:
        """Return whether the user may do `action` to everything whose ARN begins with `prefix`.

        It is no if two statements allow it only together, or if one denies something that nobody has: what is
        allowed for all must be so at a glance.
        """
        allowed = any(
            resource.endswith("*") and self._covers(resource, prefix)
            for resource in self._patterns(action, Effect.ALLOW)
        )
        return allowed and not self.denies_any(action, prefix)

    def denies(self, action: str, resource: str) -> bool:
        """Return whether a statement denies `action` to `resource`; whether one allows it does not matter."""
        return self._rule(action).denied.fullmatch(resource) is not None

    def denies_any(self, action: str, prefix: str) -> bool:
        """Return whether a statement denies `action` to something whose ARN begins with `prefix`."""
        return any(
            resource == EVERYTHING or arn_may_begin(resource, prefix, user=self._user)
            for resource in self._patterns(action, Effect.DENY)
        )

    def decide(self, action: str, resource: str) -> Decision:
        """Return whether the user may do `action` to `resource`, and if not, why."""
        if self.may(action, resource):
            return Allowed()
        for policy in self._policies:
            for statement in policy.statements:
                if statement.effect is Effect.DENY and self._matches(statement, action, resource):
                    return Denied(f"policy {policy.id} denies {action} on {resource}")
        return Denied(f"no policy allows {action} on {resource}")

    def _rule(self, action: str) -> "_Rule":
        rule = self._rules.get(action)
        if rule is None:
            rule = self._rules[action] = self._compile(action)
        return rule

    def _compile(self, action: str) -> "_Rule":
        denied = self._sources(action, Effect.DENY)
        allowed = self._sources(action, Effect.ALLOW)
        settled: bool | None = None
        if EVERYTHING in denied or not allowed:
            settled = False
        elif EVERYTHING in allowed and not denied:
            settled = True
        return _Rule(settled=settled, denied=_any_of(denied), allowed=_any_of(allowed))

    def _sources(self, action: str, effect: Effect) -> set[str]:
        """Return regular expressions for the resources of all statements on `action`; `*` for everything."""
        return {
            source
            for policy in self._policies
            for statement in policy.statements
            if statement.effect is effect and any(matches(pattern, action) for pattern in statement.actions)
            for source in self._resources(statement)
        }

    def _resources(self, statement: Statement) -> list[str]:
        found = [
            EVERYTHING if resource == EVERYTHING else arn_regex(resource, user=self._user)
            for resource in split_resources(statement.resource)
        ]
        return [source for source in found if source is not None]

    def _patterns(self, action: str, effect: Effect) -> Iterator[str]:
        """Yield the resources of all statements on `action`, as their authors wrote them."""
        for policy in self._policies:
            for statement in policy.statements:
                if statement.effect is effect and any(matches(p, action) for p in statement.actions):
                    yield from split_resources(statement.resource)

    def _covers(self, resource: str, prefix: str) -> bool:
        # What ends with a star and matches the beginning matches whatever follows it, too.
        source = arn_regex(resource, user=self._user)
        return resource == EVERYTHING or (source is not None and re.fullmatch(source, prefix) is not None)

    def _matches(self, statement: Statement, action: str, resource: str) -> bool:
        return any(matches(pattern, action) for pattern in statement.actions) and (
            _any_of(set(self._resources(statement))).fullmatch(resource) is not None
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rule:
    """Everything policies say about one action."""

    settled: bool | None
    """The answer, if it is the same for all resources."""
    denied: re.Pattern[str]
    allowed: re.Pattern[str]


def _any_of(sources: set[str]) -> re.Pattern[str]:
    if EVERYTHING in sources:
        return re.compile("(?s:.*)")
    return re.compile("|".join(sorted(sources)) or _NOTHING)
