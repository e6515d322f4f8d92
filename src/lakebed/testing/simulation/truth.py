"""`Truth`: what every branch really shows, step by step, read from the database below the engine.

The database tells of every write it applies. What a branch shows is then computed
from its record, the rows of its tokens and the files of its trees, by the shortest
code that can do it: dictionaries laid over each other. Nothing here is shared with
the engine's own readers, which are what it is compared with.
"""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from lakebed.committed.names import metarange_key, range_key
from lakebed.format.blocks import block_changes
from lakebed.format.metaranges import decode_metarange, range_infos
from lakebed.format.ranges import decode_range
from lakebed.format.records import decode_branch, decode_commit, decode_repository, decode_stash
from lakebed.format.rows import ROW_PREFIX, decode_row
from lakebed.format.segments import decode_dataset, decode_footer
from lakebed.model.branch import Branch, BranchRecord
from lakebed.model.commits import Commit
from lakebed.model.diffs import MergeStrategy
from lakebed.model.entries import Entry
from lakebed.model.ids import EMPTY_TREE, CommitId, MetarangeId, Nonce, Path, StagingToken
from lakebed.model.layers import Layer, TokenLayer, layer_name
from lakebed.model.repository import CreatingRepository, Repository, RepositoryRecord
from lakebed.model.segments import SEGMENTS_FOLDER, segment_key
from lakebed.model.stash import Stash
from lakebed.objects.drivers.memory import MemoryBucket
from lakebed.refs.keys import (
    BRANCHES_PREFIX,
    COMMITS_PREFIX,
    REPOS_PREFIX,
    REPOSITORIES_PARTITION,
    STASHES_PREFIX,
    commit_key,
)

View = Mapping[str, str]
"""Path to checksum: every content of a simulation is written once, so its checksum names the write."""

Changes = Mapping[str, str | None]
"""Path to checksum, or to None where it was deleted."""


@dataclass(frozen=True, slots=True)
class Moment:
    """What a branch was from a step on: its commit and what it showed; both None while it did not exist."""

    step: int
    commit_id: CommitId | None
    view: View | None


@dataclass(slots=True)
class Timeline:
    """Every moment of one branch."""

    moments: list[Moment] = field(default_factory=lambda: [Moment(0, None, None)])

    @property
    def last(self) -> Moment:
        return self.moments[-1]

    def add(self, moment: Moment) -> None:
        self.moments.append(moment)

    def during(self, start: int, end: int) -> Sequence[Moment]:
        """Return the moments of which a part lies between two steps."""
        first = bisect_right(self.moments, start, key=_step) - 1
        return self.moments[first : bisect_right(self.moments, end, key=_step)]


class Truth:
    """The state of the database, decoded."""

    def __init__(self, buckets: Mapping[str, MemoryBucket]) -> None:
        self._buckets = buckets
        self._namespaces: dict[str, str] = {}
        self._trees: dict[tuple[str, MetarangeId], View] = {}
        self._segments: dict[str, Changes] = {}
        self._decoded: dict[bytes, tuple[str | None, Nonce]] = {}
        self.partitions: dict[str, dict[bytes, bytes]] = {}
        self.timelines: dict[tuple[str, str], Timeline] = {}
        self.repositories: dict[str, list[tuple[int, RepositoryRecord]]] = {}
        self.restored_at = 0
        """The step at which the database was last restored: what was committed before may be lost."""

    def write(self, partition: str, key: bytes, value: bytes) -> None:
        self.partitions.setdefault(partition, {})[key] = value
        if partition == REPOSITORIES_PARTITION and key.startswith(REPOS_PREFIX):
            record = decode_repository(value)
            if isinstance(record, CreatingRepository | Repository):
                self._namespaces[f"{record.name}-{record.uid}"] = record.namespace

    def remove(self, partition: str, keys: Iterable[bytes]) -> None:
        rows = self.partitions.get(partition, {})
        for key in keys:
            rows.pop(key, None)
        if not rows:
            self.partitions.pop(partition, None)

    def restore(self, partitions: Mapping[str, Mapping[bytes, bytes]], step: int) -> None:
        """The database is that of an earlier moment: from this step on, branches show what they did then."""
        self.restored_at = step
        self.partitions = {partition: dict(rows) for partition, rows in partitions.items()}
        for (partition, name), timeline in self.timelines.items():
            record = self.branch(partition, name)
            if isinstance(record, Branch):
                timeline.add(Moment(step, record.commit_id, self.view(partition, record)))
            else:
                timeline.add(Moment(step, None, None))

    def timeline(self, partition: str, branch: str) -> Timeline:
        return self.timelines.setdefault((partition, branch), Timeline())

    def branch(self, partition: str, name: str) -> BranchRecord | None:
        value = self.partitions.get(partition, {}).get(BRANCHES_PREFIX + name.encode())
        return decode_branch(value) if value is not None else None

    def branches(self, partition: str) -> list[BranchRecord]:
        rows = self.partitions.get(partition, {})
        return [
            decode_branch(value) for key, value in sorted(rows.items()) if key.startswith(BRANCHES_PREFIX)
        ]

    def stashes(self, partition: str) -> list[Stash]:
        rows = self.partitions.get(partition, {})
        return [decode_stash(value) for key, value in sorted(rows.items()) if key.startswith(STASHES_PREFIX)]

    def commit(self, partition: str, commit_id: CommitId) -> Commit:
        return decode_commit(self.partitions[partition][commit_key(commit_id)])

    def commits(self, partition: str) -> list[Commit]:
        rows = self.partitions.get(partition, {})
        return [decode_commit(value) for key, value in sorted(rows.items()) if key.startswith(COMMITS_PREFIX)]

    def repository_partitions(self) -> list[str]:
        """Return the partition of every repository that ever had a branch."""
        return sorted({partition for partition, _ in self.timelines})

    def live_repositories(self) -> list[Repository]:
        rows = self.partitions.get(REPOSITORIES_PARTITION, {})
        records = [
            decode_repository(value) for key, value in sorted(rows.items()) if key.startswith(REPOS_PREFIX)
        ]
        return [record for record in records if isinstance(record, Repository)]

    def is_live(self, partition: str) -> bool:
        """Return whether it is the partition of a repository that exists."""
        return any(repo.partition == partition for repo in self.live_repositories())

    def content(self, partition: str, commit_id: CommitId) -> View:
        """Return what a commit holds."""
        return self.tree(partition, self.commit(partition, commit_id).tree)

    def tree(self, partition: str, tree: MetarangeId) -> View:
        if tree == EMPTY_TREE:
            return {}
        found = self._trees.get((partition, tree))
        if found is None:
            found = self._trees[partition, tree] = self._read_tree(partition, tree)
        return found

    def layer(self, token: StagingToken) -> Changes:
        """Return the changes in a token's rows."""
        changes: dict[str, str | None] = {}
        for key, value in self.partitions.get(token, {}).items():
            if key.startswith(ROW_PREFIX):
                changes[key[len(ROW_PREFIX) :].decode()] = self.row(key, value)[0]
        return changes

    def row(self, key: bytes, value: bytes) -> tuple[str | None, Nonce]:
        """Return the checksum (None: a tombstone) and the nonce of a staged row."""
        found = self._decoded.get(value)
        if found is None:
            change, nonce = decode_row(Path(key[len(ROW_PREFIX) :].decode()), value)
            checksum = change.checksum if isinstance(change, Entry) else None
            found = self._decoded[value] = (checksum, nonce)
        return found

    def changes(self, partition: str, layer: Layer) -> Changes:
        """Return what a layer changes."""
        if isinstance(layer, TokenLayer):
            return self.layer(layer.token)
        file = self._buckets[self._namespaces[partition]].objects.get(segment_key(layer.id))
        if file is None:
            raise AssertionError(f"the file of segment {layer.id} was deleted, and a branch shows it")
        found = self._segments.get(layer_name(layer))
        if found is None:
            footer = decode_footer(file.data, size=len(file.data))
            dataset = footer.datasets[layer.dataset]
            block = decode_dataset(footer, layer.dataset, file.data[dataset.start : dataset.stop])
            found = self._segments[layer_name(layer)] = {
                change.path: change.checksum if isinstance(change, Entry) else None
                for change in block_changes(block)
            }
        return found

    def segment_files(self, partition: str) -> set[str]:
        """Return the keys of all segments of a repository."""
        files = self._buckets[self._namespaces[partition]].objects
        return {key for key in files if key.startswith(SEGMENTS_FOLDER)}

    def base(self, partition: str, branch: Branch) -> View:
        """Return what lies below the layers."""
        if branch.compacted is not None:
            return self.tree(partition, branch.compacted)
        return self.content(partition, branch.commit_id)

    def view(self, partition: str, branch: Branch) -> View:
        """Return what a branch shows."""
        layers = [self.changes(partition, layer) for layer in reversed(live_layers(branch))]
        return laid_over(self.base(partition, branch), layers)

    def _read_tree(self, partition: str, tree: MetarangeId) -> View:
        files = self._buckets[self._namespaces[partition]].objects
        view: dict[str, str] = {}
        for info in range_infos(decode_metarange(files[metarange_key(tree)].data)):
            block = decode_range(files[range_key(info.id)].data)
            view.update(
                zip(block.column("key").to_pylist(), block.column("checksum").to_pylist(), strict=True)
            )
        return view


def laid_over(base: View, layers: Iterable[Changes]) -> View:
    """Return `base` with the layers on top, the oldest first."""
    view = dict(base)
    for layer in layers:
        for path, checksum in layer.items():
            put(view, path, checksum)
    return view


def live_layers(branch: Branch) -> list[Layer]:
    """Return a branch's layers, newest first."""
    token = branch.staging_token
    staging: list[Layer] = [] if token is None else [TokenLayer(token=token, seq=branch.next_seq)]
    return [*staging, *branch.sealed]


def live_tokens(branch: Branch) -> list[StagingToken]:
    """Return the tokens of a branch's layers, newest first."""
    return [layer.token for layer in live_layers(branch) if isinstance(layer, TokenLayer)]


def live_names(branch: Branch) -> list[str]:
    """Return the names of a branch's layers, newest first."""
    return [layer_name(layer) for layer in live_layers(branch)]


def retired_names(record: BranchRecord) -> list[str]:
    return [layer_name(retired.layer) for retired in record.retired]


def three_way(
    base: View, source: View, dest: View, strategy: MergeStrategy = MergeStrategy.NONE
) -> tuple[View, list[str]]:
    """Return `dest` with what changed from `base` to `source`, and the paths nobody can decide."""
    merged, conflicts = dict(dest), []
    for path in sorted({*base, *source, *dest}):
        before, theirs, ours = base.get(path), source.get(path), dest.get(path)
        if theirs in (before, ours):
            continue
        if ours == before or strategy is MergeStrategy.SOURCE_WINS:
            put(merged, path, theirs)
        elif strategy is MergeStrategy.NONE:
            conflicts.append(path)
    return merged, conflicts


def put(view: dict[str, str], path: str, checksum: str | None) -> None:
    """Set a path, or delete it if `checksum` is None."""
    if checksum is None:
        view.pop(path, None)
    else:
        view[path] = checksum


def _step(moment: Moment) -> int:
    return moment.step
