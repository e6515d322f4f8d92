"""A repository's settings: retention rules, and branch protection rule by rule."""

from collections.abc import Callable

from lakebed.auth.actions import Action
from lakebed.auth.arns import object_arn, repository_arn
from lakebed.auth.caller import Caller
from lakebed.catalog.engine import Engine, require_writable
from lakebed.errors import (
    AlreadyExistsError,
    ConflictError,
    ErrorKind,
    NotFoundError,
    PreconditionError,
    quoted,
)
from lakebed.format.gc_rules import decode_gc_rules, encode_gc_rules
from lakebed.kv.port import Expect
from lakebed.limits import SWAP_ATTEMPTS_MAX
from lakebed.model.gc_rules import GcRules
from lakebed.model.ids import parse_branch_name
from lakebed.model.repository import BranchProtection, Repository
from lakebed.refs.backoff import back_off
from lakebed.refs.keys import GC_RULES_KEY
from lakebed.refs.protection import COMMIT, STAGING_WRITE
from lakebed.refs.settle import settled_swap

BLOCKED = (COMMIT, STAGING_WRITE)
"""What a rule blocks: everything but merging into the branch."""


class Settings:
    """Use cases on settings."""

    def __init__(self, engine: Engine, caller: Caller) -> None:
        self._engine = engine
        self._caller = caller

    async def gc_rules(self, repo_name: str) -> GcRules:
        """Return the retention rules.

        Raises:
            NotFoundError: `GC_RULES_NOT_FOUND`: none were set, or they were removed.
        """
        self._caller.require(Action.GET_GC_RULES, repository_arn(repo_name))
        repo = await self._engine.repo(repo_name)
        item = await self._engine.parts.kv.get(repo.partition, GC_RULES_KEY)
        rules = decode_gc_rules(item.value) if item is not None else None
        if rules is None:
            raise NotFoundError(
                ErrorKind.GC_RULES_NOT_FOUND, f"repository {repo_name} has no garbage collection rules"
            )
        return rules

    async def set_gc_rules(self, repo_name: str, rules: GcRules) -> None:
        """Replace the retention rules."""
        self._caller.require(Action.SET_GC_RULES, repository_arn(repo_name))
        for branch in rules.branches:
            parse_branch_name(branch)
        await self._put_gc_rules(repo_name, rules)

    async def delete_gc_rules(self, repo_name: str) -> None:
        """Remove the retention rules; a repository without any is no error."""
        self._caller.require(Action.SET_GC_RULES, repository_arn(repo_name))
        await self._put_gc_rules(repo_name, None)

    async def may_set_gc_rules(self, repo_name: str) -> None:
        """Raise unless the caller may set the retention rules of a repository that exists."""
        self._caller.require(Action.SET_GC_RULES, repository_arn(repo_name))
        await self._engine.repo(repo_name)

    async def may_protect_branches(self, repo_name: str) -> None:
        """Raise unless the caller may set the protection rules of a repository that exists."""
        self._caller.require(Action.SET_BRANCH_PROTECTION_RULES, repository_arn(repo_name))
        await self._engine.repo(repo_name)

    async def may_write(self, repo_name: str, branch: str, path: str) -> None:
        """Raise unless the caller may write `path` to a branch that exists and takes writes."""
        self._caller.require(Action.WRITE_OBJECT, object_arn(repo_name, path))
        repo = await self._engine.repo(repo_name)
        name = await self._engine.writable(repo, branch, action=STAGING_WRITE)
        await self._engine.parts.branches.get(repo, name)

    async def add_protection(self, repo_name: str, pattern: str) -> None:
        """Protect the branches that match one more pattern.

        Raises:
            AlreadyExistsError: `RULE_EXISTS`.
        """

        def add(rules: dict[str, tuple[str, ...]]) -> None:
            if pattern in rules:
                raise AlreadyExistsError(
                    ErrorKind.RULE_EXISTS, f"there is a rule for {quoted(pattern)} already"
                )
            rules[pattern] = BLOCKED

        await self._change_protection(repo_name, add)

    async def remove_protection(self, repo_name: str, pattern: str) -> None:
        """No longer protect the branches that match a pattern.

        Raises:
            NotFoundError: `RULE_NOT_FOUND`.
        """

        def remove(rules: dict[str, tuple[str, ...]]) -> None:
            if rules.pop(pattern, None) is None:
                raise NotFoundError(ErrorKind.RULE_NOT_FOUND, f"there is no rule for {quoted(pattern)}")

        await self._change_protection(repo_name, remove)

    async def _put_gc_rules(self, repo_name: str, rules: GcRules | None) -> None:
        repo = await self._engine.repo(repo_name)
        require_writable(repo, force=False)
        parts = self._engine.parts
        await settled_swap(
            parts.kv,
            repo.partition,
            GC_RULES_KEY,
            encode_gc_rules(rules),
            expected=Expect.ANY,
            clock=parts.clock,
            ids=parts.ids,
        )

    async def _change_protection(
        self, repo_name: str, change: Callable[[dict[str, tuple[str, ...]]], None]
    ) -> None:
        self._caller.require(Action.SET_BRANCH_PROTECTION_RULES, repository_arn(repo_name))
        repo = await self._engine.repo(repo_name)
        require_writable(repo, force=False)
        parts = self._engine.parts
        for attempt in range(SWAP_ATTEMPTS_MAX):
            if await self._changed_protection(repo, change):
                return
            await back_off(attempt, clock=parts.clock, ids=parts.ids)
        raise ConflictError(
            ErrorKind.TOO_MANY_RETRIES, f"the rules of {repo_name} are changed by too many at once"
        )

    async def _changed_protection(
        self, repo: Repository, change: Callable[[dict[str, tuple[str, ...]]], None]
    ) -> bool:
        """Return whether nobody else changed the rules in between."""
        found, etag = await self._engine.protection.get(repo)
        rules = dict(found.rules)
        change(rules)
        try:
            await self._engine.protection.set(repo, BranchProtection(rules=rules), if_match=etag)
        except PreconditionError:
            return False
        return True
