"""What a collector must never do, judged at every write to the database and at every deletion in the store.

- Nothing is deleted that something refers to.
- Nothing refers to what is not there: no row, no layer, no ref is ever written on top of a deleted object or file.
- A mark that counts lists nothing that something refers to; two marks are for what nobody can see.
- It condemns no commit that the rules keep.
"""

from collections.abc import Iterable, Sequence

from lakebed.env.clock import Instant, after
from lakebed.errors import LakebedError
from lakebed.format.gc import CANDIDATES_FILE, STATE, DataFile, State, decode_table, state_key
from lakebed.format.gc_state import decode_gc_state
from lakebed.format.layout import DATA_FOLDER
from lakebed.format.records import decode_branch, decode_stash, decode_tag
from lakebed.format.rows import ROW_PREFIX
from lakebed.kv.port import Row
from lakebed.model.branch import Branch
from lakebed.model.commits import Tag
from lakebed.model.gc import Mark, MarkKind
from lakebed.model.ids import CommitId
from lakebed.model.repository import Repository
from lakebed.model.stash import StashState
from lakebed.objects.drivers.memory import MemoryBucket
from lakebed.refs.keys import BRANCHES_PREFIX, GC_RULES_KEY, GC_STATE_KEY, STASHES_PREFIX, TAGS_PREFIX
from lakebed.testing.simulation.gc_model import TREE_FOLDERS, Reachability
from lakebed.testing.simulation.network import Delivery
from lakebed.testing.simulation.record_laws import LawBrokenError
from lakebed.testing.simulation.world import World

# How far the database's clock may have jumped since somebody has asked it for the time.
_SLACK_SECONDS = 120.0


class GcLaws:
    """A `Watcher` of the database and an `Observer` of the network, for one repository."""

    def __init__(self, world: World, repo: Repository) -> None:
        self._world = world
        self._repo = repo
        self._bucket: MemoryBucket = world.buckets[repo.namespace]
        self.model = Reachability(world.truth, self._bucket, repo)
        self._marks: set[str] = set()
        self._attempt = ""
        self._stayed_before: set[str] = set()
        """What had to stay then."""
        self._kept_before: set[CommitId] | None = set()
        """What the rules kept when the newest preparation of commits began; None if the rules have changed since."""
        # After the laws, which bring the truth up to date.
        world.database.watch(self)
        world.network.observers.append(self)

    def swapped(self, partition: str, key: bytes, value: bytes) -> None:
        if partition != self._repo.partition:
            return
        if key == GC_STATE_KEY:
            self._state_swapped(value)
        elif key == GC_RULES_KEY:
            self._kept_before = None
        elif key.startswith(BRANCHES_PREFIX):
            branch = decode_branch(value)
            if isinstance(branch, Branch) and not branch.tentative:
                self._require_there(self.model.staged(branch), f"branch {branch.name}")
                self._require_commit(branch.commit_id, f"branch {branch.name}")
        elif key.startswith(TAGS_PREFIX):
            tag = decode_tag(value)
            if isinstance(tag, Tag) and not tag.tentative:
                self._require_commit(tag.commit_id, f"tag {tag.name}")
        elif key.startswith(STASHES_PREFIX):
            stash = decode_stash(value)
            if stash.state in (StashState.STANDING, StashState.POPPING):
                found = {address for layer in stash.layers for address in self.model.addresses(layer)}
                self._require_there(found, f"stash {stash.id}")

    def rows_set(self, partition: str, rows: Sequence[Row]) -> None:
        if ":" not in partition:
            return
        found = [self.model.row(row.key, row.value) for row in rows if row.key.startswith(ROW_PREFIX)]
        self._require_there((address for address in found if address is not None), f"a row of {partition}")

    def deleting(self, partition: str, keys: Sequence[bytes]) -> None:
        """Rows may go whenever other laws let them."""

    def arrived(self, delivery: Delivery, what: str, *, write: bool, error: LakebedError | None) -> None:
        verb, *keys = what.split(" ")
        if verb != "delete" or error is not None or not write:
            return
        gone = {key for key in keys if key.startswith((DATA_FOLDER, *TREE_FOLDERS))}
        if not gone:
            return
        self._world.met["garbage deleted"] += len(gone)
        if lost := gone & self.model.must_stay(self._now):
            raise LawBrokenError(f"{delivery.process} deleted {sorted(lost)}, which something refers to")

    @property
    def _now(self) -> Instant:
        return self._world.clock.now()

    def _state_swapped(self, value: bytes) -> None:
        state = decode_gc_state(value)
        if state.lease is not None and state.lease.attempt not in ("", self._attempt):
            self._attempt = state.lease.attempt
            self._stayed_before = self.model.must_stay(self._now)
            self._kept_before = self.model.retained(after(self._now, _SLACK_SECONDS))
        for mark in state.marks:
            if mark.run not in self._marks:
                self._marks.add(mark.run)
                self._check_mark(mark)

    def _check_mark(self, mark: Mark) -> None:
        saved: State = STATE.open(self._bucket.objects[state_key(mark.run)].data)
        kind = "clean" if mark.kind is MarkKind.CLEAN else "optimized"
        objects, stay = self._addresses(saved.candidates), self.model.must_stay(self._now)
        wrong = objects & stay
        if mark.kind is MarkKind.CLEAN:
            # An optimized run only carries files over. And an operation that was taken for dead may begin once more,
            # under the same name: what it wrote is listed once, and not a second time.
            wrong |= self._addresses(saved.metadata) & stay & self._stayed_before
        self._world.met[f"{kind} mark"] += 1
        self._world.met["candidates"] += len(objects)
        if wrong:
            raise LawBrokenError(
                f"the {kind} mark of run {mark.run} lists {sorted(wrong)}, which something refers to"
            )
        condemned = {c.id for c in self.model.commits.values() if c.condemned_by == mark.condemner}
        self._world.met["commits condemned"] += len(condemned)
        for commit_id in sorted(condemned):
            self._world.laws.give_up(self._repo.partition, commit_id)
        if named := condemned & self.model.named():
            raise LawBrokenError(f"run {mark.run} condemned {sorted(named)}, which refs or stashes name")
        if self._kept_before is not None:
            kept = self._kept_before & self.model.retained(after(self._now, _SLACK_SECONDS))
            if wrong_commits := condemned & kept:
                raise LawBrokenError(
                    f"run {mark.run} condemned {sorted(wrong_commits)}, which the rules keep"
                )

    def _addresses(self, files: Iterable[DataFile]) -> set[str]:
        tables = [
            decode_table(CANDIDATES_FILE, self._bucket.objects[file.key].data, rows=file.rows)
            for file in files
        ]
        return {address for table in tables for address in table.column("address").to_pylist()}

    def _require_commit(self, commit_id: CommitId, who: str) -> None:
        self._require_there(
            self.model.of_commit(self._world.truth.commit(self._repo.partition, commit_id)), who
        )

    def _require_there(self, keys: Iterable[str], who: str) -> None:
        missing = sorted(key for key in keys if "://" not in key and key not in self._bucket.objects)
        if missing:
            raise LawBrokenError(f"{who} refers to {missing}, which are gone")
