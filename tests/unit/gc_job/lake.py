"""A lake at the level of the job's contract: commits as sets of addresses, staging, links, copies, retention, a store.

The server's half of a run is played by `Lake` itself; `live` is the model of reachability, in plain Python. Every
deletion is held against it at the moment it happens, so a run that deletes what is live fails where it does.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import pyarrow as pa

from lakebed.env.clock import SECOND, Instant
from lakebed.env.ids import SeededIds
from lakebed.env.work import InlineWorkers
from lakebed.errors import ConflictError, ErrorKind, FencedError, NotFoundError
from lakebed.format.blocks import entry_block
from lakebed.format.gc import (
    COMMITS_FILE,
    OBJECTS_FILE,
    ROOTS,
    UNCOMMITTED_FILE,
    Attempts,
    DataFile,
    Roots,
    commits_key,
    encode_table,
    roots_key,
    uncommitted_key,
)
from lakebed.format.hashing import range_hash
from lakebed.format.layout import METARANGES_FOLDER, RANGES_FOLDER, slice_name
from lakebed.format.metaranges import RangeInfo, encode_metarange, metarange_block, metarange_hash
from lakebed.format.ranges import encode_range
from lakebed.format.tree_names import HASH_DIGITS, hash_of, tree_file_name
from lakebed.model.entries import Entry
from lakebed.model.gc import MarkKind
from lakebed.model.ids import Path, RangeId, RepoUid
from lakebed.spark.gc.polars_tables import PolarsTables
from lakebed.spark.gc.ports import Folder, PublishedMark, Started
from lakebed.spark.gc.protocol import Tools, World

HOUR = 3600.0
DAY = 24 * HOUR
GRACE = 900.0
LINK = DAY
SLICE = HOUR
SLACK = 60.0
NAMESPACE = "s3://bucket/lake"
UID = RepoUid("0000000000000000uid0")


class ManualClock:
    """Time that goes only when it is told to. `offset` is how far the store's clock is off."""

    def __init__(self) -> None:
        self.at = 1_790_000_000.0

    def now(self) -> Instant:
        return Instant(round(self.at * SECOND))

    def monotonic(self) -> float:
        return self.at

    async def sleep(self, seconds: float) -> None:
        await asyncio.get_running_loop().create_future()  # Heartbeats do not beat here.


class MemoryStore:
    """A `Store` in memory, whose deletions somebody looks at."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self.objects: dict[str, tuple[bytes, Instant]] = {}
        self.skew = 0.0
        self.on_delete: Callable[[Sequence[str]], None] = lambda _keys: None
        self.broken: dict[str, Exception] = {}
        """By what the key of a failing get, list or delete begins with."""
        self.log: list[str] = []

    def _fail(self, key: str) -> None:
        for prefix, error in self.broken.items():
            if key.startswith(prefix):
                raise error

    async def get(self, key: str) -> bytes:
        self._fail(key)
        if key not in self.objects:
            raise NotFoundError(ErrorKind.KEY_NOT_FOUND, key)
        return self.objects[key][0]

    async def put(self, key: str, data: bytes) -> None:
        self._fail(f"put:{key}")
        self.objects[key] = (data, self.now())

    def now(self) -> Instant:
        return Instant(self._clock.now() + round(self.skew * SECOND))

    async def mtime(self, key: str) -> Instant:
        return self.objects[key][1]

    async def folder(self, prefix: str) -> Folder:
        self.log.append(f"list {prefix}")
        self._fail(prefix)
        below = [key for key in self.objects if key.startswith(prefix)]
        folders = sorted({k[len(prefix) :].split("/")[0] for k in below if "/" in k[len(prefix) :]})
        return Folder(folders=folders, objects=self._rows(k for k in below if "/" not in k[len(prefix) :]))

    async def list(self, prefix: str) -> AsyncIterator[pa.Table]:
        self.log.append(f"list {prefix}")
        self._fail(prefix)
        keys = sorted(key for key in self.objects if key.startswith(prefix))
        for at in range(0, len(keys), 3):
            yield self._rows(key for key in keys[at : at + 3] if key in self.objects)

    async def delete(self, keys: Sequence[str]) -> None:
        self.log.append(f"delete {len(keys)}")
        for key in keys:
            self._fail(f"delete:{key}")
        self.on_delete(keys)
        for key in keys:
            self.objects.pop(key, None)

    async def copy(self, source: str, target: str) -> None:
        await self.put(target, await self.get(source))

    def _rows(self, keys: Any) -> pa.Table:
        rows = [(key, len(self.objects[key][0]), self.objects[key][1]) for key in keys]
        columns = list(zip(*rows, strict=True)) if rows else [(), (), ()]
        return pa.table(
            [pa.array(c, f.type) for c, f in zip(columns, OBJECTS_FILE.schema, strict=True)],
            OBJECTS_FILE.schema,
        )


@dataclass
class Commit:
    id: str
    parents: tuple[str, ...]
    created_at: float
    entries: dict[str, str]
    metarange: str
    condemned: bool = False


@dataclass
class Branch:
    head: str
    staged: dict[str, str] = field(default_factory=dict)
    nonces: list[str] = field(default_factory=list)


class Lake:
    """A repository, and the server's side of garbage collection. `between` runs whenever the job has asked for
    something: that is when others work.
    """

    def __init__(self, seed: int = 0) -> None:
        self.ids = SeededIds(seed)
        self.clock = ManualClock()
        self.store = MemoryStore(self.clock)
        self.store.on_delete = self._look
        self.commits: dict[str, Commit] = {}
        self.trees: dict[str, tuple[str, ...]] = {}
        self.branches: dict[str, Branch] = {}
        self.tags: dict[str, str] = {}
        self.links: dict[str, tuple[float, float | None]] = {}
        self.retired: list[tuple[float, str]] = []
        self.copies: list[tuple[float, str]] = []
        self.rules: float | None = None
        self.attempts: tuple[Attempts, ...] = ()
        self.marks: list[PublishedMark] = []
        self.lease: str | None = None
        self.held_by_another = False
        self.token = 0
        self.calls: list[str] = []
        self.between: Callable[[str], Awaitable[None]] | None = None
        self.uid = UID
        self.empty_live = False
        self.scan_seconds = 0.0
        self._slices: dict[float, tuple[str, float, int]] = {}
        self._names = 0
        self.commit_tree("main", {}, ())

    # What users do.

    def address(self, *, slow: float = 0.0) -> str:
        """Return a new address, in the slice of a process whose clock is `slow` seconds behind."""
        now = self.clock.at - slow
        name, opened, count = self._slices.get(slow, ("", 0.0, 0))
        if not name or now - opened >= SLICE or count >= 5:
            name, opened, count = slice_name(Instant(round(now * SECOND)), self.ids.token()), now, 0
        self._slices[slow] = (name, opened, count + 1)
        self._names += 1
        return f"data/{name}/{self._names:020}"

    def put(self, address: str, size: int = 3) -> str:
        self.store.objects[address] = (b"x" * size, self.store.now())
        return address

    def stage(self, branch: str, path: str, address: str) -> None:
        staged = self.branches[branch].staged
        if path in staged:
            self.retired.append((self.clock.at + GRACE, staged[path]))
        staged[path] = address

    def upload(self, branch: str, path: str, *, slow: float = 0.0) -> str:
        address = self.put(self.address(slow=slow))
        self.stage(branch, path, address)
        return address

    def unstage(self, branch: str, path: str) -> None:
        self.retired.append((self.clock.at + GRACE, self.branches[branch].staged.pop(path)))

    def issue_link(self) -> str:
        address = self.address()
        self.links[address] = (self.clock.at + LINK, None)
        return address

    def link(self, branch: str, path: str, address: str) -> bool:
        until, used = self.links[address]
        if used is not None or until < self.clock.at:
            return False
        self.links[address] = (until, self.clock.at)
        self.stage(branch, path, address)
        return True

    def copy(self, source: str, path: str, branch: str, target: str) -> None:
        found = {**self.commits[self.branches[source].head].entries, **self.branches[source].staged}
        if path in found:
            self.copies.append((self.clock.at + DAY, found[path]))
            self.stage(branch, target, found[path])

    def commit(self, branch: str) -> str:
        at = self.branches[branch]
        entries = {**self.commits[at.head].entries, **at.staged}
        self.retired += [(self.clock.at + GRACE, address) for address in at.staged.values()]
        return self.commit_tree(branch, entries, (at.head,))

    def merge(self, source: str, branch: str) -> None:
        theirs, ours = self.branches[source].head, self.branches[branch].head
        entries = {**self.commits[ours].entries, **self.commits[theirs].entries}
        staged = self.branches[branch].staged
        self.commit_tree(branch, entries, (ours, theirs))
        self.branches[branch].staged = staged

    def commit_tree(self, branch: str, entries: dict[str, str], parents: tuple[str, ...]) -> str:
        commit = Commit(
            id=(self.ids.token() * 4)[:64],
            parents=parents,
            created_at=self.clock.at,
            entries=entries,
            metarange=self._write_tree(entries, parents),
        )
        self.commits[commit.id] = commit
        self.branches[branch] = Branch(head=commit.id)
        return commit.id

    def create_branch(self, name: str, commit: str) -> None:
        if not self.commits[commit].condemned and name not in self.branches:
            self.branches[name] = Branch(head=commit)

    def delete_branch(self, name: str) -> None:
        gone = self.branches.pop(name)
        self.retired += [(self.clock.at + GRACE, address) for address in gone.staged.values()]

    def reset(self, branch: str) -> None:
        for path in list(self.branches[branch].staged):
            self.unstage(branch, path)

    def tag(self, name: str, commit: str) -> None:
        if not self.commits[commit].condemned:
            self.tags[name] = commit

    # The model.

    def staged(self) -> set[str]:
        return {address for b in self.branches.values() for address in b.staged.values()}

    def protected(self) -> set[str]:
        """What is uncommitted and referenced, or left its place less than a grace ago."""
        now = self.clock.at
        links = {
            address
            for address, (until, used) in self.links.items()
            if (used is None and until >= now) or (used is not None and used + GRACE >= now)
        }
        left = {address for until, address in [*self.retired, *self.copies] if until >= now}
        return self.staged() | links | left

    def live(self) -> set[str]:
        """Every address that something refers to. What is not condemned may be a base of something new."""
        committed = {a for c in self.commits.values() if not c.condemned for a in c.entries.values()}
        return committed | self.protected()

    def reachable_commits(self) -> set[str]:
        found, left = set(), [*(b.head for b in self.branches.values()), *self.tags.values()]
        while left:
            commit = left.pop()
            if commit not in found:
                found.add(commit)
                left += self.commits[commit].parents
        return found | {c.id for c in self.commits.values() if not c.condemned}

    def live_files(self) -> set[str]:
        """Every range and metarange file that a tree needs."""
        found = set()
        for commit_id in self.reachable_commits():
            metarange = self.commits[commit_id].metarange
            if metarange:
                found.add(f"{METARANGES_FOLDER}{metarange}.parquet")
                found |= {f"{RANGES_FOLDER}{name}.parquet" for name in self.trees[metarange]}
        return found

    def check(self) -> None:
        """What is referred to, and was stored, is there."""
        stored = {
            a for c in self.commits.values() if not c.condemned for a in c.entries.values()
        } | self.staged()
        missing = stored - self.store.objects.keys()
        assert not missing, f"live objects are gone: {sorted(missing)}"
        assert self.live_files() <= self.store.objects.keys(), "files of live trees are gone"

    def _look(self, keys: Sequence[str]) -> None:
        wrong = set(keys) & (self.live() | self.live_files())
        assert not wrong, f"deletes what is live: {sorted(wrong)}"

    def data(self) -> set[str]:
        return {key for key in self.store.objects if key.startswith("data/")}

    def files(self) -> set[str]:
        return {key for key in self.store.objects if key.startswith((RANGES_FOLDER, METARANGES_FOLDER))}

    # Trees.

    def _write_tree(self, entries: Mapping[str, str], parents: Sequence[str]) -> str:
        if not entries:
            return ""
        nonce = self.ids.token()
        known = {
            hash_of(name): name for p in parents for name in self.trees.get(self.commits[p].metarange, ())
        }
        infos = []
        for letter in sorted({path[0] for path in entries}):
            paths = sorted(path for path in entries if path[0] == letter)
            block = entry_block(
                Entry(
                    path=Path(path),
                    address=entries[path],
                    checksum="c",
                    size_bytes=3,
                    mtime=Instant(0),
                    content_type="",
                    metadata={},
                )
                for path in paths
            )
            digest = range_hash(block)
            name, data = known.get(digest[:HASH_DIGITS], tree_file_name(digest, nonce)), encode_range(block)
            self.store.objects.setdefault(f"{RANGES_FOLDER}{name}.parquet", (data, self.store.now()))
            infos.append(
                RangeInfo(
                    id=RangeId(name),
                    hash=digest,
                    min_key=paths[0],
                    max_key=paths[-1],
                    count=len(paths),
                    bytes=len(data),
                )
            )
        block = metarange_block(infos)
        metarange = tree_file_name(metarange_hash(block), nonce)
        key = f"{METARANGES_FOLDER}{metarange}.parquet"
        self.store.objects[key] = (encode_metarange(block), self.store.now())
        self.trees[metarange] = tuple(info.id for info in infos)
        return metarange

    # The server.

    async def _called(self, name: str) -> None:
        self.calls.append(name)
        self.store.log.append(name)
        if self.between is not None:
            await self.between(name)

    async def begin(self, kind: Literal["mark", "sweep"], *, grace_seconds: float) -> Started:
        await self._called(f"begin {kind}")
        if self.held_by_another:
            raise ConflictError(ErrorKind.GC_RUNNING, "held")
        self.token += 1
        run = slice_name(Instant(self.clock.now() + self.token), self.ids.token())
        self.lease = run
        return Started(
            run=run,
            token=self.token,
            repository="lake",
            uid=self.uid,
            namespace=NAMESPACE,
            now=self.clock.now(),
            lease_seconds=60.0,
            grace_seconds=GRACE,
            link_seconds=LINK,
            slice_seconds=SLICE,
            clock_slack_seconds=SLACK,
            marks=tuple(self.marks),
        )

    async def renew(self, started: Started) -> Instant:
        await self._called("renew")
        if self.lease != started.run:
            raise FencedError(ErrorKind.LEASE_LOST, "lost")
        return self.clock.now()

    async def prepare_uncommitted(self, started: Started, continuation: str) -> tuple[DataFile, str]:
        await self._called("uncommitted")
        self.clock.at += self.scan_seconds
        names = sorted(self.branches)
        at = int(continuation or 0)
        if at < 3:
            mine = [name for n, name in enumerate(names) if page_of(name) == at]
            found = [(a, "row") for name in mine for a in self.branches[name].staged.values()]
            following = str(at + 1)
        else:
            found = [(a, "link") for a in sorted(self.protected() - self.staged())]
            following = ""
        columns = [[a for a, _ in found], [0] * len(found), [s for _, s in found]]
        key = uncommitted_key(started.run, at, "t")
        await self.store.put(key, encode_table(UNCOMMITTED_FILE, table(UNCOMMITTED_FILE.schema, columns)))
        return DataFile(key, len(found)), following

    async def prepare_commits(self, started: Started) -> str:
        await self._called("commits")
        self._condemn()
        reachable = self.reachable_commits()
        rows = [
            (c.id, c.metarange, not c.condemned and not self.empty_live, c.id in reachable)
            for c in self.commits.values()
        ]
        key = commits_key(started.run, 0, "t")
        await self.store.put(
            key, encode_table(COMMITS_FILE, table(COMMITS_FILE.schema, list(zip(*rows, strict=True))))
        )
        roots = Roots(
            uid=self.uid,
            commits=(DataFile(key, len(rows)),),
            nonces=tuple(n for b in self.branches.values() for n in b.nonces),
            attempts=self.attempts,
        )
        await self.store.put(roots_key(started.run, "t"), ROOTS.seal(roots))
        await self._called("prepared")
        return roots_key(started.run, "t")

    def _condemn(self) -> None:
        if self.rules is None:
            return
        live = {*(b.head for b in self.branches.values()), *self.tags.values()}
        for branch in self.branches.values():
            child = self.commits[branch.head]
            while child.created_at >= self.clock.at - self.rules and child.parents:
                child = self.commits[child.parents[0]]
                live.add(child.id)
        for commit in self.commits.values():
            commit.condemned = commit.condemned or commit.id not in live

    async def publish(self, started: Started, kind: MarkKind, counts: Mapping[str, int]) -> Instant:
        await self._called("publish")
        if self.lease != started.run:
            raise FencedError(ErrorKind.LEASE_LOST, "lost")
        since = 0 if kind is MarkKind.CLEAN else self.marks[0].optimized_since_clean + 1
        mark = PublishedMark(
            run=started.run,
            started_at=started.now,
            marked_at=self.clock.now(),
            kind=kind,
            optimized_since_clean=since,
        )
        self.marks = [mark, *self.marks][:20]
        return mark.marked_at

    async def start_sweep(self, started: Started, mark: str) -> None:
        await self._called(f"start sweep {mark}")

    async def withdraw_marks(self, started: Started) -> None:
        await self._called("withdraw marks")
        if self.lease != started.run:
            raise FencedError(ErrorKind.LEASE_LOST, "lost")
        self.marks = []

    async def end(self, started: Started, outcome: str, counts: Mapping[str, int]) -> None:
        await self._called(f"end {outcome}")
        if self.lease == started.run:
            self.lease = None

    def world(self) -> World[Any]:
        return World(server=self, open=self.tools, clock=self.clock)

    def tools(self, started: Started) -> Tools[Any]:
        tables = PolarsTables(
            self.store, namespace=started.namespace, clock=self.clock, workers=InlineWorkers()
        )
        return Tools(self.store, tables)


def page_of(name: str) -> int:
    """Return on which page a branch is listed."""
    return sum(name.encode()) % 3


def table(schema: pa.Schema, columns: Sequence[Sequence[Any]]) -> pa.Table:
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema)
