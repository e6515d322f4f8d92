"""Dumps of refs that a server writes into the namespace by itself, so that a lost database loses minutes.

    _lakebed/refs/<uid>/<generation>-<number>    a `refs` file, see `format/dump`

One dump, step by step:

    1. read    the record `dumps/chain`, then branches and tags. The same digest as in the record: done
    2. walk    from the new refs to those of the dump before: the commits that this dump adds; or scan all of them
    3. put     the file under the next number, which fails if the key exists
    4. swap    the record, if it is still as in 1
    5. delete  after a full dump: files that no dump of the last days needs

    crash after    what is left                       next
    1, 2           nothing                            the next round
    3              a file that the record ignores     step 3 of the next round meets it, reads its refs, and goes on from there
    4              files that are too old             the next full dump deletes them

Two servers at once: the put of one fails, and it goes on from the file of the other. A record that was restored from a
backup is behind the files, and the same happens.

Refs are read before commits, as in every dump. A file holds all refs, so the newest file and those it is based on are a
whole dump. What only the collector changes (a commit that is condemned for ever) is in full dumps; a sweep has one
written before it deletes.
"""

import hashlib

import msgspec

from lakebed.env.clock import Instant, after
from lakebed.env.work import Workers
from lakebed.errors import (
    AlreadyExistsError,
    ConflictError,
    CorruptError,
    ErrorKind,
    NotFoundError,
    UnavailableError,
    is_unknown,
)
from lakebed.format.dump import DumpKind, DumpWriter, RefsHead, read_head, read_heads
from lakebed.format.dump_chain import decode_dump_chain, encode_dump_chain
from lakebed.format.records import decode_commit
from lakebed.kv.port import Expect, KVStore, Version
from lakebed.limits import (
    DECODED_RECORDS_MAX,
    REFS_DUMP_ATTEMPTS_MAX,
    REFS_DUMP_FULL_SECONDS,
    REFS_DUMP_INCREMENTS_MAX,
    REFS_DUMP_KEPT_SECONDS,
    REFS_DUMP_SECONDS,
    REFS_DUMP_WALK_MAX,
)
from lakebed.model.dump_chain import DumpChain, FullDump
from lakebed.model.ids import RepoUid
from lakebed.model.repository import Repository
from lakebed.objects.port import ObjectStore
from lakebed.refs.commits import Commits
from lakebed.refs.condemned import read_gc_state
from lakebed.refs.dump import Heads, RefsDumper, settle
from lakebed.refs.dump_files import DumpName, list_dumps
from lakebed.refs.keys import DUMP_CHAIN_KEY, commit_key
from lakebed.refs.new_commits import commits_since
from lakebed.refs.owners import OpenStore

_BATCH = 1000


class AutomaticDumps:
    """Writes the dumps of all repositories. Any number of processes may run it."""

    def __init__(
        self,
        kv: KVStore,
        *,
        dumper: RefsDumper,
        commits: Commits,
        open_store: OpenStore,
        workers: Workers,
        interval_seconds: float = REFS_DUMP_SECONDS,
    ) -> None:
        self._kv = kv
        self._dumper = dumper
        self._commits = commits
        self._open_store = open_store
        self._workers = workers
        self._interval_seconds = interval_seconds
        self._looked: dict[RepoUid, Instant] = {}

    async def run_due(self, repo: Repository, now: Instant) -> str | None:
        """Dump the refs of a repository if they moved and the last look is long enough ago; return the file's name."""
        looked = self._looked.get(repo.uid)
        is_due = looked is None or now >= after(looked, self._interval_seconds) or now < looked
        if not self._interval_seconds or repo.taken_over_by or not is_due:
            return None
        if len(self._looked) >= 2 * DECODED_RECORDS_MAX:
            self._looked.clear()
        self._looked[repo.uid] = now
        return await self.dump(repo)

    async def dump(self, repo: Repository, *, full: bool = False) -> str | None:
        """Dump the refs of a repository if they moved since the last dump; with `full` in any case, and all commits.

        Return the file's name, None if nothing was written.

        Raises:
            ConflictError: `TOO_MANY_RETRIES`: other processes were faster every time.
        """
        store = await self._open_store(repo.namespace)
        chain, version = await self._read(repo)
        noted = chain
        for _ in range(REFS_DUMP_ATTEMPTS_MAX):
            now = await self._kv.now()
            heads = await self._dumper.heads(repo)
            digest = await self._workers.run(_digest, heads)
            if not full and (digest == chain.digest if chain is not None else not heads.commits):
                if chain is not None and chain is not noted:
                    await self._note(repo, chain, version)
                return None
            head, heads, writer = await self._write(repo, store, chain, heads, now, full=full)
            try:
                await store.put(_key(repo, head.number), await self._workers.run(writer.finish))
            except AlreadyExistsError:
                chain = await self._newest(repo, store, chain)
                continue
            written = _after(chain, head, heads)
            await self._note(repo, written, version)
            if head.number == head.base:
                await _expire(repo, store, written.fulls[0].number)
            return str(DumpName(head.uid, head.generation, head.number))
        raise ConflictError(
            ErrorKind.TOO_MANY_RETRIES,
            f"the refs of {repo.name} are dumped by too many at once: try again later",
        )

    async def _write(
        self,
        repo: Repository,
        store: ObjectStore,
        chain: DumpChain | None,
        heads: Heads,
        now: Instant,
        *,
        full: bool,
    ) -> tuple[RefsHead, Heads, DumpWriter]:
        """Return the next file: an increment, or a full dump if one is due or an increment would cost more."""
        if chain is not None and not full and not _is_full_due(chain, now):
            head = _head(repo, chain.number + 1, chain.fulls[-1].number, now)
            writer = await self._write_increment(repo, store, chain, heads, head)
            if writer is not None:
                return head, heads, writer
        number = chain.number + 1 if chain is not None else 1
        head = _head(repo, number, number, now)
        return head, *await self._dumper.read_all(repo, lambda heads: _writer(head, heads))

    async def _write_increment(
        self, repo: Repository, store: ObjectStore, chain: DumpChain, heads: Heads, head: RefsHead
    ) -> DumpWriter | None:
        """Return a file with the commits that are new since the dump before; None if all have to be looked at."""
        try:
            branches, tags = await self._workers.run(read_heads, await store.get(_key(repo, chain.number)))
        except (NotFoundError, CorruptError):
            return None
        before = Heads(branches=tuple(branches), tags=tuple(tags))
        new = await commits_since(
            self._commits, repo, before.commits, heads.commits, limit=REFS_DUMP_WALK_MAX
        )
        if new is None:
            return None
        writer = await self._workers.run(_writer, head, heads)
        for start in range(0, len(new), _BATCH):
            lookups = [(repo.partition, commit_key(each)) for each in new[start : start + _BATCH]]
            # The records themselves: what is cached may not say yet that a commit is condemned.
            found = [
                decode_commit(item.value) for item in await self._kv.get_many(lookups) if item is not None
            ]
            writer.add_commits(settle(found, await read_gc_state(self._kv, repo)))
        return writer

    async def _read(self, repo: Repository) -> tuple[DumpChain | None, Version | Expect]:
        item = await self._kv.get(repo.partition, DUMP_CHAIN_KEY)
        return (decode_dump_chain(item.value), item.version) if item is not None else (None, Expect.ABSENT)

    async def _note(self, repo: Repository, chain: DumpChain, version: Version | Expect) -> None:
        """Store the record. If another process was faster, or the reply is lost, the next dump finds the file."""
        try:
            await self._kv.swap(repo.partition, DUMP_CHAIN_KEY, encode_dump_chain(chain), expected=version)
        except ConflictError:
            return
        except UnavailableError as error:
            if not is_unknown(error):
                raise

    async def _newest(self, repo: Repository, store: ObjectStore, chain: DumpChain | None) -> DumpChain:
        """Return the chain as its newest file tells it: the record is behind."""
        number, fulls = max(await _numbers(repo, store)), chain.fulls if chain is not None else ()
        try:
            data = await store.get(_key(repo, number))
            head = read_head(data)
            branches, tags = read_heads(data)
        except CorruptError:
            # Its refs are unknown, so no increment can build on it.
            return DumpChain(number=number, digest="", fulls=(FullDump(0, Instant(0)),))
        if all(full.number != head.base for full in fulls):
            fulls = (*fulls, FullDump(head.base, head.at))
        return DumpChain(
            number=number, digest=_digest(Heads(branches=tuple(branches), tags=tuple(tags))), fulls=fulls
        )


async def _expire(repo: Repository, store: ObjectStore, oldest: int) -> None:
    """Delete the dumps before the oldest one that is needed."""
    old = [_key(repo, number) for number in await _numbers(repo, store) if number < oldest]
    if old:
        await store.delete(old)


async def _numbers(repo: Repository, store: ObjectStore) -> list[int]:
    found = await list_dumps(store, repo.uid)
    return [each.number for each in found if each.generation == repo.generation]


def _key(repo: Repository, number: int) -> str:
    return DumpName(repo.uid, repo.generation, number).key


def _head(repo: Repository, number: int, base: int, now: Instant) -> RefsHead:
    return RefsHead(
        repository=repo.name,
        uid=repo.uid,
        default_branch=repo.default_branch,
        generation=repo.generation,
        number=number,
        base=base,
        at=now,
    )


def _writer(head: RefsHead, heads: Heads) -> DumpWriter:
    writer = DumpWriter(DumpKind.REFS, head)
    writer.add_branches(heads.branches)
    writer.add_tags(heads.tags)
    return writer


def _digest(heads: Heads) -> str:
    refs = (
        [(b.name, b.commit_id, b.hidden) for b in heads.branches],
        [(t.name, t.commit_id) for t in heads.tags],
    )
    return hashlib.sha256(msgspec.msgpack.encode(refs)).hexdigest()


def _is_full_due(chain: DumpChain, now: Instant) -> bool:
    last = chain.fulls[-1]
    return chain.number - last.number >= REFS_DUMP_INCREMENTS_MAX or now >= after(
        last.at, REFS_DUMP_FULL_SECONDS
    )


def _after(chain: DumpChain | None, head: RefsHead, heads: Heads) -> DumpChain:
    """Return the record after a dump: full dumps stay on it while one of the last days needs them."""
    fulls = chain.fulls if chain is not None else ()
    if head.number == head.base:
        fulls = (*fulls, FullDump(head.number, head.at))
        oldest = after(head.at, -REFS_DUMP_KEPT_SECONDS)
        needed = max((full.number for full in fulls if full.at <= oldest), default=fulls[0].number)
        fulls = tuple(full for full in fulls if full.number >= needed)
    return DumpChain(number=head.number, digest=_digest(heads), fulls=fulls)
