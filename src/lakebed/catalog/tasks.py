"""Tasks: work that outlives the request that started it.

A task's record is in the KV, so that any process can answer for it. The process
that runs it shows a sign of life every second, and looks whether somebody wants
it to stop; a record without one for `TASK_DEAD_SECONDS` belongs to a dead process
and reads as failed. Records go a day after they were last touched.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace

from lakebed.env.clock import after
from lakebed.errors import (
    ConflictError,
    ErrorKind,
    LakebedError,
    NotFoundError,
    UnavailableError,
    cut,
    quoted,
)
from lakebed.format.tasks import decode_task, encode_task
from lakebed.kv.port import Expect, prefix_end
from lakebed.limits import SWAP_ATTEMPTS_MAX, TASK_DEAD_SECONDS, TASK_LIFETIME_SECONDS
from lakebed.model.ids import Nonce
from lakebed.model.repository import Repository
from lakebed.model.tasks import Task, TaskState
from lakebed.refs.backoff import back_off
from lakebed.refs.keys import TASKS_PREFIX, task_key
from lakebed.telemetry.log import get_logger
from lakebed.versioning.parts import Parts

log = get_logger(__name__)

_SIGN_OF_LIFE_SECONDS = 1.0

Report = Callable[[int], None]
Work = Callable[[Report], Awaitable[Mapping[str, str]]]
"""Does the work, reports progress as a number, returns what the client wants to know."""


class Tasks:
    """Starts tasks and answers for them."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._running: dict[Nonce, asyncio.Task[None]] = {}

    async def start(self, repo: Repository, kind: str, work: Work, *, branch: str = "") -> Task:
        """Begin `work` in the background and return its record. A task of a branch is shown under that branch only."""
        now = await self._parts.kv.now()
        task = Task(
            id=Nonce(self._parts.ids.token()),
            kind=kind,
            state=TaskState.RUNNING,
            started_at=now,
            updated_at=now,
            branch=branch,
        )
        await self._parts.kv.swap(
            repo.partition, task_key(task.id), encode_task(task), expected=Expect.ABSENT
        )
        self._running[task.id] = asyncio.create_task(self._run(repo, task, work))
        return task

    async def get(self, repo: Repository, task_id: str, *, kind: str, branch: str = "") -> Task:
        """Return a task's record; one whose process died reads as failed.

        Raises:
            NotFoundError: `TASK_NOT_FOUND`.
        """
        task = await self._read(repo, task_id, kind=kind, branch=branch)
        dead = after(task.updated_at, TASK_DEAD_SECONDS) < await self._parts.kv.now()
        if task.state is TaskState.RUNNING and dead:
            return replace(
                task,
                state=TaskState.FAILED,
                error="the process that ran this task died: start it again",
                error_kind=ErrorKind.OUTCOME_UNKNOWN.value,
            )
        return task

    async def cancel(self, repo: Repository, task_id: str, *, kind: str, branch: str = "") -> None:
        """Ask a task to stop. It does so within a second or two, and leaves nothing visible behind.

        Raises:
            ConflictError: `TASK_COMPLETED`.
        """
        known = await self.get(repo, task_id, kind=kind, branch=branch)
        # The request would be taken for a sign of life of a task whose process died.
        if known.state is not TaskState.RUNNING or not await self._update(
            repo, Nonce(task_id), lambda task: replace(task, cancel=True)
        ):
            raise ConflictError(ErrorKind.TASK_COMPLETED, f"{kind} {task_id} has ended already")

    async def sweep(self, repo: Repository) -> int:
        """Remove the records of tasks that ended long ago. Return how many."""
        oldest = after(await self._parts.kv.now(), -TASK_LIFETIME_SECONDS)
        old: list[bytes] = []
        async for page in self._parts.kv.scan(
            repo.partition, start=TASKS_PREFIX, end=prefix_end(TASKS_PREFIX)
        ):
            old += [item.key for item in page.items() if decode_task(item.value).updated_at < oldest]
        await self._parts.kv.delete_rows(repo.partition, old)
        return len(old)

    async def drain(self) -> None:
        """Stop what runs in this process, and record that it was stopped."""
        for running in list(self._running.values()):
            running.cancel()
        await asyncio.gather(*self._running.values(), return_exceptions=True)

    async def _run(self, repo: Repository, task: Task, work: Work) -> None:
        progress = 0

        def report(count: int) -> None:
            nonlocal progress
            progress = count

        async def worked() -> Mapping[str, str]:
            return await work(report)

        job = asyncio.create_task(worked())
        try:
            while not job.done():
                await asyncio.wait([job], timeout=_SIGN_OF_LIFE_SECONDS)
                if not job.done() and await self._is_unwanted(repo, task.id, progress):
                    job.cancel()
        finally:
            # Also when this process stops: whoever asks shall know.
            job.cancel()
            await asyncio.wait([job])
            self._running.pop(task.id, None)
            await asyncio.shield(self._end(repo, task.id, job, progress))

    async def _is_unwanted(self, repo: Repository, task_id: Nonce, progress: int) -> bool:
        """Show a sign of life, and return whether somebody wants the task to stop."""
        try:
            alive = await self._update(repo, task_id, lambda t: replace(t, progress=progress))
        except UnavailableError as error:
            log.warning("task_sign_of_life_lost", task=task_id, error=str(error))
            return False
        return alive is None or alive.cancel

    async def _end(
        self, repo: Repository, task_id: Nonce, job: asyncio.Task[Mapping[str, str]], progress: int
    ) -> None:
        def ended(task: Task) -> Task:
            if job.cancelled():
                kind = ErrorKind.CANCELLED.value
                return replace(task, state=TaskState.CANCELLED, error="cancelled", error_kind=kind)
            error = job.exception()
            if error is None:
                return replace(task, state=TaskState.DONE, progress=progress, result=dict(job.result()))
            kind = error.kind.value if isinstance(error, LakebedError) else ""
            return replace(task, state=TaskState.FAILED, progress=progress, error=str(error), error_kind=kind)

        if not job.cancelled() and (error := job.exception()) is not None:
            log.warning("task_failed", task=task_id, error=str(error))
        for attempt in range(SWAP_ATTEMPTS_MAX):
            try:
                await self._update(repo, task_id, ended)
            except UnavailableError as error:
                # Until this is said, the task reads as running, and then as failed, whatever it did.
                log.warning("task_end_not_recorded", task=task_id, error=str(error))
                await back_off(attempt, clock=self._parts.clock, ids=self._parts.ids)
            else:
                return

    async def _update(self, repo: Repository, task_id: Nonce, change: Callable[[Task], Task]) -> Task | None:
        """Swap a change of a running task in; None if it has ended or is gone."""
        for _ in range(SWAP_ATTEMPTS_MAX):
            item = await self._parts.kv.get(repo.partition, task_key(task_id))
            task = decode_task(item.value) if item is not None else None
            if item is None or task is None or task.state is not TaskState.RUNNING:
                return None
            changed = replace(change(task), updated_at=await self._parts.kv.now())
            try:
                await self._parts.kv.swap(
                    repo.partition, task_key(task_id), encode_task(changed), expected=item.version
                )
            except ConflictError:
                continue
            return changed
        return None

    async def _read(self, repo: Repository, task_id: str, *, kind: str, branch: str) -> Task:
        item = await self._parts.kv.get(repo.partition, task_key(Nonce(task_id))) if task_id else None
        task = decode_task(item.value) if item is not None else None
        # Records of an older lakebed do not say which branch they are of.
        if task is None or task.kind != kind or task.branch not in (branch, ""):
            where = f"branch {cut(branch)} of {repo.name}" if branch else repo.name
            raise NotFoundError(ErrorKind.TASK_NOT_FOUND, f"there is no {kind} {quoted(task_id)} in {where}")
        return task
