"""What an idle server costs, with much behind it: `python -m bench.idle [--postgres] [--scale 1]`.

At scale 1: 100,000 branches of which 90,000 were deleted by an older lakebed, 10,000 repositories, and 200,000 multipart uploads of the
last week. The first rounds of maintenance enter the tombstones into the `todo` index and drop them. After that it measures, in
one process, processor time and the longest stall of the event loop of

    - an idle round, as one process of an installation has it every ten seconds
    - a whole pass over all repositories, as it happens once an hour, in rounds
    - a poll of an idle compactor, and its pause after that
"""

import argparse
import asyncio
import gc
import sys
import tempfile
import time
from pathlib import Path
from typing import Self

from prometheus_client import CollectorRegistry

from lakebed.compaction.meters import CompactionMeters
from lakebed.compaction.worker import CompactionWorker
from lakebed.env.clock import SystemClock, after
from lakebed.env.ids import SystemIds, encode_base32
from lakebed.format.part_uploads import encode_part_upload
from lakebed.format.records import decode_turn, encode_branch, encode_repository
from lakebed.kv.port import KVStore, Row
from lakebed.limits import GRACE_SECONDS, MAINTENANCE_SECONDS
from lakebed.model.branch import DeletedBranch
from lakebed.model.ids import BranchName, Nonce, RepoName, RepoUid, parse_path
from lakebed.model.part_uploads import PartUpload
from lakebed.model.repository import Repository
from lakebed.refs.branches import new_branch
from lakebed.refs.keys import (
    REPOSITORIES_PARTITION,
    TODO_PARTITION,
    TURN_KEY,
    UPLOADS_PREFIX,
    branch_key,
    repo_key,
)
from lakebed.server.config import Config
from lakebed.server.installation import open_installation
from lakebed.server.maintenance import Maintenance
from lakebed.server.wiring import Wired
from lakebed.testing.postgres import running_postgres

_BATCH = 5_000


class Watch:
    """Processor time of this process, and the most that its event loop spent between two turns.

    Both are processor time, not wall time: other processes of the machine do not count.
    """

    def __init__(self) -> None:
        self.stall_seconds = 0.0
        self.cpu_seconds = 0.0

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._beat())
        await asyncio.sleep(0)
        self._began = time.process_time()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.cpu_seconds = time.process_time() - self._began
        self._task.cancel()

    async def _beat(self) -> None:
        while True:
            began = time.thread_time()
            await asyncio.sleep(0.001)
            self.stall_seconds = max(self.stall_seconds, time.thread_time() - began)


async def main(scale: float, kv_url: str | None) -> None:
    with tempfile.TemporaryDirectory() as folder:
        config = Config(data=Path(folder), kv_url=kv_url)
        async with open_installation(config) as site:
            gc.freeze()  # As a server does when it starts: a collection then passes over what was imported.
            await measure(site, scale)


async def measure(site: Wired, scale: float) -> None:
    kv = site.engine.parts.kv
    await fill(site, kv, scale)
    clock, ids = SystemClock(), SystemIds()
    maintenance = Maintenance(site, clock=clock, ids=ids)
    async with Watch() as watch:
        rounds = 0
        while await is_busy(kv) or not rounds:
            await maintenance.once()
            rounds += 1
    say(f"first pass, tombstones dropped: {rounds} rounds, {watch.cpu_seconds:.1f} s", watch)
    async with Watch() as watch:
        for _ in range(20):
            await maintenance.once()
    share = watch.cpu_seconds / 20 / MAINTENANCE_SECONDS
    say(f"idle round: {watch.cpu_seconds / 20 * 1000:.2f} ms, {share:.3%} of a core", watch)
    async with Watch() as watch:
        await again(kv)
        rounds = 1
        await maintenance.once()
        while await is_busy(kv):
            await maintenance.once()
            rounds += 1
    say(
        f"a pass: {rounds} rounds, {watch.cpu_seconds:.2f} s, {watch.cpu_seconds / 3600:.3%} of a core", watch
    )
    worker = CompactionWorker(
        site.engine.compaction,
        site.job_runner,
        places=2,
        clock=clock,
        ids=ids,
        meters=CompactionMeters(CollectorRegistry()),
    )
    for _ in range(2):
        await worker.round()
    async with Watch() as watch:
        began = time.perf_counter()
        await worker.round()
        took = time.perf_counter() - began
    pause = worker.poll_seconds(took)
    say(
        f"compactor: a poll {took:.3f} s, pause {pause:.1f} s, {watch.cpu_seconds / (pause + took):.3%} of a core",
        watch,
    )


def say(what: str, watch: Watch) -> None:
    sys.stdout.write(f"{what}; longest stall {watch.stall_seconds * 1000:.1f} ms\n")


async def is_busy(kv: KVStore) -> bool:
    """Whether entries are due, or a pass is under way."""
    item = await kv.get(REPOSITORIES_PARTITION, TURN_KEY)
    if item is not None and decode_turn(item.value).cursor:
        return True
    async for _ in kv.scan(TODO_PARTITION, page_items_max=1):
        return True
    return False


async def again(kv: KVStore) -> None:
    """Make the next pass due now."""
    await kv.delete_rows(REPOSITORIES_PARTITION, [TURN_KEY])


async def fill(site: Wired, kv: KVStore, scale: float) -> None:
    repo = await site.catalog.repositories.create("bench", "local://bench")
    head = (await site.engine.parts.branches.get(repo, repo.default_branch)).value.commit_id
    old = after(await kv.now(), -2 * GRACE_SECONDS)
    live = [
        new_branch(BranchName(f"b{n:06d}"), head, Nonce(f"n{n}"), now=old)
        for n in range(round(10_000 * scale))
    ]
    dead = [
        DeletedBranch(
            name=BranchName(f"d{n:06d}"), next_seq=1, last_token=0, min_era=0, retired=(), updated_at=old
        )
        for n in range(round(90_000 * scale))
    ]
    await write(
        kv, repo.partition, [Row(branch_key(each.name), encode_branch(each)) for each in [*live, *dead]]
    )
    uploads = [
        PartUpload(
            id=f"w{encode_base32(after(old, -n), width=12)}{n:040d}",
            branch=repo.default_branch,
            path=parse_path(f"p{n}"),
            address=f"data/x/{n}",
            store_upload="u",
            initiator="",
            created_at=after(old, -n),
            content_type="",
        )
        for n in range(round(200_000 * scale))
    ]
    await write(
        kv, repo.partition, [Row(UPLOADS_PREFIX + u.id.encode(), encode_part_upload(u)) for u in uploads]
    )
    others = [
        Repository(
            name=RepoName(f"repo{n:05d}"),
            uid=RepoUid(f"{n:020d}"),
            namespace=f"local://repo{n}",
            default_branch=BranchName("main"),
            created_at=old,
        )
        for n in range(round(10_000 * scale))
    ]
    await write(
        kv, REPOSITORIES_PARTITION, [Row(repo_key(each.name), encode_repository(each)) for each in others]
    )


async def write(kv: KVStore, partition: str, rows: list[Row]) -> None:
    for start in range(0, len(rows), _BATCH):
        await kv.set_rows(partition, rows[start : start + _BATCH])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m bench.idle", description=__doc__)
    parser.add_argument("--postgres", action="store_true")
    parser.add_argument("--scale", type=float, default=1.0)
    wanted = parser.parse_args()
    if wanted.postgres:
        with running_postgres() as server:
            asyncio.run(main(wanted.scale, server.url()))
    else:
        asyncio.run(main(wanted.scale, None))
