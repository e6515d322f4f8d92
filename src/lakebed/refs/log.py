"""The history of a commit, newest first.

Commits come by date, the later first; of two with one date the one created later (by the
servers' clocks), then the one further from the first commit, then the one with the greater
id; but never before the commit through which the walk reaches them, whatever the clients'
clocks said. So what was done within one second is shown in its order too. The order depends on nothing but the start, so the id of the last
commit of a page is enough of a cursor. A walk that stopped at the end of a page
is kept for a while, because the next request is mostly for the next page; without
it, that page walks from the start again.
"""

import heapq
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from lakebed.errors import ErrorKind, NotFoundError, quoted
from lakebed.limits import LIST_PAGE_DEFAULT, LOG_WALKS_KEPT
from lakebed.model.commits import Commit
from lakebed.model.ids import CommitId
from lakebed.model.repository import Repository
from lakebed.refs.commits import Commits
from lakebed.refs.listing import Listing

# Below this many commits it is not worth thinking about which ones a walk can meet again.
_SEEN_KEPT = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class LogQuery:
    """Which part of a history to show.

    The walk ends with the commit `stop_at`, or before the first one dated before
    `since` (Unix seconds). `limit` asks for `amount` commits and no search for more.
    """

    after: str = ""
    amount: int = LIST_PAGE_DEFAULT
    limit: bool = False
    since: float | None = None
    first_parent: bool = False
    stop_at: CommitId | None = None


class CommitLog:
    """Pages through histories."""

    def __init__(self, commits: Commits) -> None:
        self._commits = commits
        self._walks: OrderedDict[tuple[str, CommitId, bool, str], _Walk] = OrderedDict()

    async def page(
        self,
        repo: Repository,
        start: CommitId,
        query: LogQuery,
        *,
        changed: Callable[[Commit], Awaitable[bool]] | None = None,
    ) -> Listing[Commit]:
        """Return one page of the history of `start`, itself included.

        `changed` says whether a commit touches what the caller looks for; only such commits
        appear, and no merges, since what a merge brings in was changed by other commits.

        Raises:
            NotFoundError: `COMMIT_NOT_FOUND`; `REF_NOT_FOUND`: the history does not have the cursor.
        """
        walk = await self._resume(repo, start, query)
        results: list[Commit] = []
        stopped = query.after != "" and query.after == query.stop_at
        while not stopped and (commit := walk.next_commit) is not None:
            if query.since is not None and commit.date < query.since:
                break
            if changed is None or (len(commit.parents) < 2 and await changed(commit)):
                if len(results) == query.amount:
                    if changed is None:  # Otherwise the walk has passed commits that another filter may want.
                        self._keep(walk, _key(repo, start, query, results[-1].id))
                    return Listing(results=tuple(results), has_more=True)
                results.append(commit)
            stopped = commit.id == query.stop_at or (query.limit and len(results) == query.amount)
            await walk.step()
        return Listing(results=tuple(results), has_more=False)

    async def _resume(self, repo: Repository, start: CommitId, query: LogQuery) -> "_Walk":
        """Return a walk whose next commit is the one after the cursor."""
        kept = self._walks.pop(_key(repo, start, query, query.after), None)
        if kept is not None:
            return kept
        walk = _Walk(self._commits, repo, first_parent=query.first_parent)
        await walk.push([start])
        passed = not query.after
        while not passed and (commit := walk.next_commit) is not None:
            passed = commit.id == query.after
            await walk.step()
        if not passed:
            raise NotFoundError(
                ErrorKind.REF_NOT_FOUND,
                f"`after` {quoted(query.after)} is not in the history of {start[:16]}",
                about=query.after,
            )
        return walk

    def _keep(self, walk: "_Walk", key: tuple[str, CommitId, bool, str]) -> None:
        self._walks[key] = walk
        while len(self._walks) > LOG_WALKS_KEPT:
            self._walks.popitem(last=False)


class _Walk:
    """A history, one commit at a time."""

    def __init__(self, commits: Commits, repo: Repository, *, first_parent: bool) -> None:
        self._commits = commits
        self._repo = repo
        self._first_parent = first_parent
        self._heap: list[tuple[int, int, int, int, Commit]] = []
        self._seen: dict[CommitId, int] = {}
        self._prune_at = _SEEN_KEPT

    @property
    def next_commit(self) -> Commit | None:
        return self._heap[0][-1] if self._heap else None

    async def push(self, commit_ids: Sequence[CommitId]) -> None:
        new = [each for each in dict.fromkeys(commit_ids) if each not in self._seen]
        for commit in await self._commits.get_many(self._repo, new):
            self._seen[commit.id] = commit.generation
            newest = (-commit.date, -commit.created_at, -commit.generation, -int(commit.id, 16))
            heapq.heappush(self._heap, (*newest, commit))

    async def step(self) -> None:
        commit = heapq.heappop(self._heap)[-1]
        if not self._heap and len(self._seen) > self._prune_at:
            self._forget(commit.generation)
        await self.push(commit.parents[:1] if self._first_parent else commit.parents)

    def _forget(self, generation: int) -> None:
        """Forget the commits that are not ancestors of the last one, which is all that is left to walk."""
        self._seen = {each: level for each, level in self._seen.items() if level < generation}
        self._prune_at = max(_SEEN_KEPT, 2 * len(self._seen))


def _key(repo: Repository, start: CommitId, query: LogQuery, after: str) -> tuple[str, CommitId, bool, str]:
    return repo.partition, start, query.first_parent, after
