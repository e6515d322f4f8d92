"""An hour without a compactor: ten thousand branches with ten layers each, and one worker that drains them.

Layers are laid straight into the stores, half of them rows and half of them datasets of shared
segments, so that the time is the worker's alone.
"""

import asyncio
from dataclasses import replace

from prometheus_client import CollectorRegistry

from bench.clock import Stopwatch
from bench.figure import Figure
from bench.lab import REPO, Lab, entry
from lakebed.compaction.meters import CompactionMeters
from lakebed.env.clock import Instant, after
from lakebed.format.blocks import change_block
from lakebed.format.records import encode_branch
from lakebed.format.rows import OPEN_KEY, OPEN_VALUE, encode_row, row_key
from lakebed.format.segments import decode_footer, encode_segment
from lakebed.kv.port import Expect, Row
from lakebed.model.branch import Branch
from lakebed.model.ids import BranchName, CommitId, Nonce, StagingToken
from lakebed.model.layers import Layer, TokenLayer
from lakebed.model.repository import Repository
from lakebed.model.segments import SegmentName, era_at, segment_key
from lakebed.refs.branches import branch_names, new_branch
from lakebed.refs.keys import branch_key
from lakebed.server.compaction_worker import compaction_worker
from lakebed.server.config import Config
from lakebed.server.wiring import Wired

_LAYERS = 10
_ROWS = 10
_TOGETHER = 500
_AN_HOUR = 3600.0
_PLACES = 2


async def backlog(lab: Lab) -> list[Figure]:
    """Drain 100,000 layers with one worker."""
    branches = lab.count(10_000)
    async with lab.fresh() as site:
        repo = await site.catalog.repositories.get(REPO)
        flushed = sum(
            [
                await _lay(site, repo, range(first, min(first + _TOGETHER, branches)))
                for first in range(0, branches, _TOGETHER)
            ]
        )
        registry = CollectorRegistry()
        config = Config(data=lab.work, compactor_jobs=_PLACES)
        worker = compaction_worker(config, site, CompactionMeters(registry))
        with Stopwatch() as watch:
            running = asyncio.create_task(worker.run())
            while not _is_drained(registry):
                await asyncio.sleep(0.1)
        worker.stop()
        await running
    jobs = _total(registry, "lakebed_compaction_jobs_total", outcome="done")
    written = _total(registry, "lakebed_compaction_written_bytes_total")
    return [
        Figure(
            name=f"{branches * _LAYERS:,} layers on {branches:,} branches drained by one worker",
            value=watch.seconds,
            unit="s",
            note=f"{jobs:,.0f} jobs, {_PLACES} at a time",
        ),
        Figure(name="jobs", value=jobs / watch.seconds, unit="/s"),
        Figure(
            name="write amplification",
            value=written / flushed,
            unit="x",
            note=f"{written / 2**20:,.1f} MiB of files for {flushed / 2**20:,.1f} MiB of rows and segments",
        ),
    ]


async def _lay(site: Wired, repo: Repository, numbers: range) -> int:
    """Create branches with layers, and return how many bytes those have."""
    kv, now = site.engine.parts.kv, await site.engine.parts.kv.now()
    main = (await site.engine.parts.branches.get(repo, BranchName("main"))).value
    made = [_branch(number, main.commit_id, after(now, -_AN_HOUR)) for number in numbers]
    layers: dict[Nonce, list[Layer]] = {branch.incarnation: [] for branch in made}
    flushed = 0
    for seq in range(1, _LAYERS + 1):
        flushed += (
            await _lay_rows(site, made, layers, seq)
            if seq % 2
            else await _lay_segment(site, repo, made, layers, seq)
        )
    for branch in made:
        newest_first = tuple(reversed(layers[branch.incarnation]))
        staged = replace(branch, sealed=newest_first, next_seq=_LAYERS + 1)
        await kv.swap(
            repo.partition,
            branch_key(branch.name),
            encode_branch(staged),
            expected=Expect.ABSENT,
            names=branch_names(staged),
        )
    return flushed


def _branch(number: int, commit: CommitId, at: Instant) -> Branch:
    return new_branch(BranchName(f"b{number:06}"), commit, Nonce(f"{number:020}"), now=at)


async def _lay_rows(site: Wired, made: list[Branch], layers: dict[Nonce, list[Layer]], seq: int) -> int:
    async def lay(branch: Branch) -> int:
        token = StagingToken(f"{REPO}-{branch.name}:{seq}")
        rows = [
            Row(row_key(change.path), encode_row(change, branch.incarnation))
            for change in (entry(f"{seq}/{n:04}", n) for n in range(_ROWS))
        ]
        await site.engine.parts.kv.set_rows(token, [*rows, Row(OPEN_KEY, OPEN_VALUE)])
        layers[branch.incarnation].append(TokenLayer(token=token, seq=seq))
        return sum(len(row.key) + len(row.value) for row in rows)

    return sum(await asyncio.gather(*map(lay, made)))


async def _lay_segment(
    site: Wired,
    repo: Repository,
    made: list[Branch],
    layers: dict[Nonce, list[Layer]],
    seq: int,
) -> int:
    block = change_block([entry(f"{seq}/{n:04}", n) for n in range(_ROWS)])
    data = encode_segment({branch.incarnation: block for branch in made})
    now = await site.engine.parts.kv.now()
    name = str(SegmentName(era_at(now), Nonce(site.engine.parts.ids.token())))
    store = await site.engine.store_of(repo)
    await store.put(segment_key(name), data)
    footer = decode_footer(data, size=len(data))
    for branch in made:
        dataset = footer.datasets[branch.incarnation]
        layers[branch.incarnation].append(dataset.layer(name, seq=seq))
    return len(data)


def _is_drained(registry: CollectorRegistry) -> bool:
    layers = registry.get_sample_value("lakebed_compaction_sealed_layers")
    return layers == 0 and _total(registry, "lakebed_compaction_jobs_total") > 0


def _total(registry: CollectorRegistry, name: str, **labels: str) -> float:
    return sum(
        sample.value
        for family in registry.collect()
        for sample in family.samples
        if sample.name == name and labels.items() <= sample.labels.items()
    )
