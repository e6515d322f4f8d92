"""A small world for refs: time that a test owns, a KV and stores whose calls a test can spoil or watch."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from lakebed.env.clock import SECOND, Instant, after
from lakebed.env.ids import SeededIds
from lakebed.env.work import InlineWorkers
from lakebed.errors import ConflictError, ErrorKind, UnavailableError
from lakebed.kv.drivers.memory import MemoryKV
from lakebed.kv.port import Item, KVStore, Page
from lakebed.limits import GRACE_SECONDS, LATE_UPLOAD_SECONDS
from lakebed.model.commits import Commit
from lakebed.model.ids import EMPTY_TREE, BranchName, CommitId, MetarangeId, Nonce, RepoName, RepoUid
from lakebed.model.repository import Repository
from lakebed.objects.drivers.memory import MemoryObjects
from lakebed.objects.port import ETag, ObjectInfo, OpenUpload
from lakebed.refs.automatic_dumps import AutomaticDumps
from lakebed.refs.branches import Branches
from lakebed.refs.cleaner import Cleaner
from lakebed.refs.commits import Commits
from lakebed.refs.dump import RefsDumper
from lakebed.refs.log import CommitLog
from lakebed.refs.namespace_watch import NamespaceWatch
from lakebed.refs.protection import Protection
from lakebed.refs.repositories import Repositories
from lakebed.refs.repository_metadata import RepositoryMetadata
from lakebed.refs.resolve import Resolver
from lakebed.refs.tags import Tags

START = Instant(1_700_000_000 * SECOND)


class TestClock:
    """Time stands still until somebody sleeps or the test moves it."""

    __test__ = False

    def __init__(self) -> None:
        self.instant = START

    def now(self) -> Instant:
        return self.instant

    def monotonic(self) -> float:
        return self.instant / SECOND

    async def sleep(self, seconds: float) -> None:
        self.advance(seconds)

    def advance(self, seconds: float) -> None:
        self.instant = after(self.instant, seconds)


class Crash(BaseException):
    """The process died here."""


class Fault(Enum):
    LOST_REQUEST = "not applied, and nobody knows"
    LOST_REPLY = "applied, and nobody knows"
    REFUSED = "not applied, and said so"
    CONFLICT = "somebody else won"
    CRASH_BEFORE = "died before the call"
    CRASH_AFTER = "died after the call"


@dataclass(frozen=True, slots=True)
class Call:
    method: str
    where: str
    key: bytes
    action: Callable[[], Awaitable[Any]]


Hook = Callable[[Call], Awaitable[Fault | None]]


async def perform(
    method: str, where: str, key: bytes, hook: Hook | None, action: Callable[[], Awaitable[Any]]
) -> Any:
    call = Call(method, where, key, action)
    fault = await hook(call) if hook is not None else None
    match fault:
        case Fault.LOST_REQUEST:
            raise UnavailableError(ErrorKind.OUTCOME_UNKNOWN, "lost request")
        case Fault.REFUSED:
            raise UnavailableError(ErrorKind.STORE_UNAVAILABLE, "refused")
        case Fault.CONFLICT:
            raise ConflictError(ErrorKind.VERSION_CHANGED, "spoiled")
        case Fault.CRASH_BEFORE:
            raise Crash
    result = await action()
    match fault:
        case Fault.LOST_REPLY:
            raise UnavailableError(ErrorKind.OUTCOME_UNKNOWN, "lost reply")
        case Fault.CRASH_AFTER:
            raise Crash
    return result


class Late:
    """Hook: the first write is lost on its way and arrives just before the second."""

    def __init__(self) -> None:
        self.lost: Callable[[], Awaitable[Any]] | None = None
        self.writes = 0

    async def __call__(self, call: Call) -> Fault | None:
        self.writes += 1
        if self.writes == 1:
            self.lost = call.action
            return Fault.LOST_REQUEST
        if self.writes == 2:
            assert self.lost is not None
            await self.lost()
        return None


async def _nothing() -> None:
    return None


class ScriptedKV:
    """A `KVStore` that asks `hook` before every write, and `read_hook` before every read."""

    def __init__(self, inner: KVStore) -> None:
        self.inner = inner
        self.capabilities = inner.capabilities
        self.hook: Hook | None = None
        self.read_hook: Hook | None = None
        self.reads = 0

    async def get(self, partition: str, key: bytes) -> Item | None:
        self.reads += 1
        return await perform("get", partition, key, self.read_hook, lambda: self.inner.get(partition, key))

    async def get_many(self, lookups: Sequence[tuple[str, bytes]]) -> list[Item | None]:
        self.reads += 1
        return await self.inner.get_many(lookups)

    async def swap(self, partition: str, key: bytes, value: bytes, **kwargs: Any) -> Any:
        return await perform(
            "swap", partition, key, self.hook, lambda: self.inner.swap(partition, key, value, **kwargs)
        )

    async def set_rows(self, partition: str, rows: Any, **kwargs: Any) -> None:
        await perform(
            "set_rows",
            partition,
            rows[0].key,
            self.hook,
            lambda: self.inner.set_rows(partition, rows, **kwargs),
        )

    async def remove(self, partition: str, key: bytes, **kwargs: Any) -> None:
        await perform(
            "remove", partition, key, self.hook, lambda: self.inner.remove(partition, key, **kwargs)
        )

    async def delete_rows(self, partition: str, keys: Sequence[bytes]) -> None:
        await perform(
            "delete_rows", partition, keys[0], self.hook, lambda: self.inner.delete_rows(partition, keys)
        )

    async def drop(self, partition: str, *, first: Sequence[bytes] = ()) -> None:
        await perform("drop", partition, b"", self.hook, lambda: self.inner.drop(partition, first=first))

    async def scan(self, partition: str, **kwargs: Any) -> AsyncIterator[Page]:
        self.reads += 1
        if self.read_hook is not None:
            start = kwargs.get("start", b"")
            await perform("scan", partition, start, self.read_hook, _nothing)
        async for page in self.inner.scan(partition, **kwargs):
            yield page

    async def now(self) -> Instant:
        return await self.inner.now()

    async def close(self) -> None:
        await self.inner.close()


class FolderStore:
    """A part of one big memory store: the folder of a namespace, as seen from its root."""

    def __init__(self, whole: MemoryObjects, folder: str) -> None:
        self.whole = whole
        self.folder = folder
        self.hook: Hook | None = None

    async def put(self, key: str, data: bytes) -> ETag:
        return await perform(
            "put", self.folder, key.encode(), self.hook, lambda: self.whole.put(self.folder + key, data)
        )

    async def get(self, key: str) -> bytes:
        return await self.whole.get(self.folder + key)

    async def head(self, key: str) -> ObjectInfo | None:
        return await self.whole.head(self.folder + key)

    async def list(self, prefix: str = "") -> AsyncIterator[Sequence[ObjectInfo]]:
        async for infos in self.whole.list(self.folder + prefix):
            yield [
                ObjectInfo(
                    key=info.key.removeprefix(self.folder),
                    size_bytes=info.size_bytes,
                    mtime=info.mtime,
                    etag=info.etag,
                )
                for info in infos
            ]

    async def delete(self, keys: Sequence[str]) -> None:
        full = [self.folder + key for key in keys]
        await perform("delete", self.folder, b"", self.hook, lambda: self.whole.delete(full))

    async def create_upload(self, key: str) -> str:
        return await self.whole.create_upload(self.folder + key)

    async def abort_upload(self, key: str, upload: str) -> None:
        await perform(
            "abort_upload",
            self.folder,
            key.encode(),
            self.hook,
            lambda: self.whole.abort_upload(self.folder + key, upload),
        )

    async def list_uploads(self) -> AsyncIterator[Sequence[OpenUpload]]:
        async for uploads in self.whole.list_uploads():
            yield [
                OpenUpload(each.key.removeprefix(self.folder), each.upload)
                for each in uploads
                if each.key.startswith(self.folder)
            ]

    async def remove_if_empty(self) -> bool:
        return bool(await perform("remove", self.folder, b"", self.hook, self._removed))

    async def _removed(self) -> bool:
        return True


class World:
    """Everything that outlives a process (KV, objects, time), and one process's parts over it."""

    def __init__(self, *, fences: bool = True, seed: int = 0) -> None:
        self.clock = TestClock()
        self.memory = MemoryKV(clock=self.clock, fences=fences)
        self.whole = MemoryObjects(clock=self.clock)
        self.seed = seed
        self.restart()

    def restart(self) -> None:
        """Replace the process: hooks and caches go, what is stored stays."""
        self.seed += 1
        self.kv = ScriptedKV(self.memory)
        self.store_hook: Hook | None = None
        self.ids = SeededIds(self.seed)
        env: dict[str, Any] = {"clock": self.clock, "ids": self.ids}
        self.branches = Branches(self.kv, **env)
        self.tags = Tags(self.kv, **env)
        self.commits = Commits(self.kv)
        self.resolver = Resolver(branches=self.branches, tags=self.tags, commits=self.commits)
        self.log = CommitLog(self.commits)
        self.protection = Protection(self.kv, **env)
        self.metadata = RepositoryMetadata(self.kv, **env)
        self.repositories = Repositories(self.kv, open_store=self.open_store, **env)
        self.cleaner = Cleaner(self.kv, self.repositories, open_store=self.open_store, **env)
        self.dumper = RefsDumper(
            self.kv,
            branches=self.branches,
            tags=self.tags,
            commits=self.commits,
            open_store=self.open_store,
            workers=InlineWorkers(),
            ids=self.ids,
        )

        self.automatic_dumps = AutomaticDumps(
            self.kv,
            dumper=self.dumper,
            commits=self.commits,
            open_store=self.open_store,
            workers=InlineWorkers(),
        )
        self.watch = NamespaceWatch(
            self.repositories, self.automatic_dumps, open_store=self.open_store, clock=self.clock
        )

    async def open_store(self, namespace: str) -> Any:
        store = FolderStore(self.whole, namespace.removeprefix("mem://") + "/")
        store.hook = self.store_hook
        return store

    async def create_repository(
        self, name: str = "lake", namespace: str = "mem://bucket/lake", **kwargs: Any
    ) -> Repository:
        return await self.repositories.create(
            RepoName(name), namespace, default_branch=BranchName("main"), **kwargs
        )

    async def commit(
        self,
        repo: Repository,
        *parents: CommitId,
        message: str = "",
        date: int | None = None,
        tree: MetarangeId = EMPTY_TREE,
    ) -> Commit:
        return await self.commits.create(
            repo,
            committer="ada",
            message=message,
            tree=tree,
            date=self.clock.now() // SECOND if date is None else date,
            metadata={},
            parents=parents,
            nonce=Nonce(self.ids.token()),
        )

    async def partitions(self) -> set[str]:
        """The KV partitions that hold anything."""
        return set(self.memory._partitions)

    async def objects(self) -> list[str]:
        return [info.key async for infos in self.whole.list() for info in infos]

    async def clean(self) -> Any:
        """Let everything become due, and clean."""
        self.clock.advance(2 * GRACE_SECONDS)
        return await self.cleaner.clean_once()

    async def clean_late(self) -> Any:
        """Let uploads that outlast the deletion of their repository become due too, and clean."""
        await self.clean()
        self.clock.advance(LATE_UPLOAD_SECONDS)
        return await self.cleaner.clean_once()


def bare_repo() -> Repository:
    """A repository value without a record, for tests that need only its partition."""
    return Repository(
        name=RepoName("lake"),
        uid=RepoUid("uid1"),
        namespace="mem://bucket/lake",
        default_branch=BranchName("main"),
        created_at=START,
    )
