"""`Reachability`: what a collector must leave, said as plainly as possible, from the database and the files below the engine.

Nothing here is shared with the collector: sets of names, walked step by step, without any thought of how much there is.

    must_stay   what is referred to at this moment, whoever may be doing what; the laws hold every deletion against it
    all_there   what is left once everybody has gone and every grace is over; the store must hold exactly this
"""

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from lakebed.committed.names import METARANGES_FOLDER, RANGES_FOLDER, metarange_key, range_key
from lakebed.env.clock import Instant, after
from lakebed.format.blocks import block_changes
from lakebed.format.gc_rules import decode_gc_rules
from lakebed.format.layout import TREE_FILE_ENDING
from lakebed.format.links import decode_link
from lakebed.format.metaranges import decode_metarange, range_infos
from lakebed.format.part_uploads import decode_part_upload
from lakebed.format.ranges import decode_range
from lakebed.format.records import decode_tag
from lakebed.format.rows import ROW_PREFIX, decode_row
from lakebed.format.segments import decode_dataset, decode_footer
from lakebed.format.tree_names import OWNER_DIGITS, WRITER_DIGITS, owner_of, writer_of
from lakebed.limits import GRACE_SECONDS
from lakebed.model.branch import Branch
from lakebed.model.commits import Commit, Tag
from lakebed.model.entries import Entry
from lakebed.model.gc_rules import GcRules
from lakebed.model.ids import EMPTY_TREE, CommitId, MetarangeId, Nonce, Path
from lakebed.model.layers import Layer, TokenLayer, layer_name
from lakebed.model.part_uploads import PartUploadState
from lakebed.model.repository import Repository
from lakebed.model.segments import segment_key
from lakebed.model.stash import StashState
from lakebed.objects.drivers.memory import MemoryBucket
from lakebed.refs.keys import GC_RULES_KEY, LINKS_PREFIX, TAGS_PREFIX, UPLOADS_PREFIX, link_address
from lakebed.testing.simulation.record_laws import LawBrokenError
from lakebed.testing.simulation.truth import Truth, live_layers

TREE_FOLDERS = (RANGES_FOLDER, METARANGES_FOLDER)

_DAY_SECONDS = 24 * 3600.0
_HELD = frozenset({StashState.STANDING, StashState.POPPING})


@dataclass(frozen=True, slots=True)
class Tree:
    """The files of a tree, and the addresses in it."""

    files: frozenset[str]
    addresses: frozenset[str]


_NO_TREE = Tree(frozenset(), frozenset())


class Reachability:
    """What one repository refers to."""

    def __init__(self, truth: Truth, bucket: MemoryBucket, repo: Repository) -> None:
        self._truth = truth
        self._bucket = bucket
        self._repo = repo
        self._trees: dict[MetarangeId, Tree] = {}
        self._segments: dict[str, frozenset[str]] = {}
        self._rows: dict[bytes, str | None] = {}

    @property
    def _records(self) -> Mapping[bytes, bytes]:
        return self._truth.partitions.get(self._repo.partition, {})

    @property
    def branches(self) -> list[Branch]:
        """All that are not deleted, tentative or not."""
        return [each for each in self._truth.branches(self._repo.partition) if isinstance(each, Branch)]

    @property
    def commits(self) -> dict[CommitId, Commit]:
        """Every commit record."""
        return {commit.id: commit for commit in self._truth.commits(self._repo.partition)}

    @property
    def rules(self) -> GcRules | None:
        """How long things are kept; None: for ever."""
        value = self._records.get(GC_RULES_KEY)
        return decode_gc_rules(value) if value is not None else None

    @property
    def pending(self) -> set[Nonce]:
        """Every operation that may still move a HEAD."""
        return {nonce for branch in self.branches for nonce in branch.pending}

    def named(self) -> set[CommitId]:
        """Return the commits under visible refs and under stashes."""
        found = {branch.commit_id for branch in self.branches if not branch.tentative}
        found |= {tag.commit_id for tag in self._tags() if not tag.tentative}
        return found | {s.base for s in self._truth.stashes(self._repo.partition) if s.state in _HELD}

    def must_stay(self, now: Instant, *, unless_named: AbstractSet[CommitId] = frozenset()) -> set[str]:
        """Return every object and tree file that may not be deleted at this moment.

        Commits of `unless_named` count only if a ref or a stash names them.
        """
        commits = self.commits
        # What nobody has condemned is kept, whatever its age.
        standing = {commit.id for commit in commits.values() if not commit.condemned_by}
        live = self.named() | (standing - unless_named)
        keys = {key for commit_id in live for key in self.of_commit(commits[commit_id])}
        # A ref may be put on any of them, and its log goes down to the first commit.
        below = self._ancestors(live)
        keys |= {key for commit_id in below for key in self.tree(commits[commit_id].tree).files}
        for branch in self.branches:
            if not branch.tentative:
                keys |= self.staged(branch)
        for stash in self._truth.stashes(self._repo.partition):
            if stash.state in _HELD:
                keys |= self._of_layers(stash.layers)
        keys |= self._open_links(now) | self._open_uploads()
        return keys | self._protected()

    def all_there(self, now: Instant) -> set[str]:
        """Return every object and tree file that is left when nothing is under way any more."""
        commits = self.commits
        live = {each for each in self.retained(now) if not commits[each].condemned_by} | self.named()
        keys = {key for commit_id in live for key in self.of_commit(commits[commit_id])}
        # A ref may be put on any of them, and its log goes down to the first commit.
        below = self._ancestors(live)
        keys |= {key for commit_id in below for key in self.tree(commits[commit_id].tree).files}
        for branch in self.branches:
            keys |= self.staged(branch)
        for stash in self._truth.stashes(self._repo.partition):
            keys |= self._of_layers(stash.layers) | self.tree(commits[stash.base].tree).files
        keys |= self._open_uploads() & set(self._bucket.objects)
        return keys | self._open_links(after(now, -GRACE_SECONDS)) | self._protected()

    def retained(self, now: Instant) -> set[CommitId]:
        """Return the commits that the rules keep, whether or not somebody has condemned them."""
        commits, rules = self.commits, self.rules
        if rules is None:
            return set(commits)
        kept = self.named() | {branch.commit_id for branch in self.branches}
        for branch in self.branches:
            days = rules.branches.get(branch.name, rules.default_days)
            kept |= _walk(commits, branch.commit_id, after(now, -days * _DAY_SECONDS))
        parents = {commit.parents[0] for commit in commits.values() if commit.parents}
        heads = {branch.commit_id for branch in self.branches}
        pending = self.pending
        for commit in commits.values():
            if commit.id in parents | heads:
                continue
            if commit.nonce in pending:
                # The last swap of its operation may still name it.
                kept.add(commit.id)
                continue
            tries = [other for other in commits.values() if commit.nonce and other.nonce == commit.nonce]
            if any(each.created_at > commit.created_at for each in tries):
                # Of what an operation has tried in vain, nothing is kept for longer than a grace.
                if commit.created_at > after(now, -GRACE_SECONDS):
                    kept.add(commit.id)
            elif commit.created_at > (since := after(now, -rules.default_days * _DAY_SECONDS)):
                kept |= {commit.id} | _walk(commits, commit.id, since)
        return kept

    def tree(self, tree: MetarangeId) -> Tree:
        """Return what a tree is made of, or raise `LawBrokenError` if a file is missing and was never seen."""
        if tree == EMPTY_TREE:
            return _NO_TREE
        if tree not in self._trees:
            files = {metarange_key(tree)}
            addresses: set[str] = set()
            for info in range_infos(decode_metarange(self._read(metarange_key(tree)))):
                files.add(range_key(info.id))
                addresses |= set(decode_range(self._read(range_key(info.id))).column("address").to_pylist())
            self._trees[tree] = Tree(frozenset(files), frozenset(addresses))
        return self._trees[tree]

    def addresses(self, layer: Layer) -> frozenset[str]:
        """Return the addresses in a layer's rows, shadowed or not."""
        if isinstance(layer, TokenLayer):
            rows = self._truth.partitions.get(layer.token, {}).items()
            found = {self.row(key, value) for key, value in rows if key.startswith(ROW_PREFIX)}
            return frozenset(address for address in found if address is not None)
        name = layer_name(layer)
        if name not in self._segments:
            data = self._read(segment_key(layer.id))
            footer = decode_footer(data, size=len(data))
            part = footer.datasets[layer.dataset]
            block = decode_dataset(footer, layer.dataset, data[part.start : part.stop])
            entries = [change for change in block_changes(block) if isinstance(change, Entry)]
            self._segments[name] = frozenset(entry.address for entry in entries)
        return self._segments[name]

    def row(self, key: bytes, value: bytes) -> str | None:
        """Return the address in a staged row; None for a tombstone."""
        if value not in self._rows:
            change, _ = decode_row(Path(key[len(ROW_PREFIX) :].decode()), value)
            self._rows[value] = change.address if isinstance(change, Entry) else None
        return self._rows[value]

    def _tags(self) -> list[Tag]:
        records = [decode_tag(value) for key, value in self._records.items() if key.startswith(TAGS_PREFIX)]
        return [record for record in records if isinstance(record, Tag)]

    def of_commit(self, commit: Commit) -> frozenset[str]:
        """Return a commit's objects, and the files of its tree."""
        tree = self.tree(commit.tree)
        return tree.files | tree.addresses

    def _of_layers(self, layers: Iterable[Layer]) -> set[str]:
        return {address for layer in layers for address in self.addresses(layer)}

    def staged(self, branch: Branch) -> set[str]:
        """Return what the layers of a branch refer to, and its compacted tree."""
        compacted = self.tree(branch.compacted) if branch.compacted is not None else _NO_TREE
        return self._of_layers(live_layers(branch)) | compacted.files | compacted.addresses

    def _open_links(self, now: Instant) -> set[str]:
        links = {k: decode_link(v) for k, v in self._records.items() if k.startswith(LINKS_PREFIX)}
        # A used one, too: whoever claimed it may be about to stage its entry.
        return {link_address(k) for k, token in links.items() if token.expires_at > now}

    def _open_uploads(self) -> set[str]:
        """Return where objects go that are being sent in parts: they are there before anything refers to them."""
        uploads = [decode_part_upload(v) for k, v in self._records.items() if k.startswith(UPLOADS_PREFIX)]
        ended = (PartUploadState.COMPLETED, PartUploadState.ABORTED)
        return {upload.address for upload in uploads if upload.state not in ended}

    def _protected(self) -> set[str]:
        """Return the tree files that somebody may still be about to name: of pending operations and of compactions."""
        pending = {writer_of(nonce) for nonce in self.pending}
        found = set()
        for key in self._bucket.objects:
            if not key.startswith(TREE_FOLDERS):
                continue
            writer = key.removesuffix(TREE_FILE_ENDING)[-WRITER_DIGITS:]
            if writer in pending or any(_may_install(b, writer) for b in self.branches):
                found.add(key)
        return found

    def _ancestors(self, starts: Iterable[CommitId]) -> set[CommitId]:
        commits = self.commits
        found: set[CommitId] = set()
        waiting = list(starts)
        while waiting:
            commit_id = waiting.pop()
            if commit_id not in found:
                found.add(commit_id)
                waiting += commits[commit_id].parents
        return found

    def _read(self, key: str) -> bytes:
        found = self._bucket.objects.get(key)
        if found is None:
            raise LawBrokenError(f"{key} is gone, and something refers to it")
        return found.data


def _walk(commits: Mapping[CommitId, Commit], start: CommitId, since: Instant) -> set[CommitId]:
    """Return what is kept below a commit: the first parent of every commit on the way that is younger than `since`."""
    found: set[CommitId] = set()
    child = commits[start]
    while child.parents and child.created_at > since:
        found.add(child.parents[0])
        child = commits[child.parents[0]]
    return found


def _may_install(branch: Branch, writer: str) -> bool:
    """Return whether the branch may still take what an attempt of a compaction has written."""
    if not writer.startswith(owner_of(branch.incarnation)):
        return False
    token = int(writer[OWNER_DIGITS:], 16)
    held = {slot.token for slot in (branch.l2_slot, branch.fold_slot) if slot is not None}
    return token > branch.last_token or token in held
