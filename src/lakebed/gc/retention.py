"""Which commits are live. Pure.

    no rules             every commit
    heads, tags, kept    always, whatever their age
    ancestors of a head  along first parents, while the child on that way was created within the branch's days
    dangling leaves      (nobody's first parent, no head) within the default days of their own creation, and their
                         ancestors in the same way
    failed attempts      leaves whose operation made a later commit: for a grace
    to become a head     leaves whose operation is still pending, whatever their age

`created_at` counts, which is the engine's; a commit's `date` is its author's and may be anything. 0 days is a rule:
what a branch no longer shows is not kept at all.

A commit that is not live keeps its place in the log, and its files stay while a ref can reach it: by any parent, from
any commit that is kept, because a new ref may be put on each of those.
"""

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

import msgspec

from lakebed.env.clock import Instant, after
from lakebed.limits import GRACE_SECONDS
from lakebed.model.gc_rules import GcRules
from lakebed.model.ids import BranchName, CommitId, MetarangeId, Nonce

_DAY_SECONDS = 24 * 3600.0


class CommitNode(msgspec.Struct, frozen=True, gc=False):
    """What retention needs of a commit: there may be a million."""

    id: CommitId
    tree: MetarangeId
    parents: tuple[CommitId, ...]
    created_at: Instant
    nonce: Nonce
    condemned_by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """The commits that something names."""

    heads: Mapping[BranchName, CommitId]
    """Of every branch: hidden and tentative ones, too."""
    kept: AbstractSet[CommitId]
    """Of tags, stashes, and operations that are building on them."""
    pending: AbstractSet[Nonce]
    """Operations that may still make one of their commits a HEAD."""

    @property
    def all(self) -> frozenset[CommitId]:
        """Every commit that is named."""
        return frozenset(self.heads.values()) | self.kept


def retain(
    commits: Mapping[CommitId, CommitNode], named: Named, rules: GcRules | None, *, now: Instant
) -> set[CommitId]:
    """Return the commits that are live. Every one that is named must be among `commits`."""
    live = set(commits) if rules is None else _live(commits, named, rules, now)
    return live | named.all


def reachable_from(commits: Mapping[CommitId, CommitNode], starts: Iterable[CommitId]) -> frozenset[CommitId]:
    """Return commits with all their ancestors, by any parent."""
    found: set[CommitId] = set()
    waiting = list(starts)
    while waiting:
        commit_id = waiting.pop()
        if commit_id not in found:
            found.add(commit_id)
            waiting += commits[commit_id].parents
    return frozenset(found)


def _live(
    commits: Mapping[CommitId, CommitNode], named: Named, rules: GcRules, now: Instant
) -> set[CommitId]:
    default = _cutoff(rules.default_days, now)
    walks = [
        (_cutoff(rules.branches.get(name, rules.default_days), now), head)
        for name, head in named.heads.items()
    ]
    live: set[CommitId] = set()
    newest = _newest_tries(commits)
    for leaf in _dangling(commits, named):
        if leaf.nonce in named.pending:
            live.add(leaf.id)  # It may be a HEAD in a moment, and a HEAD must not be condemned.
            continue
        failed = leaf.created_at < newest[leaf.nonce]
        if failed and leaf.created_at > after(now, -GRACE_SECONDS):
            live.add(leaf.id)
        if not failed and leaf.created_at > default:
            live.add(leaf.id)
            walks.append((default, leaf.id))
    # The longest memory goes first: a commit that it has passed need not be passed again.
    passed: set[CommitId] = set()
    for cutoff, start in sorted(walks):
        child = commits[start]
        while child.id not in passed:
            passed.add(child.id)
            if not child.parents or child.created_at <= cutoff:
                break
            live.add(child.parents[0])
            child = commits[child.parents[0]]
    return live


def _newest_tries(commits: Mapping[CommitId, CommitNode]) -> dict[Nonce, Instant]:
    """Return when each operation made its last commit: all its tries bear its nonce, and only the last one counts."""
    newest: dict[Nonce, Instant] = {}
    for commit in commits.values():
        newest[commit.nonce] = max(commit.created_at, newest.get(commit.nonce, commit.created_at))
    # Commits without a nonce are not tries of one operation.
    newest[Nonce("")] = Instant(0)
    return newest


def _dangling(commits: Mapping[CommitId, CommitNode], named: Named) -> list[CommitNode]:
    with_child = {commit.parents[0] for commit in commits.values() if commit.parents}
    heads = frozenset(named.heads.values())
    return [commit for commit in commits.values() if commit.id not in with_child and commit.id not in heads]


def _cutoff(days: int, now: Instant) -> Instant:
    return after(now, -days * _DAY_SECONDS)
