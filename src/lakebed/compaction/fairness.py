"""Who gets a worker's free places, when several repositories have work. Pure.

Lower levels first, whoever they belong to; within a level, repositories take turns, starting
after the one that was served last. So one with a million layers waits like one with ten.
"""

from collections.abc import Mapping

from lakebed.model.compaction import JobKind
from lakebed.model.ids import RepoUid

Demand = Mapping[JobKind, int]
"""How many jobs of each kind a repository could start now: what `prepare` would assign to a worker free enough."""


def share(
    demands: Mapping[RepoUid, Demand], free: int, *, last: RepoUid | None = None
) -> dict[RepoUid, Demand]:
    """Return how many jobs of each kind each repository may start; those that get none are left out."""
    order = sorted(demands)
    at = sum(uid <= last for uid in order) if last is not None else 0
    turns = order[at:] + order[:at]
    grants: dict[RepoUid, dict[JobKind, int]] = {}
    for kind in sorted(JobKind, key=lambda k: k.level):
        left = {uid: demands[uid].get(kind, 0) for uid in turns}
        while free and any(left.values()):
            for uid in [uid for uid in turns if left[uid]][:free]:
                left[uid] -= 1
                free -= 1
                grant = grants.setdefault(uid, {})
                grant[kind] = grant.get(kind, 0) + 1
    return dict(grants)
