"""`Laws`: watches every write that is applied, and stops the run at the first that must not be.

A write is judged by what it does to what branches show, and by whose call it belongs
to. Most steps of the protocols (seal, open, begin, renew, abandon, drain) may change
nothing for a reader; the few that may are listed here, each with what it has to do
exactly. So a change that is wrong is caught where it happens and not when somebody
reads it.

An install of a compaction is one more step that may change nothing for a reader.
"""

from collections.abc import Sequence

from lakebed.env.clock import Instant, after
from lakebed.format.records import decode_branch, decode_commit, decode_stash, decode_tag
from lakebed.kv.port import Row
from lakebed.limits import GRACE_SECONDS
from lakebed.model.branch import Branch, BranchRecord, DeletedBranch
from lakebed.model.commits import Commit, Tag, TagRecord
from lakebed.model.ids import CommitId, Nonce, StagingToken
from lakebed.model.layers import Layer, SegmentLayer, TokenLayer, layer_name
from lakebed.model.stash import StashState
from lakebed.refs.attention import needs_attention
from lakebed.refs.keys import (
    BRANCHES_PREFIX,
    CLEANUP_PARTITION,
    COMMITS_PREFIX,
    PINS_PREFIX,
    REPOS_PREFIX,
    REPOSITORIES_PARTITION,
    STASHES_PREFIX,
    TAGS_PREFIX,
    TODO_PARTITION,
    todo_branch,
    todo_key,
)
from lakebed.testing.simulation.file_laws import FileLaws
from lakebed.testing.simulation.head_laws import HeadLaws
from lakebed.testing.simulation.history import Op
from lakebed.testing.simulation.install_laws import InstallLaws
from lakebed.testing.simulation.ledger import Ledger, difference
from lakebed.testing.simulation.pin_laws import PinLaws
from lakebed.testing.simulation.record_laws import LawBrokenError, check_successor, is_fold
from lakebed.testing.simulation.repository_laws import check_repository, check_repository_removed
from lakebed.testing.simulation.row_laws import RowLaws
from lakebed.testing.simulation.stash_laws import StashLaws
from lakebed.testing.simulation.truth import Moment, View, laid_over, live_layers, live_names, live_tokens


class Laws:
    """A `Watcher` that knows what may happen."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._truth = ledger.truth
        self.heads = HeadLaws(ledger)
        self.stashes = StashLaws(ledger)
        self.rows = RowLaws(ledger)
        self.files = FileLaws(ledger)
        self._installs = InstallLaws(ledger)
        self._pins = PinLaws(ledger)
        self._staging: dict[str, tuple[str, str]] = {}
        """Staging tokens by whose they are: repository's partition and branch."""
        self._named: set[str] = set()
        """Every layer that a branch ever named."""
        self._creators: dict[Nonce, Op | None] = {}
        """Who wrote each ref."""
        self._given_up: set[tuple[str, CommitId]] = set()
        """Commits that a collector has condemned and found without refs."""
        self._retired_at: dict[str, tuple[str, Instant]] = {}
        """When tokens were retired, and in which repository."""

    def give_up(self, partition: str, commit_id: CommitId) -> None:
        """A collector is about to remove a commit: no ref may be on it, now or ever."""
        self._given_up.add((partition, commit_id))
        for (home, name), timeline in self._truth.timelines.items():
            if home == partition and timeline.last.view is not None:
                self._check_kept(partition, name, timeline.last.commit_id)

    def restored(self) -> None:
        """The database is that of an earlier moment, and the truth knows."""
        self._staging = {
            record.staging_token: (partition, record.name)
            for partition in self._truth.repository_partitions()
            for record in self._truth.branches(partition)
            if isinstance(record, Branch) and record.staging_token is not None
        }

    def swapped(self, partition: str, key: bytes, value: bytes) -> None:
        self._ledger.history.tick()
        before = self._truth.partitions.get(partition, {}).get(key)
        self._truth.write(partition, key, value)
        if key.startswith(BRANCHES_PREFIX):
            self._branch_swapped(partition, before, value)
        elif key.startswith(STASHES_PREFIX):
            self.stashes.record_swapped(partition, before, value)
        elif key.startswith(TAGS_PREFIX):
            self._tag_swapped(partition, before, value)
        elif key.startswith(COMMITS_PREFIX):
            _check_commit(before, value)
        elif key.startswith(PINS_PREFIX):
            self._pins.renewed(before, value)
        elif partition == REPOSITORIES_PARTITION and key.startswith(REPOS_PREFIX):
            check_repository(self._ledger, before, value)

    def rows_set(self, partition: str, rows: Sequence[Row]) -> None:
        self._ledger.history.tick()
        place = self._staging.get(partition)
        if place is not None:
            self.rows.check(place, partition, rows)
        elif ":" in partition:
            raise LawBrokenError(f"rows were written to {partition}, where nobody may: {self._ledger.op}")
        else:
            for row in rows:
                self._truth.write(partition, row.key, row.value)

    def deleting(self, partition: str, keys: Sequence[bytes]) -> None:
        self._ledger.history.tick()
        if ":" in partition:
            self._check_droppable(partition)
        elif partition == TODO_PARTITION:
            for key in keys:
                self._check_struck(key)
        elif self._truth.is_live(partition):
            for key in keys:
                self._check_deletable(partition, key)
        self._truth.remove(partition, keys)

    def removing(self, partition: str, key: bytes) -> None:
        self._ledger.history.tick()
        value = self._truth.partitions[partition][key]
        if key.startswith(BRANCHES_PREFIX):
            self._check_tombstone(partition, decode_branch(value))
        elif key.startswith(TAGS_PREFIX):
            self._tag_removed(partition, decode_tag(value))
        elif key.startswith(REPOS_PREFIX):
            check_repository_removed(self._ledger, value)
        elif partition == TODO_PARTITION:
            self._check_struck(key)
        self._truth.remove(partition, [key])

    def _check_tombstone(self, partition: str, record: BranchRecord) -> None:
        """A branch's record goes only if nothing needs it: nothing is left to free, and no stash asks for it."""
        popping = [
            stash
            for stash in self._truth.stashes(partition)
            if stash.state is StashState.POPPING and stash.branch == record.name
        ]
        old = after(record.updated_at, GRACE_SECONDS) < self._ledger.clock.latest()
        is_bare = isinstance(record, DeletedBranch) and not record.retired and not record.retired_trees
        if popping or not old or not is_bare:
            raise LawBrokenError(f"the record of branch {record.name} was removed, and is needed: {record}")
        self._ledger.meet("tombstone dropped")

    def _check_struck(self, key: bytes) -> None:
        """An entry of the `todo` index goes only if its branch has nothing to do, or has no record."""
        partition, name = todo_branch(key)
        record = self._truth.branch(partition, name)
        if record is not None and record.indexed and needs_attention(record):
            raise LawBrokenError(
                f"branch {name} needs attention, and its entry in the todo index was removed"
            )

    def _check_indexed(self, partition: str, record: BranchRecord) -> None:
        if not self._truth.is_live(partition) or not needs_attention(record):
            return
        if not record.indexed or todo_key(partition, record.name) not in self._truth.partitions.get(
            TODO_PARTITION, {}
        ):
            raise LawBrokenError(f"branch {record.name} needs attention, and the todo index does not say so")

    def _tag_removed(self, partition: str, tag: TagRecord) -> None:
        if isinstance(tag, Tag) and not tag.tentative:
            self._took_effect("delete_tag", "deleted")
        self._truth.timeline(partition, tag.name).add(Moment(self._ledger.history.step, None, None))

    def _branch_swapped(self, partition: str, before: bytes | None, value: bytes) -> None:
        step = self._ledger.history.step
        old = decode_branch(before) if before is not None else None
        new = decode_branch(value)
        check_successor(old, new, now=self._ledger.clock.latest(), noted=self._is_noted)
        self._check_indexed(partition, new)
        if old is not None:
            self._pins.check_forgotten(partition, old, new)
        for retired in new.retired:
            if isinstance(retired.layer, TokenLayer):
                self._retired_at[retired.layer.token] = (partition, retired.at)
        if isinstance(old, Branch) and old.staging_token is not None:
            self._staging.pop(old.staging_token, None)
        timeline = self._truth.timeline(partition, new.name)
        if not isinstance(new, Branch):
            if isinstance(old, Branch) and not old.tentative:
                self._took_effect("delete_branch", "deleted")
            timeline.add(Moment(step, None, None))
            return
        if new.staging_token is not None:
            self._staging[new.staging_token] = (partition, new.name)
        popped = self._name_layers(old if isinstance(old, Branch) else None, new)
        view = self._truth.view(partition, new)
        if not isinstance(old, Branch):
            if view != self._truth.content(partition, new.commit_id):
                raise LawBrokenError(f"branch {new.name} was created with changes on it")
            self._creators[new.created_by] = self._ledger.op
        elif timeline.last.view is not None:
            self._check_step(partition, old, new, timeline.last.view, view, popped=popped)
        if not new.tentative and (not isinstance(old, Branch) or old.tentative):
            self._appeared(new.created_by)
        if not new.tentative:
            self._check_kept(partition, new.name, new.commit_id)
        timeline.add(Moment(step, new.commit_id, None if new.tentative else view))

    def _tag_swapped(self, partition: str, before: bytes | None, value: bytes) -> None:
        """Tags have timelines like branches, and show nothing."""
        old, new = decode_tag(before) if before is not None else None, decode_tag(value)
        timeline, step = self._truth.timeline(partition, new.name), self._ledger.history.step
        if not isinstance(new, Tag):
            if isinstance(old, Tag) and not old.tentative:
                self._took_effect("delete_tag", "deleted")
            timeline.add(Moment(step, None, None))
            return
        if not isinstance(old, Tag):
            self._creators[new.created_by] = self._ledger.op
        if not new.tentative:
            self._check_kept(partition, new.name, new.commit_id)
            self._appeared(new.created_by)
        timeline.add(Moment(step, new.commit_id, None if new.tentative else {}))

    def _appeared(self, created_by: Nonce) -> None:
        """A ref can be seen from now on. Perhaps another call has made it visible than the one that wrote it."""
        creator = self._creators.get(created_by)
        if creator is not None and creator.kind in {"create_branch", "create_tag"}:
            self._ledger.meet("created")
            self._ledger.effect(creator, "created")

    def _check_kept(self, partition: str, name: str, commit_id: CommitId | None) -> None:
        if commit_id is not None and (partition, commit_id) in self._given_up:
            raise LawBrokenError(f"{name} is on {commit_id[:8]}, which is being collected: {self._ledger.op}")

    def _check_step(
        self, partition: str, old: Branch, new: Branch, before: View, now: View, *, popped: Nonce | None
    ) -> None:
        """A record replaced another of the same branch: what it shows may change in five ways only."""
        op = self._ledger.op
        if any(
            old.pending[nonce].commits != new.pending[nonce].commits
            for nonce in old.pending
            if nonce in new.pending
        ):
            self._ledger.meet("started over")
        if (
            op is not None
            and len(set(old.pending) - set(new.pending)) > 0
            and set(new.pending) - set(old.pending)
        ):
            self._ledger.meet("taken for dead")
        self.heads.note_begun(old, new)
        named = set(new.stashes) - set(old.stashes)
        if new.commit_id != old.commit_id:
            self.heads.check(partition, old, new)
        elif named:
            self.stashes.check_named(partition, old, new, named)
        elif popped is not None:
            self.stashes.check_popped(partition, new, before, now, popped)
        elif appended := [layer for layer in live_layers(new) if _is_new_segment(old, layer)]:
            (segment,) = appended
            changes = self._truth.changes(partition, segment)
            if now != laid_over(before, [changes]):
                raise LawBrokenError(
                    f"{op} changed {difference(laid_over(before, [changes]), now)} beside the segment"
                )
            self.rows.check_segment((partition, new.name), before, changes)
        elif op is not None and op.kind == "reset_branch":
            committed = self._truth.content(partition, new.commit_id)
            if now != committed:
                raise LawBrokenError(f"{op} left {difference(committed, now)}")
            self._ledger.meet("reset")
            self._ledger.effect(op, "reset")
        elif now != before:
            raise LawBrokenError(f"a step that may change nothing changed {difference(before, now)}: {op}")
        # After what readers see: that is worse than anything that is told here.
        self._installs.check(partition, old, new)

    def _name_layers(self, old: Branch | None, new: Branch) -> Nonce | None:
        """Take down the layers that the record names for the first time; return the stash that one is of."""
        popped = None
        before = live_names(old) if old is not None else []
        for name in live_names(new):
            if name in before:
                continue
            stash = self.stashes.of_layer(name)
            if stash is not None:
                popped = stash
            elif name in self._named:
                raise LawBrokenError(f"layer {name} was used before")
            self._named.add(name)
        return popped

    def _took_effect(self, kind: str, word: str) -> None:
        op = self._ledger.op
        if op is not None and op.kind == kind:
            self._ledger.meet(word)
            self._ledger.effect(op, word)

    def _check_droppable(self, token: str) -> None:
        op = self._ledger.op
        home, retired_at = self._retired_at.get(token, ("", Instant(0)))
        if self._truth.is_live(home) and after(retired_at, GRACE_SECONDS) >= self._ledger.clock.latest():
            raise LawBrokenError(f"rows of {token} were dropped within a grace: {op}")
        if self._truth.is_live(home):
            self._pins.check_gone(home, token, retired_at)
        for partition in self._truth.repository_partitions():
            for record in self._truth.branches(partition):
                if isinstance(record, Branch) and token in live_tokens(record):
                    raise LawBrokenError(f"rows of {token} were dropped, a layer of {record.name}: {op}")
            if self._truth.is_live(partition):
                self.stashes.check_droppable(partition, token)

    def _check_deletable(self, partition: str, key: bytes) -> None:
        if key.startswith((BRANCHES_PREFIX, COMMITS_PREFIX, TAGS_PREFIX)):
            raise LawBrokenError(f"record {key!r} of a live repository was deleted")
        value = self._truth.partitions.get(partition, {}).get(key)
        if key.startswith(STASHES_PREFIX) and value is not None:
            self.stashes.check_deletable(partition, decode_stash(value))

    def _is_noted(self, token: StagingToken) -> bool:
        notes = self._truth.partitions.get(CLEANUP_PARTITION, {})
        return any(key.endswith(f"/token/{token}".encode()) for key in notes)


def _is_new_segment(old: Branch, layer: Layer) -> bool:
    return isinstance(layer, SegmentLayer) and not is_fold(layer) and layer_name(layer) not in live_names(old)


def _check_commit(before: bytes | None, value: bytes) -> None:
    if before is not None and _essence(decode_commit(before)) != _essence(decode_commit(value)):
        raise LawBrokenError(f"commit {decode_commit(before).id} was overwritten")


def _essence(commit: Commit) -> tuple[object, ...]:
    """What never changes of a commit: all but whether it is condemned."""
    return (commit.id, commit.tree, commit.parents, commit.generation, commit.created_at, commit.message)
