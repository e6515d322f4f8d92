"""The commit that two histories have in common: where a three-way merge starts.

A commit's generation is greater than any of its ancestors'. Walking both
histories at once from the highest generation down, every descendant of a commit
is seen before the commit itself, so when a commit's turn comes it is known from
which sides it is reached. The first one reached from both is a best common
ancestor: no other common ancestor descends from it. Where histories cross there
may be several of that generation; the greatest id wins, so that everyone who
asks gets the same answer.
"""

from collections.abc import Mapping

from lakebed.errors import ErrorKind, NotFoundError
from lakebed.model.commits import Commit
from lakebed.model.ids import CommitId
from lakebed.model.repository import Repository
from lakebed.refs.commits import Commits

_LEFT = 1
_RIGHT = 2
_BOTH = _LEFT | _RIGHT


async def find_merge_base(commits: Commits, repo: Repository, left: CommitId, right: CommitId) -> Commit:
    """Return the best common ancestor of two commits; a commit counts as its own ancestor.

    Raises:
        NotFoundError: `MERGE_BASE_NOT_FOUND`: the histories have nothing in common; `COMMIT_NOT_FOUND`.
    """
    sides: dict[CommitId, int] = {left: _LEFT}
    sides[right] = sides.get(right, 0) | _RIGHT
    levels: dict[int, dict[CommitId, Commit]] = {}
    _arrange(levels, await commits.get_many(repo, list(sides)))
    while levels:
        level = levels.pop(max(levels))
        common = [commit_id for commit_id in level if sides[commit_id] == _BOTH]
        if common:
            return level[max(common)]
        found = _pass_on(level, sides)
        _arrange(levels, await commits.get_many(repo, found))
    raise NotFoundError(
        ErrorKind.MERGE_BASE_NOT_FOUND, f"commits {left[:16]} and {right[:16]} have no common ancestor"
    )


def _pass_on(level: Mapping[CommitId, Commit], sides: dict[CommitId, int]) -> list[CommitId]:
    """Tell the parents of a level from which sides they are reached; return those not met before."""
    found: list[CommitId] = []
    for commit in level.values():
        for parent in commit.parents:
            if parent not in sides:
                found.append(parent)
            sides[parent] = sides.get(parent, 0) | sides[commit.id]
    return found


def _arrange(levels: dict[int, dict[CommitId, Commit]], found: list[Commit]) -> None:
    for commit in found:
        levels.setdefault(commit.generation, {})[commit.id] = commit
