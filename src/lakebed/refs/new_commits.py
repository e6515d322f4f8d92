"""Commits that some refs reach and others did not: what an incremental dump has to hold.

The walk goes down from both sides by generation, which is greater in a commit than in each of its parents. So when a
commit is taken, everything that leads to it has been taken before, and it is known whether an old ref reaches it.
"""

from collections.abc import Iterable

from lakebed.errors import NotFoundError
from lakebed.model.commits import Commit
from lakebed.model.ids import CommitId
from lakebed.model.repository import Repository
from lakebed.refs.commits import Commits


async def commits_since(
    commits: Commits, repo: Repository, old: Iterable[CommitId], new: Iterable[CommitId], *, limit: int
) -> list[CommitId] | None:
    """Return the ancestors of `new`, themselves included, that are no ancestors of `old`.

    None if more than `limit` commits would have to be read, or one is not there: then all have to be looked at.
    """
    known = frozenset(old)
    waiting: dict[CommitId, Commit] = {}
    reached = set(known)
    found: list[CommitId] = []
    read = 0

    async def meet(ids: Iterable[CommitId]) -> None:
        nonlocal read
        wanted = sorted({each for each in ids if each not in waiting})
        read += len(wanted)
        waiting.update({commit.id: commit for commit in await commits.get_many(repo, wanted)})

    try:
        fresh = frozenset(new) - known
        if fresh:
            await meet(fresh | known)
        while any(each not in reached for each in waiting):
            if read > limit:
                return None
            top = max(commit.generation for commit in waiting.values())
            taken = [waiting.pop(each) for each in [c.id for c in waiting.values() if c.generation == top]]
            for commit in taken:
                if commit.id in reached:
                    reached.update(commit.parents)
                else:
                    found.append(commit.id)
            await meet(parent for commit in taken for parent in commit.parents)
    except NotFoundError:
        return None
    return found
