"""Clients: what people do to a repository, drawn at random on so few paths that they get in each other's way."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from lakebed.catalog.tasks import Report
from lakebed.catalog.tasks import Work as TaskWork
from lakebed.errors import ErrorKind, LakebedError, UnavailableError, is_unknown
from lakebed.format.blocks import change_block
from lakebed.limits import LIST_PAGE_MAX
from lakebed.model.commits import Commit
from lakebed.model.diffs import MergeStrategy
from lakebed.model.entries import Entry, Tombstone
from lakebed.model.ids import BranchName, CommitId, Nonce, Path
from lakebed.model.repository import Repository
from lakebed.model.stash import Stash
from lakebed.model.tasks import TaskState
from lakebed.objects.drivers.memory import MemoryObjects
from lakebed.staging.appending import require_room
from lakebed.staging.conditions import Condition, IfAbsent, IfChecksum
from lakebed.staging.reader import LayersMovedError
from lakebed.testing.outside import OUTSIDE
from lakebed.testing.simulation.chance import Chance
from lakebed.testing.simulation.history import Op, Outcome
from lakebed.testing.simulation.process import SimProcess
from lakebed.testing.simulation.record_laws import LawBrokenError
from lakebed.testing.simulation.world import World
from lakebed.versioning.commit import CommitRequest
from lakebed.versioning.importing import ImportKind, ImportPath
from lakebed.versioning.merge import MergeRequest
from lakebed.versioning.paging import BlockPage

PATHS = ("a", "b", "d/x", "d/y", "d/z/1", "d/z/2", "e", "f/1")
PREFIXES = ("", "d/", "d/z", "f")

# What lies outside, below each folder.
OUTSIDE_OBJECTS: Mapping[str, tuple[str, ...]] = {"one/": ("x",), "many/": ("x", "y", "z/1", "z/9")}

# Whoever has no answer after so many calls gives up.
_HAND_INS_MAX = 4
_REPLY_LOST = 0.3

R = TypeVar("R")
T = TypeVar("T")
Work = Callable[["Client"], Awaitable[object]]


@dataclass(slots=True)
class Lake:
    """What the clients of one repository share."""

    world: World
    repo: Repository
    branches: tuple[str, ...]
    conditional: float = 0.35
    """How many of the writes have a condition."""
    tidy: float = 0.6
    """How often a commit comes before what needs a clean branch."""
    stashes: list[Nonce] = field(default_factory=list)
    written: int = 0

    @property
    def partition(self) -> str:
        return self.repo.partition

    def next_checksum(self) -> str:
        """Return one that nobody has used: it names the write it belongs to."""
        self.written += 1
        return f"{self.repo.uid[:4]}-{self.written}"


@dataclass(slots=True)
class Client:
    """Somebody who calls one process."""

    lake: Lake
    process: SimProcess
    chance: Chance

    async def write(self) -> Op:
        """Upload one or more objects that nobody has uploaded before, perhaps on a condition."""
        branch = self._branch()
        paths = sorted({self.chance.pick(PATHS) for _ in range(self.chance.pick([1, 1, 1, 3]))})
        condition = self._condition(branch, paths[0]) if len(paths) == 1 else None
        return await self.upload(branch, paths, condition)

    async def upload(self, branch: str, paths: Sequence[str], condition: Condition | None = None) -> Op:
        """Upload objects that nobody has uploaded before."""
        lake, engine = self.lake, self.process.engine
        contents = {path: lake.next_checksum() for path in paths}
        op = lake.world.history.begin(
            "write",
            process=self.process.name,
            repo=lake.partition,
            branch=branch,
            contents=contents,
            condition=condition,
        )

        async def upload() -> None:
            now = await engine.parts.kv.now()
            entries = [
                Entry(
                    path=Path(path),
                    address=engine.slices.next_address(now),
                    checksum=checksum,
                    size_bytes=1,
                    mtime=now,
                )
                for path, checksum in contents.items()
            ]
            for entry in entries:
                await (await engine.store_of(lake.repo)).put(entry.address, b"!")
            await engine.parts.staging.write(lake.repo, BranchName(branch), entries, condition=condition)

        return await lake.world.finish(op, upload, give_up_after=self._patience())

    async def delete(self) -> Op:
        """Delete one or two paths."""
        branch = self._branch()
        paths = sorted({self.chance.pick(PATHS) for _ in range(self.chance.pick([1, 1, 2]))})
        changes = [Tombstone(path=Path(path)) for path in paths]
        call = partial(self.process.engine.parts.staging.write, self.lake.repo, BranchName(branch), changes)
        return await self._ask("delete", call, branch=branch, paths=paths)

    async def slow_stat(self) -> Op:
        """Look at one path, long after its branch's record was read."""
        return await self.stat(slow=1.0)

    async def stat(self, *, slow: float = 0.03) -> Op:
        """Look at one path."""
        branch, path = self._branch(), self.chance.pick(PATHS)

        async def call() -> str | None:
            engine = self.process.engine
            source = await engine.source(self.lake.repo, branch)
            if self.chance.happens(slow):
                await self.lake.world.sleep(self.chance.pick([10.0, 1000.0, 2000.0]))
            found = await engine.view.find(self.lake.repo, source, Path(path))
            return found.checksum if found is not None else None

        return await self._ask("stat", call, branch=branch, path=path)

    async def list(self) -> Op:
        """List one page, perhaps folded at a delimiter."""
        branch, prefix = self._branch(), self.chance.pick(PREFIXES)
        delimiter = self.chance.pick(["", "/"])
        amount = self.chance.pick([1, 2, 3, LIST_PAGE_MAX])
        # A cursor inside a folder that is folded away skips the folder: not what is looked at here.
        after = self.chance.pick(["", "b"] if delimiter else ["", "b", "d/y", "d/z"])

        async def call() -> tuple[list[tuple[str, str]], tuple[str, ...], Callable[[str], bool]]:
            engine, repo = self.process.engine, self.lake.repo
            page = await engine.view.list(
                repo,
                await engine.source(repo, branch),
                prefix=prefix,
                after=after,
                delimiter=delimiter,
                amount=amount,
            )
            return (
                _rows(page),
                page.prefixes,
                partial(_covers, prefix, after, page.last if page.has_more else None),
            )

        return await self._ask("list", call, branch=branch, prefix=prefix, after=after, paths=PATHS)

    async def scan(self) -> Op:
        """Read a whole branch, so slowly that its layers may be committed and gone meanwhile."""
        branch = self._branch()

        async def call() -> tuple[list[tuple[str, str]], tuple[str, ...], Callable[[str], bool]]:
            engine, rows = self.process.engine, []
            source = await engine.source(self.lake.repo, branch)
            try:
                async for block in engine.view.scan(self.lake.repo, source, first_page=1):
                    rows += list(
                        zip(
                            block.column("key").to_pylist(), block.column("checksum").to_pylist(), strict=True
                        )
                    )
                    await self.lake.world.sleep(self.chance.pick([0.0, 0.01, 1.0, 500.0, 1000.0]))
            except LayersMovedError:
                self.lake.world.met["reader met a moved layer"] += 1
                raise
            return rows, (), lambda _path: True

        return await self._ask("scan", call, branch=branch, paths=PATHS)

    async def pinned_scan(self) -> Op:
        """Read a whole branch as slowly, with a pin that keeps its layers from being freed."""
        branch, world, repo = self._branch(), self.lake.world, self.lake.repo

        async def call() -> tuple[list[tuple[str, str]], tuple[str, ...], Callable[[str], bool]]:
            engine, rows, began = self.process.engine, list[tuple[str, str]](), world.loop.time()
            async with engine.parts.pins.held(repo, "a scan") as held:
                source = await engine.source(repo, branch)
                async for block in engine.view.scan(repo, source, first_page=1):
                    rows += zip(
                        block.column("key").to_pylist(), block.column("checksum").to_pylist(), strict=True
                    )
                    await world.sleep(self.chance.pick([0.0, 1.0, 500.0, 1000.0]))
                    try:
                        held.require()
                    except UnavailableError:
                        world.sightings.scanned(world.loop.time() - began, ran_out=True)
                        raise
            world.sightings.scanned(world.loop.time() - began, ran_out=False)
            return rows, (), lambda _path: True

        return await self._ask("scan", call, branch=branch, paths=PATHS)

    async def hand_in(self) -> Op:
        """Hand in a segment, and again until the answer is known: it must be staged once."""
        lake = self.lake
        branch, call = self._branch(), f"call {lake.written}"
        paths = sorted({self.chance.pick(PATHS) for _ in range(3)})
        contents = {path: lake.next_checksum() for path in paths}
        op = lake.world.history.begin(
            "write",
            process=self.process.name,
            repo=lake.partition,
            branch=branch,
            contents=contents,
            condition=None,
        )

        async def upload() -> None:
            staging = self.process.engine.parts.staging
            now = await self.process.engine.parts.kv.now()
            entries = [
                Entry(path=Path(path), address=f"data/{checksum}", checksum=checksum, size_bytes=1, mtime=now)
                for path, checksum in contents.items()
            ]
            name, block = BranchName(branch), await self._help(change_block, entries)
            unsure = False
            for _ in range(_HAND_INS_MAX):
                try:
                    known = await staging.find_handed_in(lake.repo, name, call)
                    if known.layer is None:
                        require_room(known.branch)
                        await staging.hand_in(lake.repo, name, block, call=call)
                except LakebedError as error:
                    # Once it may have been staged, no other answer says that it was not.
                    unsure = unsure or is_unknown(error)
                    if not unsure:
                        raise
                else:
                    lake.world.met["handed in again"] += known.layer is not None
                    # The answer may get lost on its way to the client, too.
                    if not self.chance.happens(_REPLY_LOST):
                        return
                    unsure = True
                await lake.world.sleep(self.chance.pick([0.0, 0.1, 5.0]))
            raise UnavailableError(ErrorKind.OUTCOME_UNKNOWN, "no answer, however often")

        return await lake.world.finish(op, upload, give_up_after=self._patience())

    async def _help(self, function: Callable[[T], R], value: T) -> R:
        """Let a helper process do some work. It may die, and so may the one that tries again: none else is an excuse."""
        helpers, met = self.process.helpers, self.lake.world.met
        died = helpers.died
        try:
            done = await self.process.engine.parts.processes.run(function, value)
        except UnavailableError as error:
            if helpers.died == died:
                raise LawBrokenError(f"no helper of {self.process.name} died: {error}") from error
            met["helper died twice"] += 1
            raise
        met["helper died"] += helpers.died > died
        return done

    async def commit(self) -> Op:
        """Commit what is staged."""
        return await self.commit_to(self._branch())

    async def commit_to(self, branch: str) -> Op:
        return await self._ask(
            "commit",
            partial(
                self.process.engine.committer.commit,
                self.lake.repo,
                BranchName(branch),
                self._request(allow_empty=0.1),
            ),
            branch=branch,
        )

    async def merge(self) -> Op | None:
        """Merge one branch into another."""
        branch, other = self._branch(), self._branch()
        await self._tidy(branch)
        source = self.head(other)
        if other == branch or source is None:
            return None
        strategy = self.chance.pick([MergeStrategy.NONE, MergeStrategy.SOURCE_WINS, MergeStrategy.DEST_WINS])
        request = MergeRequest(
            commit=self._request(allow_empty=0.1), strategy=strategy, squash=self.chance.happens(0.2)
        )
        return await self.merge_from(source, branch, request)

    async def merge_from(self, source: CommitId, branch: str, request: MergeRequest) -> Op:
        """Merge a commit into a branch."""
        engine, repo = self.process.engine, self.lake.repo

        async def call() -> Any:
            return (await engine.merger.merge(repo, source, BranchName(branch), request)).commit

        return await self._ask("merge", call, branch=branch, source=source, strategy=request.strategy)

    async def commit_later(self) -> Op:
        """Let a task commit what is staged, and ask again and again how it goes."""
        branch, engine, repo = self._branch(), self.process.engine, self.lake.repo
        request = self._request(allow_empty=0.1)

        async def work(_report: Report) -> Mapping[str, str]:
            return {"commit": (await engine.committer.commit(repo, BranchName(branch), request)).id}

        return await self._ask("commit", partial(self._made_by_task, "commit", work), branch=branch)

    async def commit_tree(self) -> Op:
        """Commit the tree of another commit, however old."""
        branch, source = self._branch(), self._old_commit()
        await self._tidy(branch)
        tree = self.lake.world.truth.commit(self.lake.partition, source).tree
        call = partial(
            self.process.engine.committer.commit_tree,
            self.lake.repo,
            BranchName(branch),
            self._request(allow_empty=0.5),
            tree,
        )
        return await self._ask("commit_tree", call, branch=branch, source=source)

    async def import_prefix(self) -> Op:
        """Let a task import what lies outside."""
        branch, engine, repo = self._branch(), self.process.engine, self.lake.repo
        await self._tidy(branch)
        folder, destination = self.chance.pick(sorted(OUTSIDE_OBJECTS)), self.chance.pick(PREFIXES[1:])
        path = ImportPath(kind=ImportKind.PREFIX, address=f"{OUTSIDE}/{folder}", destination=destination)
        request = self._request()
        there = await self._lay_out()
        imported = {f"{destination}{name}": there[f"{folder}{name}"] for name in OUTSIDE_OBJECTS[folder]}

        async def work(report: Report) -> Mapping[str, str]:
            importing = engine.importer.run(repo, BranchName(branch), [path], request, progress=report)
            return {"commit": (await importing).id}

        return await self._ask(
            "import",
            partial(self._made_by_task, "import", work),
            branch=branch,
            destination=destination,
            imported=imported,
        )

    async def _lay_out(self) -> Mapping[str, str]:
        """Put what can be imported to where it lies, once; return the checksums."""
        bucket = self.lake.world.buckets[OUTSIDE]
        store = MemoryObjects(clock=self.lake.world.clock, bucket=bucket)
        for key in [f"{folder}{name}" for folder, names in OUTSIDE_OBJECTS.items() for name in names]:
            if key not in bucket.objects:
                await store.put(key, key.encode())
        return {key: each.etag for key, each in bucket.objects.items()}

    async def _made_by_task(self, kind: str, work: TaskWork) -> Commit:
        """Start a task, and return the commit that it made, as its record says."""
        tasks, repo = self.process.tasks, self.lake.repo
        task = await tasks.start(repo, kind, work)
        while task.state is TaskState.RUNNING:
            await self.lake.world.sleep(self.chance.pick([0.01, 1.0]))
            with suppress(UnavailableError):
                task = await tasks.get(repo, task.id, kind=kind)
        self.lake.world.met[f"task {task.state}"] += 1
        if task.state is TaskState.DONE:
            return self.lake.world.truth.commit(self.lake.partition, CommitId(task.result["commit"]))
        error = ErrorKind(task.error_kind)
        if error is ErrorKind.OUTCOME_UNKNOWN:
            raise UnavailableError(error, task.error)
        # What it would have been told had it waited for the answer itself.
        raise LakebedError(error, task.error)

    async def revert(self) -> Op | None:
        """Undo a commit."""
        branch, source = self._branch(), self._some_commit()
        await self._tidy(branch)
        parents = len(self.lake.world.truth.commit(self.lake.partition, source).parents)
        number = 1 if parents > 1 else 0
        call = partial(
            self.process.engine.merger.revert,
            self.lake.repo,
            BranchName(branch),
            source,
            parent_number=number,
            request=self._request(),
        )
        return await self._ask("revert", call, branch=branch, source=source, parent_number=number)

    async def cherry_pick(self) -> Op | None:
        """Do a commit once more."""
        branch, source = self._branch(), self._some_commit()
        await self._tidy(branch)
        parents = len(self.lake.world.truth.commit(self.lake.partition, source).parents)
        number = 1 if parents > 1 else 0
        call = partial(
            self.process.engine.merger.cherry_pick,
            self.lake.repo,
            BranchName(branch),
            source,
            parent_number=number,
            request=self._request(),
        )
        return await self._ask("cherry_pick", call, branch=branch, source=source, parent_number=number)

    async def hard_reset(self) -> Op:
        """Let a branch point at some other commit."""
        branch, source = self._branch(), self._some_commit()
        await self._tidy(branch)
        call = partial(self.process.engine.resetter.hard_reset, self.lake.repo, BranchName(branch), source)
        return await self._ask("hard_reset", call, branch=branch, source=source)

    async def reset_branch(self) -> Op:
        """Forget everything uncommitted."""
        branch = self._branch()
        call = partial(self.process.engine.resetter.reset_branch, self.lake.repo, BranchName(branch))
        return await self._ask("reset_branch", call, branch=branch)

    async def reset_path(self) -> Op:
        """Bring one path back."""
        branch, path = self._branch(), self.chance.pick(PATHS)
        call = partial(
            self.process.engine.resetter.reset_path, self.lake.repo, BranchName(branch), Path(path)
        )
        return await self._ask("reset_path", call, branch=branch, path=path, prefix=path)

    async def reset_prefix(self) -> Op:
        """Bring a folder back."""
        branch, prefix = self._branch(), self.chance.pick(PREFIXES)
        call = partial(self.process.engine.resetter.reset_prefix, self.lake.repo, BranchName(branch), prefix)
        return await self._ask("reset_prefix", call, branch=branch, prefix=prefix, paths=PATHS)

    async def stash(self) -> Op:
        """Put everything uncommitted aside."""
        branch = self._branch()
        call = partial(self.process.engine.stashes.stash, self.lake.repo, BranchName(branch))
        op = await self._ask("stash", call, branch=branch)
        if op.outcome is Outcome.DONE:
            self.lake.stashes.append(op.result.id)
        return op

    async def pop(self) -> Op | None:
        """Lay a stash over a branch."""
        if not self.lake.stashes:
            return None
        stash, branch = self.chance.pick(self.lake.stashes), self._branch()
        call = partial(self.process.engine.stashes.pop, self.lake.repo, stash, into=BranchName(branch))
        return await self._ask("pop", call, branch=branch, stash=stash)

    async def drop_stash(self) -> Op | None:
        """Give a stash up, sometimes while another client pops it."""
        if not self.lake.stashes:
            return None
        stash = self.chance.pick(self.lake.stashes)
        call = partial(self.process.engine.stashes.drop, self.lake.repo, stash, allow=_anyone)
        return await self._ask("drop_stash", call, stash=stash)

    async def list_stashes(self) -> Op:
        """List the stashes, which finishes those whose makers died."""
        op = await self._ask("list_stashes", partial(self.process.engine.stashes.list, self.lake.repo))
        if op.outcome is Outcome.DONE:
            self.lake.stashes = sorted({*self.lake.stashes, *(stash.id for stash in op.result)})
        return op

    async def create_branch(self) -> Op:
        """Create a branch on the head of another."""
        branch, source = self.chance.pick(self.lake.branches[1:]), self._some_commit()
        call = partial(self.process.engine.parts.branches.create, self.lake.repo, BranchName(branch), source)
        return await self._ask("create_branch", call, branch=branch, source=source)

    async def delete_branch(self) -> Op:
        """Delete a branch with all that is on it."""
        branch = self.chance.pick(self.lake.branches[1:])
        call = partial(self.process.engine.parts.branches.delete, self.lake.repo, BranchName(branch))
        return await self._ask("delete_branch", call, branch=branch)

    async def clean(self) -> Op:
        """Free what has been retired for long enough."""
        return await self._ask("clean", self.process.cleaner.clean_once)

    async def sweep_segments(self) -> Op:
        """Delete segments that nobody refers to, however short ago the last time was."""

        async def call() -> int:
            return await self.process.sweeper.sweep(self.lake.repo, await self.process.kv.now())

        return await self._ask("sweep_segments", call)

    async def sweep(self) -> Op:
        """Forget stashes that no longer matter."""
        return await self._ask("sweep", partial(self.process.engine.stashes.sweep, self.lake.repo))

    async def _ask(
        self, kind: str, call: Callable[[], Awaitable[Any]], *, branch: str = "", **args: Any
    ) -> Op:
        return await self.lake.world.ask(
            self.process,
            kind,
            call,
            repo=self.lake.partition,
            branch=branch,
            give_up_after=self._patience(),
            **args,
        )

    async def _tidy(self, branch: str) -> None:
        if self.chance.happens(self.lake.tidy):
            await self.commit_to(branch)

    def _patience(self) -> float | None:
        """Some clients hang up."""
        return self.chance.between(0.0, 0.3) if self.chance.happens(0.03) else None

    def _branch(self) -> str:
        return self.chance.pick(self.lake.branches)

    def head(self, branch: str) -> CommitId | None:
        return self.lake.world.truth.timeline(self.lake.partition, branch).last.commit_id

    def _some_commit(self) -> CommitId:
        """Return a commit that is or was the head of some branch."""
        branch = self.chance.pick(self.lake.branches)
        truth = self.lake.world.truth
        moments = truth.timeline(self.lake.partition, branch).moments[-40:]
        found = [each.commit_id for each in moments if each.commit_id and each.step >= truth.restored_at]
        if not found:
            head = self.head(self.lake.branches[0])
            assert head is not None
            return head
        return self.chance.pick(found)

    def _old_commit(self) -> CommitId:
        """Return a commit whose tree somebody may have kept."""
        return self._some_commit()

    def _condition(self, branch: str, path: str) -> Condition | None:
        current = (self.lake.world.truth.timeline(self.lake.partition, branch).last.view or {}).get(path)
        if not self.chance.happens(self.lake.conditional):
            return None
        # Mostly one that holds when it is asked; whether it still does when it counts is the question.
        likely = IfAbsent() if current is None else IfChecksum(current)
        return likely if self.chance.happens(0.8) else IfAbsent()

    def _request(self, *, allow_empty: float = 0.0) -> CommitRequest:
        return CommitRequest(
            committer=self.process.name,
            message=f"by {self.process.name}",
            date=self.chance.pick([None, None, 1_700_000_000]),
            allow_empty=self.chance.happens(allow_empty),
        )


def _rows(page: BlockPage) -> list[tuple[str, str]]:
    return list(
        zip(page.rows.column("key").to_pylist(), page.rows.column("checksum").to_pylist(), strict=True)
    )


def _covers(prefix: str, after: str, last: str | None, path: str) -> bool:
    """Whether a page says something of `path`: it begins with the prefix and lies between the cursors."""
    if not path.startswith(prefix) or path <= after:
        return False
    return last is None or path <= last or (last.endswith("/") and path.startswith(last))


def _anyone(_stash: Stash) -> None:
    """Refuse nobody."""


WORK: Mapping[str, Work] = {
    work.__name__: work
    for work in (
        Client.write,
        Client.delete,
        Client.stat,
        Client.slow_stat,
        Client.list,
        Client.scan,
        Client.pinned_scan,
        Client.hand_in,
        Client.commit,
        Client.commit_later,
        Client.commit_tree,
        Client.import_prefix,
        Client.merge,
        Client.revert,
        Client.cherry_pick,
        Client.hard_reset,
        Client.reset_branch,
        Client.reset_path,
        Client.reset_prefix,
        Client.stash,
        Client.pop,
        Client.drop_stash,
        Client.list_stashes,
        Client.create_branch,
        Client.delete_branch,
        Client.clean,
        Client.sweep,
        Client.sweep_segments,
    )
}
