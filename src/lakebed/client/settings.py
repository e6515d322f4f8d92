"""`Settings`: a repository's retention rules and branch protection."""

from collections.abc import Mapping, Sequence

import msgspec

from lakebed.client.replies import GcBranchRule, GcRules, ProtectionRule
from lakebed.client.transport import Request, Transport, decode
from lakebed.errors import AlreadyExistsError, ErrorKind, NotFoundError


class Settings:
    """The settings of one repository."""

    def __init__(self, transport: Transport, repo: str) -> None:
        self._transport = transport
        self._path = ("repositories", repo, "settings")
        self._rules = ("repositories", repo, "branch_protection")

    def gc_rules(self) -> GcRules | None:
        """Return for how many days what no branch shows any more is kept; None if nobody has said."""
        try:
            return self._transport.get(GcRules, *self._path, "gc_rules")
        except NotFoundError as error:
            if error.kind is not ErrorKind.GC_RULES_NOT_FOUND:
                raise
            return None

    def set_gc_rules(self, default_days: int, *, branches: Mapping[str, int] | None = None) -> None:
        """Replace the retention rules: days in general, and days of branches."""
        rules = GcRules(
            default_retention_days=default_days,
            branches=[
                GcBranchRule(branch_id=name, retention_days=days) for name, days in (branches or {}).items()
            ],
        )
        self._transport.put(*self._path, "gc_rules", body=rules)

    def delete_gc_rules(self) -> None:
        """Remove the retention rules."""
        self._transport.delete(*self._path, "gc_rules")

    def protected(self) -> list[str]:
        """Return the patterns of branches that only merges may change."""
        return [rule.pattern for rule in self._protection()[0]]

    def protect(self, pattern: str) -> None:
        """Let only merges change the branches that match a pattern such as `main` or `release-*`."""
        try:
            self._transport.post(*self._rules, body={"pattern": pattern}, repeatable=True)
        except AlreadyExistsError:
            return

    def unprotect(self, pattern: str) -> None:
        """Let anybody who may write change the branches that match a pattern.

        Raises:
            NotFoundError: there is no such rule.
        """
        rules, etag = self._protection()
        kept = [rule.pattern for rule in rules if rule.pattern != pattern]
        if len(kept) == len(rules):
            raise NotFoundError(ErrorKind.RULE_NOT_FOUND, f"there is no rule for {pattern!r}")
        self._replace(kept, etag)

    def set_protected(self, patterns: Sequence[str]) -> None:
        """Replace all patterns."""
        self._replace(patterns, None)

    def _protection(self) -> tuple[list[ProtectionRule], str]:
        answer = self._transport.send(Request(method="GET", path=(*self._path, "branch_protection")))
        return decode(answer, list[ProtectionRule]), answer.headers.get("etag", "")

    def _replace(self, patterns: Sequence[str], etag: str | None) -> None:
        """Replace the patterns, with an ETag only those that it stands for: nobody's new rule is lost."""
        self._transport.send(
            Request(
                method="PUT",
                path=(*self._path, "branch_protection"),
                headers={"Content-Type": "application/json"} | ({} if etag is None else {"If-Match": etag}),
                content=msgspec.json.encode([ProtectionRule(pattern=each) for each in patterns]),
            )
        )
