"""What a branch may hold after a crash, from what was said before it.

Everything the killed process does is announced before it starts and confirmed after
it was acknowledged. Whoever reads both knows of every path what it must hold, and
of the few operations in flight that they may have happened or not. Each path has
one writer, which does one thing at a time, so an operation in flight is always the
last word on its paths.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

Value = str | None
"""The MD5 of what a path holds; None if it holds nothing."""
Values = Mapping[str, Value]


@dataclass
class _Commit:
    """A commit under way, or one that was acknowledged: what each path may be in it."""

    message: str
    allowed: dict[str, set[Value]]

    def allow(self, values: Values) -> None:
        for path, value in values.items():
            self.allowed.setdefault(path, {None}).add(value)


@dataclass
class History:
    """One branch, over any number of crashes."""

    acknowledged: dict[str, Value] = field(default_factory=dict)
    in_flight: dict[str, Values] = field(default_factory=dict)
    commits: dict[str, _Commit] = field(default_factory=dict)
    """Acknowledged ones, by id."""
    committing: dict[str, _Commit] = field(default_factory=dict)
    checked: set[str] = field(default_factory=set)
    writes: int = 0

    def write_begins(self, operation: str, values: Values) -> None:
        self.in_flight[operation] = values
        for commit in self.committing.values():
            commit.allow(values)

    def write_ends(self, operation: str, *, acknowledged: bool) -> None:
        values = self.in_flight.pop(operation)
        if acknowledged:
            self.writes += 1
            self.acknowledged.update(values)

    def commit_begins(self, operation: str) -> None:
        commit = _Commit(operation, {path: {value} for path, value in self.acknowledged.items()})
        for values in self.in_flight.values():
            commit.allow(values)
        self.committing[operation] = commit

    def commit_ends(self, operation: str, commit_id: str | None) -> None:
        commit = self.committing.pop(operation)
        if commit_id is not None:
            self.commits[commit_id] = commit

    def check_branch(self, found: Mapping[str, str]) -> None:
        """Compare with what the branch shows after a restart, and go on from there."""
        for values in self.in_flight.values():
            before = {path: self.acknowledged.get(path) for path in values}
            now = {path: found.get(path) for path in values}
            assert now in (before, dict(values)), "a write that was under way is there whole or not at all"
            self.acknowledged.update(now)
        self.in_flight.clear()
        for path in self.acknowledged.keys() | found.keys():
            assert found.get(path) == self.acknowledged.get(path), f"{path} is not what was acknowledged"

    def check_log(self, log: list[tuple[str, str]]) -> list[str]:
        """Compare with the branch's history: ids and messages, without what was there before us.

        Returns the commits that nobody has looked into yet.
        """
        ids, messages = [i for i, _ in log], [m for _, m in log]
        assert len(set(ids)) == len(ids) == len(set(messages)), "a commit was made twice"
        missing = self.commits.keys() - set(ids)
        assert not missing, f"acknowledged commits are gone: {missing}"
        for commit_id, message in log:
            if commit_id not in self.commits:
                assert message in self.committing, f"nobody tried to make commit {message!r}"
                self.commits[commit_id] = self.committing[message]
        self.committing.clear()
        return [commit_id for commit_id in ids if commit_id not in self.checked]

    def check_commit(self, commit_id: str, found: Mapping[str, str]) -> None:
        """Compare with what a commit holds: everything acknowledged before it began, nothing unheard of."""
        commit = self.commits[commit_id]
        for path in commit.allowed.keys() | found.keys():
            allowed = commit.allowed.get(path, {None})
            assert found.get(path) in allowed, f"{path} in {commit.message!r} is not what was written"
        self.checked.add(commit_id)
