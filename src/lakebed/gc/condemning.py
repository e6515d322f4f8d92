"""Commits on their way out. Order matters.

    1. condemn   swap the records of commits that are to expire to `condemned(attempt)`: from here nothing new is
                 built on them, because whoever builds publishes first and looks at the commit second
    2. list      refs, and every branch's `pending`: what was built before 1 is seen here
    3. fence     operations that read a condemned commit: their entry in `pending` is removed, so their last swap fails.
                 A lost removal means that the record has changed: it is read again
    4. release   what refs name after all, and what lives with that: swap it back, if it is still as 1 left it
    5. prepared  swap of the run record (`state`): nobody releases under this attempt's name any more

2 before 1 would miss a tag made in between, and its objects would be deleted under it.
Crash anywhere: the attempt is never published, so the next run takes its commits over, or releases them.

An unknown outcome ends the attempt: a write still on its way could condemn or release after 5 what the attempt counts
otherwise. Under the name of the next attempt it means nothing.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from lakebed.env.clock import Clock
from lakebed.env.ids import IdSource
from lakebed.errors import ConflictError, CorruptError, ErrorKind, FencedError, UnavailableError
from lakebed.format.records import decode_branch, decode_commit, encode_commit
from lakebed.gc.references import References
from lakebed.kv.port import Item, KVStore, NamesFence, Row
from lakebed.limits import GC_CONDEMN_BATCH, SWAP_ATTEMPTS_MAX
from lakebed.model.branch import Branch, BranchRecord
from lakebed.model.commits import Commit
from lakebed.model.ids import BranchName, CommitId
from lakebed.model.repository import Repository
from lakebed.refs.backoff import back_off
from lakebed.refs.branches import later, swapped_once
from lakebed.refs.keys import branch_key, commit_key
from lakebed.refs.versioned import Versioned


class Condemner:
    """Condemns and releases commits under the name of one attempt."""

    def __init__(
        self,
        kv: KVStore,
        repo: Repository,
        *,
        attempt: str,
        fence: NamesFence | None,
        clock: Clock,
        ids: IdSource,
    ) -> None:
        self._kv = kv
        self._repo = repo
        self._attempt = attempt
        self._fence = fence
        self._clock = clock
        self._ids = ids

    async def condemn(self, commits: Mapping[CommitId, str]) -> None:
        """Condemn commits that stand, or that an attempt without a mark has condemned before: as they were seen.

        Raises:
            FencedError: `LEASE_LOST`: somebody else condemns or releases here.
        """

        def condemned(commit: Commit) -> Commit:
            if commit.condemned_by == self._attempt:
                return commit
            if commit.condemned_by != commits[commit.id]:
                raise FencedError(
                    ErrorKind.LEASE_LOST, f"commit {commit.id} is being condemned or released by another run"
                )
            return replace(commit, condemned_by=self._attempt)

        await self._change(commits, condemned)

    async def release(self, commits: Iterable[CommitId], *, condemner: str | None = None) -> None:
        """Let commits stand that this attempt has condemned, or `condemner`, whose mark was never published.

        What somebody else has condemned meanwhile is left to them; errors as for `condemn`.
        """
        owner = self._attempt if condemner is None else condemner

        def released(commit: Commit) -> Commit:
            return replace(commit, condemned_by="") if commit.condemned_by == owner else commit

        await self._change(commits, released)

    async def fence_readers(self, refs: References, condemned: frozenset[CommitId]) -> References:
        """Remove every pending operation that reads a condemned commit; return the refs as they are then."""
        for branch in refs.live_branches:
            if _readers(branch, condemned):
                refs = refs.with_branch(branch.name, await self._without_readers(branch.name, condemned))
        return refs

    async def _change(self, commits: Iterable[CommitId], change: Callable[[Commit], Commit]) -> None:
        wanted = sorted(commits)
        for start in range(0, len(wanted), GC_CONDEMN_BATCH):
            await self._change_batch(wanted[start : start + GC_CONDEMN_BATCH], change)

    async def _change_batch(self, commits: list[CommitId], change: Callable[[Commit], Commit]) -> None:
        for attempt in range(SWAP_ATTEMPTS_MAX):
            found = await self._kv.get_many([(self._repo.partition, commit_key(each)) for each in commits])
            rows = _rows(commits, found, change)
            if not rows:
                return
            try:
                await self._kv.set_rows(self._repo.partition, rows, fence=self._fence)
            except ConflictError as error:
                if error.kind is ErrorKind.FENCE_LOST:
                    raise FencedError(
                        ErrorKind.LEASE_LOST, "the lease, or a newer preparation, has gone to somebody else"
                    ) from error
            else:
                return
            await back_off(attempt, clock=self._clock, ids=self._ids)
        raise UnavailableError(
            ErrorKind.STORE_UNAVAILABLE, f"commits of {self._repo.name} are changed by too many at once"
        )

    async def _without_readers(self, name: BranchName, condemned: frozenset[CommitId]) -> BranchRecord | None:
        for attempt in range(SWAP_ATTEMPTS_MAX):
            item = await self._kv.get(self._repo.partition, branch_key(name))
            if item is None:
                return None
            record = decode_branch(item.value)
            if not isinstance(record, Branch) or not (gone := _readers(record, condemned)):
                return record
            fenced = replace(
                record,
                pending={nonce: entry for nonce, entry in record.pending.items() if nonce not in gone},
                updated_at=later(record.updated_at, await self._kv.now()),
            )
            if await swapped_once(self._kv, self._repo.partition, fenced, Versioned(record, item.version)):
                return fenced
            await back_off(attempt, clock=self._clock, ids=self._ids)
        raise UnavailableError(
            ErrorKind.STORE_UNAVAILABLE, f"branch {name!r} is changed by too many at once: try again later"
        )


def _readers(branch: Branch, condemned: frozenset[CommitId]) -> frozenset[str]:
    """Return the operations that build on a condemned commit."""
    return frozenset(
        nonce for nonce, entry in branch.pending.items() if not condemned.isdisjoint(entry.commits)
    )


def _rows(commits: list[CommitId], found: list[Item | None], change: Callable[[Commit], Commit]) -> list[Row]:
    rows: list[Row] = []
    for commit_id, item in zip(commits, found, strict=True):
        if item is None:
            raise CorruptError(ErrorKind.FILE_MISSING, f"commit {commit_id} is not in the database")
        commit = decode_commit(item.value)
        changed = change(commit)
        if changed is not commit:
            rows.append(Row(item.key, encode_commit(changed), item.version))
    return rows
