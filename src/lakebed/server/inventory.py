"""`Inventory`: how much there is of what, in an installation's database. Counts only, no content."""

from dataclasses import dataclass, field
from typing import Any

from lakebed.auth.keys import AUTH_PARTITION
from lakebed.errors import CorruptError
from lakebed.format.records import decode_branch
from lakebed.format.rows import ROW_PREFIX
from lakebed.kv.drivers.lmdb import LmdbKV
from lakebed.kv.port import KVStore, prefix_end
from lakebed.model.branch import Branch
from lakebed.model.layers import SegmentLayer
from lakebed.model.repository import Repository
from lakebed.refs.keys import (
    BRANCHES_PREFIX,
    CLEANUP_PARTITION,
    COMMITS_PREFIX,
    STASHES_PREFIX,
    TAGS_PREFIX,
    TASKS_PREFIX,
)
from lakebed.refs.repositories import Repositories
from lakebed.refs.scans import scan_records
from lakebed.staging.record import tokens_of


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchCounts:
    """One branch's uncommitted side."""

    name: str
    hidden: bool
    sealed_layers: int
    retired_layers: int
    pending: int
    staged_rows: int


@dataclass(slots=True, kw_only=True)
class RepositoryCounts:
    """One repository. Records of deleted refs count too: they are there."""

    name: str
    state: str
    namespace: str = ""
    read_only: bool = False
    commits: int = 0
    branch_records: int = 0
    tag_records: int = 0
    stash_records: int = 0
    task_records: int = 0
    damaged_records: int = 0
    branches: list[BranchCounts] = field(default_factory=list)


async def count_repositories(kv: KVStore, repositories: Repositories) -> list[RepositoryCounts]:
    """Return what there is in every repository."""
    counted = []
    async for found in repositories.scan():
        record = found.value
        counts = RepositoryCounts(name=record.name, state=type(record).__name__)
        if isinstance(record, Repository):
            await _count(kv, record, counts)
        counted.append(counts)
    return counted


async def count_database(kv: KVStore) -> dict[str, Any]:
    """Return what the database tells of itself, and how much lies in the partitions that all repositories share."""
    counts: dict[str, Any] = {
        "driver": type(kv).__name__,
        "fences": kv.capabilities.fences,
        "engine_time": kv.capabilities.engine_time,
        "auth_records": await _rows(kv, AUTH_PARTITION),
        "cleanup_entries": await _rows(kv, CLEANUP_PARTITION),
    }
    if isinstance(kv, LmdbKV):
        counts["map_bytes"] = kv.environment.map_bytes()
        counts["partitions"] = len(kv.environment.partitions())
        counts["readers"] = kv.environment.readers().splitlines()
    return counts


async def _count(kv: KVStore, repo: Repository, counts: RepositoryCounts) -> None:
    counts.namespace, counts.read_only = repo.namespace, repo.read_only
    counts.commits = await _rows(kv, repo.partition, COMMITS_PREFIX)
    counts.tag_records = await _rows(kv, repo.partition, TAGS_PREFIX)
    counts.stash_records = await _rows(kv, repo.partition, STASHES_PREFIX)
    counts.task_records = await _rows(kv, repo.partition, TASKS_PREFIX)
    async for items in scan_records(kv, repo.partition, BRANCHES_PREFIX):
        counts.branch_records += len(items)
        for item in items:
            try:
                record = decode_branch(item.value)
            except CorruptError:
                counts.damaged_records += 1
                continue
            if isinstance(record, Branch):
                counts.branches.append(await _count_branch(kv, record))


async def _count_branch(kv: KVStore, branch: Branch) -> BranchCounts:
    rows = sum([await _rows(kv, token, ROW_PREFIX) for token in tokens_of(branch)])
    segments = [layer for layer in branch.sealed if isinstance(layer, SegmentLayer)]
    return BranchCounts(
        name=branch.name,
        hidden=branch.hidden,
        sealed_layers=len(branch.sealed),
        retired_layers=len(branch.retired),
        pending=len(branch.pending),
        staged_rows=rows + sum(layer.entries + layer.tombstones for layer in segments),
    )


async def _rows(kv: KVStore, partition: str, prefix: bytes = b"") -> int:
    end = prefix_end(prefix) if prefix else None
    return sum([len(page) async for page in kv.scan(partition, start=prefix, end=end)])
