"""Branch protection: patterns of branch names, and what may not be done to branches that match.

A pattern is a glob: `*`, `?`, `[a-z]`, `[!a]`, `{main,release-*}`. The rules of a
repository are one record; its ETag lets two editors notice each other.
"""

import hashlib
import re
from fnmatch import translate
from functools import lru_cache

from lakebed.env.clock import Clock
from lakebed.env.ids import IdSource
from lakebed.errors import ConflictError, ErrorKind, InvalidInputError, PreconditionError, quoted
from lakebed.format.records import decode_protection, encode_protection
from lakebed.kv.port import Expect, KVStore
from lakebed.limits import SWAP_ATTEMPTS_MAX
from lakebed.model.ids import BranchName
from lakebed.model.repository import BranchProtection, Repository
from lakebed.refs.backoff import back_off
from lakebed.refs.keys import PROTECTION_KEY
from lakebed.refs.settle import settled_swap

STAGING_WRITE = "staging_write"
COMMIT = "commit"
_ACTIONS = frozenset({STAGING_WRITE, COMMIT})

_BRACES = re.compile(r"\{([^{}]*)\}")
# `{a,b}{c,d}…` doubles with every pair: a pattern with more choices than this is a mistake or an attack.
_CHOICES_MAX = 64
# As long as a few names of branches.
_PATTERN_CHARACTERS_MAX = 1024
# Every write asks all of them.
_RULES_MAX = 1000


class Protection:
    """The protection rules of every repository in one KV store."""

    def __init__(self, kv: KVStore, *, clock: Clock, ids: IdSource) -> None:
        self._kv = kv
        self._clock = clock
        self._ids = ids

    async def get(self, repo: Repository) -> tuple[BranchProtection, str]:
        """Return the rules and their ETag, which is empty if none were ever set."""
        item = await self._kv.get(repo.partition, PROTECTION_KEY)
        if item is None:
            return BranchProtection(), ""
        return decode_protection(item.value), _etag(item.value)

    async def set(
        self, repo: Repository, protection: BranchProtection, *, if_match: str | None = None
    ) -> None:
        """Replace the rules; with `if_match`, only if their ETag is still that one ("": only if none were set).

        Raises:
            InvalidInputError: `INVALID_ARGUMENT`: a pattern or an action is not one.
            PreconditionError: `CONDITION_FAILED`.
        """
        _check(protection)
        value = encode_protection(protection)
        for attempt in range(SWAP_ATTEMPTS_MAX):
            item = await self._kv.get(repo.partition, PROTECTION_KEY)
            etag = _etag(item.value) if item is not None else ""
            if if_match is not None and if_match != etag:
                raise PreconditionError(
                    ErrorKind.CONDITION_FAILED, f"the rules of {repo.name} have changed: read them again"
                )
            try:
                await settled_swap(
                    self._kv,
                    repo.partition,
                    PROTECTION_KEY,
                    value,
                    expected=item.version if item is not None else Expect.ABSENT,
                    clock=self._clock,
                    ids=self._ids,
                )
            except ConflictError:
                await back_off(attempt, clock=self._clock, ids=self._ids)
                continue
            return
        raise ConflictError(
            ErrorKind.TOO_MANY_RETRIES, f"the rules of {repo.name} are changed by too many at once"
        )

    async def is_protected(self, repo: Repository, branch: BranchName, action: str) -> bool:
        """Return whether a rule blocks `action` (`staging_write`, `commit`) on the branch."""
        return blocks((await self.get(repo))[0], branch, action)


def blocks(protection: BranchProtection, branch: BranchName, action: str) -> bool:
    """Return whether a rule blocks `action` on the branch."""
    rules = protection.rules
    return any(action in blocked and _regex(name).match(branch) for name, blocked in rules.items())


def matches(pattern: str, branch: str) -> bool:
    """Return whether a branch's name matches a glob pattern.

    >>> matches("release-{1,2}*", "release-2-x"), matches("release-?", "release-10")
    (True, False)
    """
    return _regex(pattern).match(branch) is not None


def _check(protection: BranchProtection) -> None:
    if len(protection.rules) > _RULES_MAX:
        raise InvalidInputError(
            ErrorKind.TOO_LARGE,
            f"{len(protection.rules)} branch protection rules, {_RULES_MAX} are the most: use patterns",
        )
    for pattern, actions in protection.rules.items():
        if not pattern:
            raise InvalidInputError(
                ErrorKind.INVALID_ARGUMENT, "a branch protection pattern must not be empty"
            )
        _regex(pattern)
        unknown = sorted(set(actions) - _ACTIONS)
        if unknown:
            raise InvalidInputError(
                ErrorKind.INVALID_ARGUMENT, f"{unknown} cannot be blocked: choose from {sorted(_ACTIONS)}"
            )


@lru_cache(maxsize=1024)
def _regex(pattern: str) -> re.Pattern[str]:
    if len(pattern) > _PATTERN_CHARACTERS_MAX:
        raise InvalidInputError(
            ErrorKind.INVALID_ARGUMENT,
            f"a branch protection pattern of {len(pattern)} characters is longer than {_PATTERN_CHARACTERS_MAX}: split it",
        )
    choices = [pattern]
    while _BRACES.search(choices[0]):
        choices = [each for choice in choices for each in _expand(choice)]
        if len(choices) > _CHOICES_MAX:
            raise InvalidInputError(
                ErrorKind.INVALID_ARGUMENT,
                f"pattern {quoted(pattern)} stands for more than {_CHOICES_MAX} patterns: split it",
            )
    return re.compile("|".join(map(translate, choices)))


def _expand(pattern: str) -> list[str]:
    """Return `pattern` once for each choice of its first innermost `{a,b}`."""
    found = _BRACES.search(pattern)
    assert found is not None, "every choice has as many braces left as the first"
    start, end = found.span()
    return [pattern[:start] + choice + pattern[end:] for choice in found.group(1).split(",")]


def _etag(value: bytes) -> str:
    return hashlib.sha256(value).hexdigest()
