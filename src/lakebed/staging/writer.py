"""The memstore of one branch: requests join a batch, a batch is one fenced KV write, or one segment.

While one batch is being written, what arrives joins the next, so an idle branch
waits for nothing and a busy one shares its round trips and syncs. A write is
acknowledged only when its rows are durable in the token that the branch record
names at that very step (the fence), so it can never land in a layer that was
already read by a commit.

What follows each outcome of the write:

    done        acknowledge
    conflict    nothing was written: read the record again, decide again
    unknown     seal the token, so that the copy still in flight can no longer land; then read the rows:
                an own one: the whole batch is there, acknowledge; one missing: nothing is there, send again;
                all somebody else's: nobody can tell, answer 503 (never success, never a second write)

A large batch goes by segment instead; see `appending` for that way.
"""

import asyncio
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from lakebed.env.clock import Clock
from lakebed.env.ids import IdSource
from lakebed.env.joining import let_join
from lakebed.errors import (
    ConflictError,
    ErrorKind,
    InvalidInputError,
    LakebedError,
    PreconditionError,
    UnavailableError,
    is_unknown,
)
from lakebed.format.merge import newest_wins
from lakebed.format.rows import OPEN_KEY, OPEN_VALUE, decode_row, encode_row, row_key
from lakebed.kv.port import Expect, Item, KVStore, Row, Version
from lakebed.limits import (
    BACKOFF_MAX_SECONDS,
    BACKOFF_SECONDS,
    BATCH_ROWS_MAX,
    SWAP_ATTEMPTS_MAX,
)
from lakebed.model.branch import Branch
from lakebed.model.entries import Change
from lakebed.model.ids import BranchName, Nonce, Path, StagingToken
from lakebed.model.repository import Repository
from lakebed.staging.admission import require_admission
from lakebed.staging.appending import Appender, sorted_block
from lakebed.staging.conditions import Condition, require
from lakebed.staging.port import Base, Branches
from lakebed.staging.reader import LayerReader, Staged
from lakebed.staging.record import knows_token, names_token, seal, with_open_token


@dataclass(slots=True)
class _Request:
    changes: Sequence[Change]
    condition: Condition | None
    done: asyncio.Future[None] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


@dataclass(frozen=True, slots=True)
class _Decided:
    """Who is in a batch."""

    accepted: list[_Request]
    refused: list[tuple[_Request, PreconditionError]]
    """Those whose condition does not hold because of what this very batch writes."""


@dataclass(frozen=True, slots=True)
class _Plan:
    """What one batch writes as rows, and who is in it."""

    rows: list[Row]
    accepted: list[_Request]
    refused: list[tuple[_Request, PreconditionError]]
    conditional: bool


class BranchWriter:
    """Writes staged changes of one branch, in order of arrival."""

    def __init__(
        self,
        repo: Repository,
        name: BranchName,
        *,
        kv: KVStore,
        branches: Branches,
        reader: LayerReader,
        base: Base,
        appender: Appender,
        clock: Clock,
        ids: IdSource,
        wait_seconds: float,
    ) -> None:
        self._repo = repo
        self._name = name
        self._kv = kv
        self._branches = branches
        self._reader = reader
        self._base = base
        self._appender = appender
        self._clock = clock
        self._ids = ids
        self._wait_seconds = wait_seconds
        self._queue: list[_Request] = []
        self._task: asyncio.Task[None] | None = None
        self._branch: Branch | None = None
        self._opened: StagingToken | None = None

    @property
    def idle(self) -> bool:
        """Whether nothing is waiting or being written."""
        return self._task is None

    async def write(self, changes: Sequence[Change], *, condition: Condition | None = None) -> None:
        """Stage `changes`, all or none; return when they are durable and visible.

        Raises:
            PreconditionError: the condition (on every one of the paths) does not hold; nothing was written.
            UnavailableError: `TOO_MANY_LAYERS`: commit or wait; `OUTCOME_UNKNOWN`: the changes may be there.
        """
        request = _Request(changes, condition)
        self._queue.append(request)
        if self._task is None:
            self._task = asyncio.create_task(self._drain())
        await request.done

    async def drain(self) -> None:
        """Return when everything that was waiting has been answered."""
        while self._task is not None:
            await asyncio.wait([self._task])

    async def _drain(self) -> None:
        try:
            while self._queue:
                if self._wait_seconds:
                    await self._clock.sleep(self._wait_seconds)
                if self._kv.capabilities.blocking_writes:
                    await let_join(lambda: len(self._queue))
                await self._answer(self._take())
        finally:
            self._task = None
            for request in self._queue:
                request.done.cancel()
            self._queue = []

    def _take(self) -> list[_Request]:
        rows, count = 0, 0
        for request in self._queue:
            rows += len(request.changes)
            if count and rows > BATCH_ROWS_MAX:
                break
            count += 1
        batch, self._queue = self._queue[:count], self._queue[count:]
        return batch

    async def _answer(self, batch: list[_Request]) -> None:
        try:
            await self._flush(batch)
        except LakebedError as error:
            self._branch = None
            for request in batch:
                if not request.done.done():
                    request.done.set_exception(error)
        except BaseException:
            for request in batch:
                request.done.cancel()
            raise

    async def _flush(self, batch: list[_Request]) -> None:
        nonce = Nonce(self._ids.token())
        for attempt in range(SWAP_ATTEMPTS_MAX):
            try:
                if not await self._by_segment(batch):
                    await self._attempt(batch, nonce)
            except ConflictError:
                self._branch = None
                await self._back_off(attempt)
            else:
                return
        raise UnavailableError(
            ErrorKind.STORE_UNAVAILABLE,
            f"branch {self._name} changes faster than it can be written to: try again",
        )

    async def _attempt(self, batch: list[_Request], nonce: Nonce) -> None:
        """Write the batch, or raise `ConflictError` if nothing was written and it is to be decided again."""
        branch, token = await self._current(batch)
        plan = await self._plan(branch, token, batch, nonce)
        if not plan.rows:
            return
        fence = self._branches.fence(self._repo, branch, commit=plan.conditional)
        try:
            await self._kv.set_rows(token, plan.rows, fence=fence)
        except UnavailableError as error:
            if not is_unknown(error):
                raise
            await self._require_landed(token, plan.rows, nonce)
        self._opened = token
        _acknowledge(plan.accepted, plan.refused)

    async def _by_segment(self, batch: list[_Request]) -> bool:
        """Stage the batch as a segment, or return False if it is to go as rows; `ConflictError` as for rows."""
        if not self._appender.wants(sum(len(request.changes) for request in batch)):
            return False
        branch = (await self._branches.get(self._repo, self._name)).value
        require_admission(branch)
        if not self._appender.has_room(branch):
            return False
        conditional = any(r.condition is not None for r in batch if not r.done.done())
        if conditional:
            branch = await self._appender.settle(self._repo, branch)
        found = await self._look_up(branch, batch)
        blocks: list[pa.Table] = []
        decided = self._decide(batch, found, lambda request: blocks.append(sorted_block(request.changes)))
        if blocks:
            newest_first = newest_wins(blocks[::-1])
            self._branch = await self._appender.append(self._repo, branch, newest_first, exactly=conditional)
        _acknowledge(decided.accepted, decided.refused)
        return True

    async def _current(self, batch: list[_Request]) -> tuple[Branch, StagingToken]:
        """Return the branch record with an open staging token.

        A remembered record will do where the fence is all that is needed of it. A
        refused condition has no fence, so conditions are decided on a fresh one.
        """
        branch = self._branch
        if branch is None or any(request.condition is not None for request in batch):
            branch = (await self._branches.get(self._repo, self._name)).value
        require_admission(branch)
        if branch.staging_token is None:
            token = new_token(self._repo, self._name, self._ids)
            opened = await self._branches.update(
                self._repo,
                self._name,
                lambda current, _now: with_open_token(current, token),
                landed=lambda current: knows_token(current, token),
            )
            branch = opened.value
        if branch.staging_token is None:
            # Sealed again before we saw it open; the next attempt opens another.
            raise ConflictError(
                ErrorKind.VERSION_CHANGED, f"branch {self._name} was sealed while it was being opened"
            )
        self._branch = branch
        return branch, branch.staging_token

    async def _plan(self, branch: Branch, token: StagingToken, batch: list[_Request], nonce: Nonce) -> _Plan:
        """Decide the conditions on what the branch shows, and return the rows of those that hold."""
        found = await self._look_up(branch, batch)
        rows = [] if self._opened == token else [Row(OPEN_KEY, OPEN_VALUE)]
        written: set[Path] = set()

        def encode(request: _Request) -> None:
            values = [encode_row(change, nonce) for change in request.changes]
            for change, value in zip(request.changes, values, strict=True):
                expect: Version | Expect = Expect.ANY
                if request.condition is not None and change.path not in written:
                    expect = _expected(found[change.path][0], token)
                rows.append(Row(row_key(change.path), value, expect))
                written.add(change.path)

        decided = self._decide(batch, found, encode)
        conditional = any(request.condition is not None for request in decided.accepted)
        return _Plan(rows if decided.accepted else [], decided.accepted, decided.refused, conditional)

    def _decide(
        self,
        batch: list[_Request],
        found: dict[Path, tuple[Staged | None, Change | None]],
        encode: Callable[[_Request], None],
    ) -> _Decided:
        """Decide the conditions in order of arrival, each seeing what those before it write; `encode` who is accepted.

        Who is refused for what is there already is told so at once. Who is refused for what the batch will write is
        told when it is written: if it never is, the condition may hold after all.
        """
        written: dict[Path, Change] = {}
        decided = _Decided([], [])
        for request in batch:
            if request.done.done():
                continue
            try:
                self._require(request, written, found)
            except PreconditionError as error:
                if any(change.path in written for change in request.changes):
                    decided.refused.append((request, error))
                else:
                    request.done.set_exception(error)
                continue
            try:
                encode(request)
            except (ValueError, OverflowError, struct.error) as error:
                # Theirs alone: the others of the batch must not suffer for it.
                request.done.set_exception(_unstorable(request.changes, error))
                continue
            decided.accepted.append(request)
            written.update((change.path, change) for change in request.changes)
        return decided

    def _require(
        self,
        request: _Request,
        written: dict[Path, Change],
        found: dict[Path, tuple[Staged | None, Change | None]],
    ) -> None:
        if request.condition is None:
            return
        for change in request.changes:
            current = written.get(change.path) or found[change.path][1]
            require(request.condition, current, change.path)

    async def _look_up(
        self, branch: Branch, batch: list[_Request]
    ) -> dict[Path, tuple[Staged | None, Change | None]]:
        """Return, for every path under a condition, its newest staged row and its current value."""
        paths = dict.fromkeys(c.path for r in batch if r.condition is not None for c in r.changes)
        found: dict[Path, tuple[Staged | None, Change | None]] = {}
        for path in paths:
            read, staged = await self._reader.lookup(self._repo, branch, path)
            if read is not branch:
                raise ConflictError(
                    ErrorKind.VERSION_CHANGED, f"branch {self._name} moved while it was being read"
                )
            value = staged.change if staged else await self._base.lookup(self._repo, branch, path)
            found[path] = (staged, value)
        return found

    async def _require_landed(self, token: StagingToken, rows: list[Row], nonce: Nonce) -> None:
        """Find out what became of a batch of unknown outcome.

        Raises:
            ConflictError: it was not written, and no longer can be.
            UnavailableError: nobody can tell.
        """
        self._branch = None
        keys = list(dict.fromkeys(row.key for row in rows if row.key != OPEN_KEY))
        try:
            items, dropped = await self._read_back(token, keys)
        except LakebedError as error:
            # Whatever stands in the way of looking, the rows may be there, or may still arrive.
            raise self._unknown() from error
        for key, item in zip(keys, items, strict=True):
            if item is not None and decode_row(_path_of(key), item.value)[1] == nonce:
                return
        if not dropped and any(item is None for item in items):
            raise ConflictError(ErrorKind.FENCE_LOST, f"the write to {self._name} was lost on the way")
        raise self._unknown()

    async def _read_back(self, token: StagingToken, keys: list[bytes]) -> tuple[list[Item | None], bool]:
        """Seal the token, and return its rows, and whether they may have been there and been dropped since."""
        await self._branches.update(
            self._repo,
            self._name,
            lambda current, _now: seal(current) if current.staging_token == token else current,
            landed=lambda current: current.staging_token != token,
        )
        open_row, *items = await self._kv.get_many([(token, key) for key in (OPEN_KEY, *keys)])
        if open_row is not None:
            return items, False
        # Asked after the rows were read: still named now means that nothing had been dropped before.
        branch = (await self._branches.get(self._repo, self._name)).value
        return items, not names_token(branch, token)

    def _unknown(self) -> LakebedError:
        return UnavailableError(
            ErrorKind.OUTCOME_UNKNOWN,
            f"the write to {self._name} was lost on the way, and may or may not be there: read its paths and decide",
        )

    async def _back_off(self, attempt: int) -> None:
        if attempt:
            await self._clock.sleep(
                min(BACKOFF_SECONDS * 2**attempt, BACKOFF_MAX_SECONDS) * self._ids.jitter()
            )


def new_token(repo: Repository, name: BranchName, ids: IdSource) -> StagingToken:
    """Return the name of a KV partition that nobody has used."""
    return StagingToken(f"{repo.name}-{name}:{ids.token()}")


def _acknowledge(accepted: list[_Request], refused: list[tuple[_Request, PreconditionError]]) -> None:
    for request in accepted:
        if not request.done.done():
            request.done.set_result(None)
    for request, refusal in refused:
        if not request.done.done():
            request.done.set_exception(refusal)


def _expected(staged: Staged | None, token: StagingToken) -> Version | Expect:
    """Return what must be in the token for a condition to still hold: the row it was decided on, or none."""
    if staged is None or staged.token != token or staged.version is None:
        return Expect.ABSENT
    return staged.version


def _unstorable(changes: Sequence[Change], error: Exception) -> LakebedError:
    return InvalidInputError(
        ErrorKind.INVALID_ARGUMENT, f"{changes[0].path!r} has a value that cannot be stored: {error}"
    )


def _path_of(key: bytes) -> Path:
    return Path(key[len(row_key("")) :].decode())
