"""Commit records: written once, cached for ever, found by id.

Everything in a commit but `condemned_by` is fixed when it is written, so a commit
read once need not be read again. `condemned_by` is the collector's and does
change: whoever is about to build on a commit asks `require_standing`, which
always reads the record itself.
"""

from collections import OrderedDict
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace

from lakebed.env.clock import Instant
from lakebed.errors import (
    AlreadyExistsError,
    ConflictError,
    ErrorKind,
    NotFoundError,
    UnavailableError,
    is_unknown,
    quoted,
)
from lakebed.format.commit_id import commit_id
from lakebed.format.records import decode_commit, encode_commit
from lakebed.format.tree_names import hash_of
from lakebed.kv.port import Expect, KVStore, Row, VersionFence
from lakebed.limits import COMMIT_CACHE_ITEMS, SWAP_ATTEMPTS_MAX
from lakebed.model.commits import Commit
from lakebed.model.ids import CommitId, MetarangeId, Nonce
from lakebed.model.repository import Repository
from lakebed.refs.anchor import anchor
from lakebed.refs.keys import COMMITS_PREFIX, commit_key
from lakebed.refs.scans import scan_records

_FIRST_GENERATION = 1
_ADD_BATCH = 1000


class Commits:
    """The commits of every repository in one KV store."""

    def __init__(self, kv: KVStore, *, cache_items: int = COMMIT_CACHE_ITEMS) -> None:
        self._kv = kv
        self._cache_items = cache_items
        self._cache: OrderedDict[tuple[str, CommitId], Commit] = OrderedDict()

    async def create(
        self,
        repo: Repository,
        *,
        committer: str,
        message: str,
        tree: MetarangeId,
        date: int,
        metadata: Mapping[str, str],
        parents: Sequence[CommitId],
        nonce: Nonce,
    ) -> Commit:
        """Write a commit on `parents` and return it, as its record has it. It is nobody's HEAD yet.

        Raises:
            NotFoundError: `COMMIT_NOT_FOUND`: a parent does not exist.
        """
        commit = new_commit(
            committer=committer,
            message=message,
            tree=tree,
            date=date,
            metadata=metadata,
            parents=await self.get_many(repo, parents),
            nonce=nonce,
            now=await self._kv.now(),
        )
        return await self.add(repo, commit)

    async def add(self, repo: Repository, commit: Commit, *, fence: VersionFence | None = None) -> Commit:
        """Write a commit's record, and return what it says. One that is there already is never overwritten, and no
        error if it says the same, but when it was written and which of several equal trees it has: an operation that
        starts over may come to the same commit again, by way of a tree that was compacted meanwhile.

        With a `fence` it is written only while that holds (see `require_standing`).

        Raises:
            AlreadyExistsError: `COMMIT_EXISTS`: there is another commit with this id.
            ConflictError: `FENCE_LOST`.
        """
        for _ in range(SWAP_ATTEMPTS_MAX):
            try:
                await self._kv.swap(
                    repo.partition,
                    commit_key(commit.id),
                    encode_commit(commit),
                    expected=Expect.ABSENT,
                    fence=fence,
                )
            except ConflictError as error:
                if error.kind is ErrorKind.FENCE_LOST:
                    raise
            except UnavailableError as error:
                if not is_unknown(error):
                    raise
            else:
                self._remember(repo, commit)
                return commit
            item = await self._kv.get(repo.partition, commit_key(commit.id))
            if item is None:
                continue  # The reply was lost with the request. Sending a record twice does no harm.
            standing = decode_commit(item.value)
            if _essence(standing) == _essence(commit):
                return standing
            raise AlreadyExistsError(
                ErrorKind.COMMIT_EXISTS, f"{repo.name} has another commit with the id {commit.id}"
            )
        raise UnavailableError(ErrorKind.OUTCOME_UNKNOWN, f"commit {commit.id} may or may not be written")

    async def add_many(self, repo: Repository, commits: Sequence[Commit]) -> None:
        """Write many records, a batch in one step where none of them is there yet; otherwise as `add`."""
        for start in range(0, len(commits), _ADD_BATCH):
            batch = commits[start : start + _ADD_BATCH]
            rows = [Row(commit_key(each.id), encode_commit(each), Expect.ABSENT) for each in batch]
            try:
                await self._kv.set_rows(repo.partition, rows)
            except ConflictError:
                for commit in batch:
                    await self.add(repo, commit)
            except UnavailableError as error:
                if not is_unknown(error):
                    raise
                for commit in batch:
                    await self.add(repo, commit)

    async def get(self, repo: Repository, commit_id: CommitId) -> Commit:
        """Return a commit. Its `condemned_by` may be out of date.

        Raises:
            NotFoundError: `COMMIT_NOT_FOUND`.
        """
        cached = self._cached(repo, commit_id)
        if cached is not None:
            return cached
        item = await self._kv.get(repo.partition, commit_key(commit_id))
        if item is None:
            raise _missing(repo, commit_id)
        commit = decode_commit(item.value)
        self._remember(repo, commit)
        return commit

    async def get_many(self, repo: Repository, commit_ids: Sequence[CommitId]) -> list[Commit]:
        """Return the commits in the order asked for; all that are not cached cost one round trip. As `get`."""
        found = {commit_id: self._cached(repo, commit_id) for commit_id in commit_ids}
        wanted = [commit_id for commit_id, commit in found.items() if commit is None]
        if wanted:
            items = await self._kv.get_many([(repo.partition, commit_key(each)) for each in wanted])
            for commit_id, item in zip(wanted, items, strict=True):
                if item is None:
                    raise _missing(repo, commit_id)
                read = decode_commit(item.value)
                self._remember(repo, read)
                found[commit_id] = read
        return [commit for each in commit_ids if (commit := found[each]) is not None]

    async def require_standing(self, repo: Repository, commit_id: CommitId) -> VersionFence:
        """Read the record itself, and return a fence that holds while it stays as it is.

        Raises:
            NotFoundError: `COMMIT_NOT_FOUND`: there is no such commit, or it is condemned.
        """
        return await anchor(self._kv, repo, commit_id)

    async def find(self, repo: Repository, prefix: str, *, limit: int) -> list[CommitId]:
        """Return up to `limit` ids that begin with `prefix`, the smallest first."""
        found: list[CommitId] = []
        async for items in scan_records(
            self._kv, repo.partition, COMMITS_PREFIX, prefix=prefix, page_items_max=limit
        ):
            found.extend(CommitId(item.key[len(COMMITS_PREFIX) :].decode()) for item in items)
            if len(found) >= limit:
                break
        return found[:limit]

    async def find_by_tree(self, repo: Repository, tree: MetarangeId) -> CommitId:
        """Return the newest standing commit with exactly this tree. Every record is looked at, few are decoded.

        Raises:
            NotFoundError: `COMMIT_NOT_FOUND`: all commits that have it are condemned; `KEY_NOT_FOUND`: none ever had it.
        """
        found: list[Commit] = []
        async for items in scan_records(self._kv, repo.partition, COMMITS_PREFIX):
            likely = [decode_commit(item.value) for item in items if tree.encode() in item.value]
            found += [commit for commit in likely if commit.tree == tree]
        if not found:
            raise NotFoundError(
                ErrorKind.KEY_NOT_FOUND, f"there is no metarange {quoted(tree)} of a commit in {repo.name}"
            )
        standing = [commit for commit in found if not commit.condemned_by]
        if not standing:
            raise NotFoundError(
                ErrorKind.COMMIT_NOT_FOUND,
                f"commit {found[0].id}, which has the metarange {tree}, has expired and its objects are being removed: "
                "choose that of a newer one",
            )
        return max(standing, key=lambda commit: commit.created_at).id

    async def scan(self, repo: Repository, *, after: str = "") -> AsyncIterator[list[Commit]]:
        """Yield pages of all commits with an id greater than `after`, in order of id, as they are stored now."""
        async for items in scan_records(self._kv, repo.partition, COMMITS_PREFIX, after=after):
            yield [decode_commit(item.value) for item in items]

    async def scan_leaves(self, repo: Repository) -> AsyncIterator[list[Commit]]:
        """Yield pages of the commits that are nobody's first parent, in order of id.

        Two scans: of commits written meanwhile, some may appear and some of their first
        parents, too. Every commit that had no first child when the scan ended appears.
        """
        with_child: set[bytes] = set()
        async for commits in self.scan(repo):
            with_child.update(bytes.fromhex(commit.parents[0]) for commit in commits if commit.parents)
        async for commits in self.scan(repo):
            leaves = [commit for commit in commits if bytes.fromhex(commit.id) not in with_child]
            if leaves:
                yield leaves

    def _cached(self, repo: Repository, commit_id: CommitId) -> Commit | None:
        key = (repo.partition, commit_id)
        commit = self._cache.get(key)
        if commit is not None:
            self._cache.move_to_end(key)
        return commit

    def _remember(self, repo: Repository, commit: Commit) -> None:
        self._cache[repo.partition, commit.id] = commit
        while len(self._cache) > self._cache_items:
            self._cache.popitem(last=False)


def new_commit(
    *,
    committer: str,
    message: str,
    tree: MetarangeId,
    date: int,
    metadata: Mapping[str, str],
    parents: Sequence[Commit],
    nonce: Nonce,
    now: Instant,
) -> Commit:
    """Return a commit on `parents`: one generation above the highest, and created after every one of them."""
    parent_ids = tuple(parent.id for parent in parents)
    return Commit(
        id=commit_id(
            committer=committer,
            message=message,
            tree=tree,
            date=date,
            metadata=metadata,
            parents=parent_ids,
            nonce=nonce,
        ),
        committer=committer,
        message=message,
        tree=tree,
        date=date,
        created_at=max([now, *(Instant(parent.created_at + 1) for parent in parents)]),
        parents=parent_ids,
        generation=max((parent.generation + 1 for parent in parents), default=_FIRST_GENERATION),
        nonce=nonce,
        metadata=dict(metadata),
    )


def _essence(commit: Commit) -> Commit:
    tree = MetarangeId(hash_of(commit.tree))
    return replace(commit, tree=tree, condemned_by="", created_at=Instant(0))


def _missing(repo: Repository, commit_id: CommitId) -> NotFoundError:
    return NotFoundError(ErrorKind.COMMIT_NOT_FOUND, f"commit {quoted(commit_id)} not found in {repo.name}")
