"""An operation on HEAD that ends, however it ends, leaves nothing behind on the branch."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import count

import pytest

from lakebed.env.clock import SystemClock
from lakebed.errors import ErrorKind, LakebedError, NotFoundError
from lakebed.format.records import decode_commit, encode_commit
from lakebed.kv.drivers.memory import MemoryKV
from lakebed.kv.wrappers.faults import (
    WRITES,
    AppliedLate,
    Call,
    Fault,
    FaultyKV,
    LostReply,
    LostRequest,
    Refused,
    no_faults,
)
from lakebed.limits import PENDING_MAX
from lakebed.model.diffs import MergeStrategy
from lakebed.model.ids import BranchName, CommitId, MetarangeId
from lakebed.objects.drivers.memory import MemoryObjects
from lakebed.refs.keys import commit_key
from lakebed.testing.lake import COMMIT, Lake, open_lake
from lakebed.testing.outside import OUTSIDE
from lakebed.versioning.importing import ImportKind, ImportPath
from lakebed.versioning.merge import MergeRequest


async def condemn(lake: Lake, commit_id: str) -> None:
    """Let a commit expire, as a collector does."""
    item = await lake.kv.get(lake.repo.partition, commit_key(CommitId(commit_id)))
    assert item is not None
    condemned = replace(decode_commit(item.value), condemned_by="a run")
    await lake.kv.swap(lake.repo.partition, item.key, encode_commit(condemned), expected=item.version)


async def test_refused_operations_leave_room_for_others() -> None:
    async with open_lake() as lake:
        expired = await lake.commit("main", a="1")
        await lake.commit("main", a="2")
        await condemn(lake, expired)
        for _ in range(PENDING_MAX + 1):
            with pytest.raises(NotFoundError) as caught:
                await lake.catalog.branches.hard_reset("lake", "main", expired)
            assert caught.value.kind is ErrorKind.COMMIT_NOT_FOUND

        await lake.commit("main", a="3")


class CallFails:
    """A plan by which one call of the database fails, in some way, and nothing else does."""

    def __init__(self, number: int, failure: "Failure") -> None:
        self._left = number
        self._failure = failure
        self.task: asyncio.Task[None] | None = None
        """The operation's."""
        self.failed = False

    def __call__(self, call: Call) -> Fault | None:
        if (
            isinstance(self._failure.fault, LostRequest | LostReply | AppliedLate)
            and call.operation not in WRITES
        ):
            return None
        if self.failed or self._left:
            self._left -= 1
            return None
        self.failed = True
        assert self.task is not None
        if self._failure.gone:
            self.task.cancel()
        if self._failure.bug and asyncio.current_task() is self.task:
            raise RuntimeError("a bug")
        return self._failure.fault


@dataclass(frozen=True)
class Failure:
    """What happens to a call (of those that say nothing of reads, to a write), and whether its caller goes away
    meanwhile, or has a bug, which its end has not."""

    fault: Fault | None = None
    gone: bool = False
    bug: bool = False


FAILURES = {
    "refused": Failure(Refused()),
    "lost request": Failure(LostRequest()),
    "lost reply": Failure(LostReply()),
    "applied late": Failure(AppliedLate()),
    "a bug": Failure(bug=True),
    "cancelled": Failure(gone=True),
    "cancelled, lost reply": Failure(LostReply(), gone=True),
    "cancelled, applied late": Failure(AppliedLate(), gone=True),
}


@dataclass(frozen=True)
class Stage:
    """A lake with a new branch, and what operations on it work with."""

    lake: Lake
    branch: str
    first: str
    side: str
    tree: MetarangeId
    """Of `side`."""

    @property
    def name(self) -> BranchName:
        return BranchName(self.branch)

    async def commit(self) -> None:
        await self.lake.catalog.commits.commit("lake", self.branch, COMMIT)

    async def commit_tree(self) -> None:
        await self.lake.catalog.commits.commit("lake", self.branch, COMMIT, source_metarange=self.tree)

    async def merge(self) -> None:
        request = MergeRequest(commit=COMMIT, strategy=MergeStrategy.SOURCE_WINS)
        await self.lake.engine.merger.merge(self.lake.repo, CommitId(self.side), self.name, request)

    async def revert(self) -> None:
        merger, first = self.lake.engine.merger, CommitId(self.first)
        await merger.revert(self.lake.repo, self.name, first, parent_number=0, request=COMMIT)

    async def cherry_pick(self) -> None:
        merger, side = self.lake.engine.merger, CommitId(self.side)
        await merger.cherry_pick(self.lake.repo, self.name, side, parent_number=0, request=COMMIT)

    async def hard_reset(self) -> None:
        await self.lake.catalog.branches.hard_reset("lake", self.branch, self.first)

    async def import_prefix(self) -> None:
        path = ImportPath(kind=ImportKind.PREFIX, address=f"{OUTSIDE}/in/", destination="in/")
        await self.lake.engine.importer.run(self.lake.repo, self.name, [path], COMMIT)

    async def stash(self) -> None:
        await self.lake.engine.stashes.stash(self.lake.repo, self.name)


Operation = Callable[[Stage], Awaitable[None]]

OPERATIONS: tuple[Operation, ...] = (
    Stage.commit,
    Stage.commit_tree,
    Stage.merge,
    Stage.revert,
    Stage.cherry_pick,
    Stage.hard_reset,
    Stage.import_prefix,
    Stage.stash,
)
# Those that need uncommitted changes: all others refuse them.
DIRTY = (Stage.commit, Stage.stash)


@pytest.mark.parametrize(
    ("failure", "denied"),
    [
        *(pytest.param(failure, False, id=name) for name, failure in FAILURES.items()),
        *(pytest.param(FAILURES[name], True, id=f"{name}, denied") for name in ("refused", "cancelled")),
    ],
)
@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda each: each.__name__)
async def test_no_operation_stays_pending_wherever_it_fails(
    operation: Operation, failure: Failure, *, denied: bool
) -> None:
    kv, outside = FaultyKV(MemoryKV(), plan=no_faults, clock=SystemClock()), MemoryObjects()
    await outside.put("in/x", b"x")
    async with open_lake(kv, outside=outside) as lake:
        await lake.commit("main", a="1")
        await lake.catalog.branches.create("lake", "side", "main")
        side = await lake.commit("side", c="1")
        tree = (await lake.catalog.commits.get("lake", side)).tree
        first = await lake.commit("main", b="1")
        await lake.commit("main", d="1")
        for number in count():
            stage = Stage(lake, f"b{number}", first, side, tree)
            await lake.catalog.branches.create("lake", stage.branch, "main")
            if (operation in DIRTY) != denied:
                await lake.put(stage.branch, e="1")
            plan = CallFails(number, failure)
            await end_by(kv, plan, operation(stage))
            branch = await lake.catalog.branches.get("lake", stage.branch)
            assert dict(branch.pending) == {}, f"call {number} of the operation failed"
            if not plan.failed:
                assert number > 1, "the operation writes more than once"
                return


async def end_by(kv: FaultyKV, plan: CallFails, operation: Awaitable[None]) -> None:
    """Let an operation end by whatever a plan has in store, and what it leaves under way as well."""

    async def run() -> None:
        with suppress(LakebedError, RuntimeError):
            await operation

    before = asyncio.all_tasks()
    kv.plan, plan.task = plan, asyncio.create_task(run())
    await asyncio.wait({plan.task})
    await asyncio.gather(*(asyncio.all_tasks() - before), return_exceptions=True)
    kv.plan = no_faults
    await kv.land()
