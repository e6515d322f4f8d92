"""What a collector must never do, judged at every write to the database and at every deletion in the store.

- Nothing is deleted that something refers to.
- Nothing refers to what is not there: no row, no layer, no ref is ever written on top of a deleted object or file.
- A mark that counts lists nothing that something refers to; two marks are for what nobody can see, and, where ages are
  shorter than they should be, for what was on its way then (`gc_uploads`). What is listed twice, nothing refers to.
  A commit does not count yet if it was stored too late for the mark to see it, by an operation that had been given up: it
  is nobody's HEAD and never will be, and the next mark sees it before anything below it can be listed twice.
- It condemns no commit that the rules keep.
- None counts of a run among clocks that are too far apart, or of one that has lost its lease.
- Whoever was told to be careful deletes no large share; whoever puts aside has a copy of what it deletes, and a copy goes
  only when the object is back, or its time is over.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from lakebed.env.clock import Instant, after
from lakebed.errors import LakebedError
from lakebed.format.gc import (
    CANDIDATES_FILE,
    QUARANTINE_FOLDER,
    QUARANTINED,
    STATE,
    DataFile,
    State,
    decode_summary,
    decode_table,
    quarantine_key,
    state_key,
    summary_key,
)
from lakebed.format.gc_state import decode_gc_state
from lakebed.format.layout import DATA_FOLDER
from lakebed.format.part_uploads import decode_part_upload
from lakebed.format.records import decode_branch, decode_commit, decode_stash, decode_tag
from lakebed.format.rows import ROW_PREFIX
from lakebed.kv.port import Row
from lakebed.limits import GC_CLOCK_SLACK_SECONDS, GC_SHARE_MAX
from lakebed.model.branch import Branch
from lakebed.model.commits import Tag
from lakebed.model.gc import Mark, MarkKind
from lakebed.model.ids import CommitId
from lakebed.model.repository import Repository
from lakebed.model.stash import StashState
from lakebed.objects.drivers.memory import MemoryBucket
from lakebed.refs.keys import (
    BRANCHES_PREFIX,
    COMMITS_PREFIX,
    GC_RULES_KEY,
    GC_STATE_KEY,
    LINKS_PREFIX,
    STASHES_PREFIX,
    TAGS_PREFIX,
    UPLOADS_PREFIX,
    link_address,
)
from lakebed.testing.simulation.gc_model import TREE_FOLDERS, Reachability
from lakebed.testing.simulation.gc_uploads import Uploads
from lakebed.testing.simulation.network import Delivery
from lakebed.testing.simulation.record_laws import LawBrokenError
from lakebed.testing.simulation.world import World

# How far the database's clock may have jumped since somebody has asked it for the time.
_SLACK_SECONDS = 120.0


# Requests that make an object, at the last key that they name.
_MAKES = frozenset({"put", "copy", "complete-upload"})


class Share(NamedTuple):
    """How many objects a mark would delete, of how many that it knows of."""

    marked: int
    objects: int


class GcLaws:
    """A `Watcher` of the database and an `Observer` of the network, for one repository."""

    def __init__(self, world: World, repo: Repository, *, link_seconds: float) -> None:
        self._link_seconds = link_seconds
        self._world = world
        self._repo = repo
        self._bucket: MemoryBucket = world.buckets[repo.namespace]
        self.model = Reachability(world.truth, self._bucket, repo)
        self._marks: set[str] = set()
        self._attempt = ""
        self._stayed_before: set[str] = set()
        """What had to stay then."""
        self._given_up: set[CommitId] = set()
        """Commits that were stored since then, by operations that were not pending any more."""
        self._uploads = Uploads()
        self._stored: set[str] = set()
        """Objects and tree files that are there."""
        self._newest: Share | None = None
        self.restoring = False
        """Whether a dump is being restored: what it names was garbage until then, and marks are discarded after it."""
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
        elif key.startswith(COMMITS_PREFIX):
            commit = decode_commit(value)
            if commit.nonce not in self.model.pending:
                self._given_up.add(commit.id)
        elif key.startswith(BRANCHES_PREFIX):
            branch = decode_branch(value)
            if isinstance(branch, Branch) and not branch.tentative:
                staged = self.model.staged(branch)
                self._uploads.named(staged)
                self._require_there(staged, f"branch {branch.name}")
                self._require_commit(branch.commit_id, f"branch {branch.name}")
        elif key.startswith(LINKS_PREFIX):
            self._uploads.named([link_address(key)])
        elif key.startswith(UPLOADS_PREFIX):
            self._uploads.named([decode_part_upload(value).address])
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
        rows = [row for row in rows if row.key.startswith(ROW_PREFIX)]
        found = [address for row in rows if (address := self.model.row(row.key, row.value)) is not None]
        self._uploads.named(found)
        self._require_there(found, f"a row of {partition}")

    def removing(self, partition: str, key: bytes) -> None:
        """What went was seen to by the laws of refs."""

    def deleting(self, partition: str, keys: Sequence[bytes]) -> None:
        """Rows may go whenever other laws let them."""

    def arrived(self, delivery: Delivery, what: str, *, write: bool, error: LakebedError | None) -> None:
        verb, *keys = what.split(" ")
        if error is not None or not write:
            return
        if verb in _MAKES:
            self._stored.add(keys[-1])
            self._uploads.stored(keys[-1])
        if verb != "delete":
            return
        self._check_copies_dropped(key for key in keys if key.startswith(QUARANTINE_FOLDER))
        gone = {key for key in keys if key.startswith((DATA_FOLDER, *TREE_FOLDERS))}
        if not gone:
            return
        self._world.met["garbage deleted"] += len(gone)
        if lost := gone & self.model.must_stay(self._now):
            raise LawBrokenError(f"{delivery.process} deleted {sorted(lost)}, which something refers to")
        self._check_manners(delivery, gone)
        self._stored -= gone

    def _check_manners(self, delivery: Delivery, gone: set[str]) -> None:
        args = delivery.op.args if delivery.op is not None else {}
        share = self._newest
        if args.get("careful") and share is not None and share.marked > GC_SHARE_MAX * share.objects:
            raise LawBrokenError(f"{delivery.op} deleted a large share, and was told not to: {share}")
        if args.get("quarantine"):
            aside = {
                key.removeprefix(QUARANTINE_FOLDER).partition("/")[2]
                for key in self._bucket.objects
                if key.startswith(QUARANTINE_FOLDER)
            }
            if lost := gone & self._stored - aside:
                raise LawBrokenError(f"{delivery.op} deleted {sorted(lost)}, and has put nothing aside")

    def _check_copies_dropped(self, keys: Iterable[str]) -> None:
        for key in keys:
            run, _, address = key.removeprefix(QUARANTINE_FOLDER).partition("/")
            document = self._bucket.objects.get(quarantine_key(run))
            if not address or address in self._bucket.objects or document is None:
                continue
            if QUARANTINED.open(document.data).until > after(self._now, _SLACK_SECONDS):
                raise LawBrokenError(f"{key} was deleted, before its time, and the object is not back")

    @property
    def _now(self) -> Instant:
        return self._world.clock.now()

    def _state_swapped(self, value: bytes) -> None:
        state = decode_gc_state(value)
        if state.lease is not None:
            self._uploads.began(state.lease.run)
        if state.lease is not None and state.lease.attempt not in ("", self._attempt):
            self._attempt = state.lease.attempt
            self._stayed_before = self.model.must_stay(self._now)
            self._given_up.clear()
            self._kept_before = self.model.retained(after(self._now, _SLACK_SECONDS))
        for mark in state.marks:
            if mark.run not in self._marks:
                if state.lease is None or state.lease.run != mark.run:
                    raise LawBrokenError(f"run {mark.run} has marked without the lease: {state.lease}")
                self._marks.add(mark.run)
                self._check_mark(mark)

    def _check_mark(self, mark: Mark) -> None:
        saved: State = STATE.open(self._bucket.objects[state_key(mark.run)].data)
        kind = "clean" if mark.kind is MarkKind.CLEAN else "optimized"
        objects, stay = self._addresses(saved.candidates), self.model.must_stay(self._now)
        seen = self.model.must_stay(self._now, unless_named=self._given_up)
        summary = decode_summary(self._bucket.objects[summary_key(mark.run)].data)
        wrong = objects & seen
        if summary.min_age_seconds < self._link_seconds:
            wrong -= self._uploads.under_way(mark.run)
        wrong |= (marked := self._addresses(summary.marked_files)) & stay
        if mark.kind is MarkKind.CLEAN:
            # An optimized run only carries files over. And an operation that was taken for dead may begin once more,
            # under the same name: what it wrote is listed once, and not a second time.
            files = self._addresses(saved.metadata)
            wrong |= files & seen & self._stayed_before
            self._world.met["listed below what was given up"] += len(files & (stay - seen))
        self._world.met[f"{kind} mark"] += 1
        self._world.met["candidates"] += len(objects)
        op = self._world.network.delivering.op
        if op is not None and op.args.get("apart", 0.0) > GC_CLOCK_SLACK_SECONDS + _SLACK_SECONDS:
            raise LawBrokenError(f"{op} has marked, though nobody knows what time it is")
        self._newest = Share(len(marked & objects), saved.objects)
        if wrong and not self.restoring:
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
