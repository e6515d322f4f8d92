"""`prepare_commits`: which commits are live, written down for the job that collects.

For a run that marks, commits that are to expire are condemned first; `condemning` has the order and why. Without a run
nothing is condemned, and every commit is live: whoever only lists cannot let anything go.

Every file carries the attempt's name, and the reply says where it lies. A preparation that was given up may go on for
a while: it must not replace what the next one has written.
"""

from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

import pyarrow as pa

from lakebed.format.gc import (
    COMMITS_FILE,
    ROOTS,
    Attempts,
    DataFile,
    Roots,
    commits_key,
    encode_table,
    roots_key,
)
from lakebed.format.gc_rules import decode_gc_rules
from lakebed.gc.condemning import Condemner
from lakebed.gc.names import run_name
from lakebed.gc.references import References, read_commits, read_references, require_known
from lakebed.gc.retention import CommitNode, reachable_from, retain
from lakebed.gc.run_record import RunRecords
from lakebed.gc.state import finish_attempt, require, start_attempt
from lakebed.model.gc import GcState
from lakebed.model.gc_rules import GcRules
from lakebed.model.ids import CommitId
from lakebed.model.repository import Repository
from lakebed.objects.port import ObjectStore
from lakebed.refs.condemned import is_final
from lakebed.refs.keys import GC_RULES_KEY
from lakebed.versioning.parts import Parts

_FILE_ROWS = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class RunToken:
    """A run, and the token of its lease."""

    run: str
    token: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedCommits:
    """Where the list lies: `roots` is the key of `roots.json`, which names every file."""

    run: str
    attempt: str
    roots: str


@dataclass(frozen=True, slots=True)
class _Decided:
    """The commits and refs at the end of a preparation, and what is kept of them."""

    commits: Mapping[CommitId, CommitNode]
    refs: References
    live: frozenset[CommitId]
    reachable: frozenset[CommitId]


class CommitLists:
    """Prepares lists of commits."""

    def __init__(
        self, parts: Parts, records: RunRecords, store_of: Callable[[Repository], Awaitable[ObjectStore]]
    ) -> None:
        self._parts = parts
        self._records = records
        self._store_of = store_of

    async def prepare(self, repo: Repository, of: RunToken | None) -> PreparedCommits:
        """Condemn what is to expire, and write which commits are live.

        Raises:
            FencedError: `LEASE_LOST`.
            CorruptError: something cannot be read. Then nobody can tell what is live, and nothing is written.
        """
        if of is None:
            now = await self._parts.kv.now()
            attempt = run_name(now, self._parts.ids.token())
            return await self._write(repo, attempt, attempt, await self._list(repo))
        state = await self._records.update(
            repo,
            lambda state, now: start_attempt(
                state, of.run, of.token, chance=self._parts.ids.token(), now=now
            ),
        )
        attempt = require(state, of.run, of.token).attempt
        decided = await self._decide(repo, state, attempt)
        prepared = await self._write(repo, of.run, attempt, decided)
        await self._records.update(repo, lambda state, _now: finish_attempt(state, of.run, of.token, attempt))
        return prepared

    async def withdraw(self, repo: Repository, of: RunToken) -> None:
        """Let everything stand again that was condemned for a mark which is not published, and now never will be.

        A new attempt begins first: from there the one that condemned can no longer be published. Crash after that:
        the next run releases the commits, or takes them over. Errors as for `prepare`.
        """
        state = await self._records.update(
            repo,
            lambda state, now: start_attempt(
                state, of.run, of.token, chance=self._parts.ids.token(), now=now
            ),
        )
        condemner = self._condemner(repo, state, require(state, of.run, of.token).attempt)
        condemned: dict[str, list[CommitId]] = defaultdict(list)
        for node in (await read_commits(self._parts.kv, self._parts.workers, repo)).values():
            if node.condemned_by and not _is_gone(state, node):
                condemned[node.condemned_by].append(node.id)
        for owner, released in condemned.items():
            await condemner.release(released, condemner=owner)

    async def _list(self, repo: Repository) -> _Decided:
        refs = await read_references(self._parts.kv, repo)
        commits = await read_commits(self._parts.kv, self._parts.workers, repo)
        return _Decided(commits, refs, frozenset(commits), frozenset(commits))

    async def _decide(self, repo: Repository, state: GcState, attempt: str) -> _Decided:
        kv, workers = self._parts.kv, self._parts.workers
        now, rules = await kv.now(), await self._rules(repo)
        # Refs before commits: a commit is stored before a ref names it.
        named = (await read_references(kv, repo)).named(now)
        commits = await read_commits(kv, workers, repo)
        require_known(commits, named)
        live = await workers.run(retain, commits, named, rules, now=now)
        gone = {node.id for node in commits.values() if _is_gone(state, node)}
        expiring = {
            node.id: node.condemned_by
            for node in commits.values()
            if node.id not in live and node.id not in gone
        }
        # What attempts that came to nothing have condemned, and is not to expire now, shall stand again. Only names seen
        # here: those of runs that lost the lease before, so none of them can be published any more.
        stale: dict[str, list[CommitId]] = defaultdict(list)
        for node in commits.values():
            if node.condemned_by not in ("", attempt) and node.id in live and node.id not in gone:
                stale[node.condemned_by].append(node.id)
        condemner = self._condemner(repo, state, attempt)
        await condemner.condemn(expiring)
        refs = await condemner.fence_readers(await read_references(kv, repo), frozenset(expiring))
        # Refs before commits once more: what an operation has finished by now is in this list, and the files of all
        # others bear a nonce that is still pending.
        commits, named = await read_commits(kv, workers, repo), refs.named(now)
        require_known(commits, named)
        still_live = await workers.run(retain, commits, named, rules, now=now)
        await condemner.release(expiring.keys() & still_live)
        for owner, released in stale.items():
            await condemner.release(released, condemner=owner)
        condemned = (expiring.keys() - still_live) | (gone - named.all)
        kept = frozenset(commits) - condemned
        # From what is kept, not from what the rules would keep: the files of what was let go under stricter ones may be
        # gone. And not from what is named alone: a ref that comes back to a kept commit reaches all below it again.
        return _Decided(commits, refs, kept, await workers.run(reachable_from, commits, kept))

    def _condemner(self, repo: Repository, state: GcState, attempt: str) -> Condemner:
        return Condemner(
            self._parts.kv,
            repo,
            attempt=attempt,
            fence=self._records.fence(repo, state),
            clock=self._parts.clock,
            ids=self._parts.ids,
        )

    async def _rules(self, repo: Repository) -> GcRules | None:
        item = await self._parts.kv.get(repo.partition, GC_RULES_KEY)
        return decode_gc_rules(item.value) if item is not None else None

    async def _write(self, repo: Repository, run: str, attempt: str, decided: _Decided) -> PreparedCommits:
        store = await self._store_of(repo)
        ids = sorted(decided.commits)
        files: list[DataFile] = []
        for start in range(0, max(1, len(ids)), _FILE_ROWS):
            part = ids[start : start + _FILE_ROWS]
            key = commits_key(run, len(files), attempt)
            await store.put(key, await self._parts.workers.run(_encode, decided, part))
            files.append(DataFile(key, len(part)))
        key = roots_key(run, attempt)
        await store.put(key, ROOTS.seal(_roots(repo, decided, files)))
        return PreparedCommits(run=run, attempt=attempt, roots=key)


def _is_gone(state: GcState, node: CommitNode) -> bool:
    """Return whether a commit is condemned for ever: its objects may be deleted already."""
    return bool(node.condemned_by) and is_final(state, node.condemned_by)


def _encode(decided: _Decided, ids: list[CommitId]) -> bytes:
    nodes = [decided.commits[each] for each in ids]
    table = pa.table(
        {
            "commit_id": pa.array(ids, pa.string()),
            "metarange_id": pa.array([node.tree for node in nodes], pa.string()),
            "live": pa.array([each in decided.live for each in ids], pa.bool_()),
            "reachable": pa.array([each in decided.reachable for each in ids], pa.bool_()),
        }
    )
    return encode_table(COMMITS_FILE, table)


def _roots(repo: Repository, decided: _Decided, files: list[DataFile]) -> Roots:
    branches = decided.refs.live_branches
    trees = {tree for branch in branches if (tree := branch.compacted) is not None}
    trees |= {retired.tree for record in decided.refs.branches.values() for retired in record.retired_trees}
    trees |= {decided.commits[stash.base].tree for stash in decided.refs.stashes}
    return Roots(
        uid=repo.uid,
        commits=tuple(files),
        nonces=tuple(sorted(decided.refs.pending)),
        attempts=tuple(
            Attempts(
                branch.incarnation,
                branch.last_token,
                tuple(slot.token for slot in (branch.l2_slot, branch.fold_slot) if slot is not None),
            )
            for branch in branches
        ),
        trees=tuple(sorted(tree for tree in trees if tree)),
    )
