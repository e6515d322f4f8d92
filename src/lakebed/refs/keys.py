"""Where each record lives: partitions and keys of everything but staged rows.

    lakebed:        repos/<repo>  settings/shared  maintenance/turn
    <repo>-<uid>:   branches/<b>  commits/<id>  tags/<t>  settings/<name>  stashes/<id>  copies/<address>/<id>
                    tasks/<id>  links/<address>  gc/state  pins/<id>  dumps/chain
                    segment_calls/<owner>  segment_call_times/<time>/<owner>
    cleanup:        <due>/<what>/<name>
    todo:           <repo>-<uid>/<b>

A repository's own partition carries its uid, so whoever holds a `Repository`
value can only ever meet the data of that one, not of a namesake created later.
"""

from typing import Final

from lakebed.env.clock import Instant
from lakebed.model.ids import BranchName, CommitId, Nonce, RepoName, RepoUid, StagingToken, TagName

REPOSITORIES_PARTITION: Final = "lakebed"
CLEANUP_PARTITION: Final = "cleanup"
TODO_PARTITION: Final = "todo"

REPOS_PREFIX: Final = b"repos/"
BRANCHES_PREFIX: Final = b"branches/"
COMMITS_PREFIX: Final = b"commits/"
TAGS_PREFIX: Final = b"tags/"
STASHES_PREFIX: Final = b"stashes/"
PINS_PREFIX: Final = b"pins/"
COPIES_PREFIX: Final = b"copies/"
TASKS_PREFIX: Final = b"tasks/"
LINKS_PREFIX: Final = b"links/"
UPLOADS_PREFIX: Final = b"uploads/"
SEGMENT_CALLS_PREFIX: Final = b"segment_calls/"
SEGMENT_CALL_TIMES_PREFIX: Final = b"segment_call_times/"

PROTECTION_KEY: Final = b"settings/branch_protection"
METADATA_KEY: Final = b"settings/metadata"
GC_RULES_KEY: Final = b"settings/gc_rules"
GC_STATE_KEY: Final = b"gc/state"
SHARED_SETTINGS_KEY: Final = b"settings/shared"
DUMP_CHAIN_KEY: Final = b"dumps/chain"
TURN_KEY: Final = b"maintenance/turn"


def compaction_partition(repo_partition: str) -> str:
    """Return the partition of the compaction jobs of the repository with that partition."""
    return f"compaction-{repo_partition}"


def repo_key(name: RepoName) -> bytes:
    """Return the key of a repository's record."""
    return REPOS_PREFIX + name.encode()


def branch_key(name: BranchName) -> bytes:
    """Return the key of a branch's record."""
    return BRANCHES_PREFIX + name.encode()


def commit_key(commit_id: CommitId) -> bytes:
    """Return the key of a commit's record."""
    return COMMITS_PREFIX + commit_id.encode()


def tag_key(name: TagName) -> bytes:
    """Return the key of a tag's record."""
    return TAGS_PREFIX + name.encode()


def stash_key(stash: Nonce) -> bytes:
    """Return the key of a stash's record."""
    return STASHES_PREFIX + stash.encode()


def pin_key(pin: Nonce) -> bytes:
    """Return the key of a pin's record."""
    return PINS_PREFIX + pin.encode()


def repository_cleanup_key(due: Instant, uid: RepoUid) -> bytes:
    """Return the key of the entry that says what stays to be removed of a repository."""
    return b"%s/repository/%s" % (_due(due), uid.encode())


def token_cleanup_key(due: Instant, token: StagingToken) -> bytes:
    """Return the key of the entry that says that a token's rows are to be dropped."""
    return b"%s/token/%s" % (_due(due), token.encode())


def due_before(now: Instant) -> bytes:
    """Return the key below which every clean-up entry is due."""
    return _due(Instant(now + 1))


def due_of(key: bytes) -> Instant:
    """Return when a clean-up entry is due."""
    return Instant(int(key.split(b"/", 1)[0]))


def _due(instant: Instant) -> bytes:
    return b"%020d" % instant


def todo_key(partition: str, name: BranchName) -> bytes:
    """Return the key of the entry that says that a branch needs attention."""
    return f"{partition}/{name}".encode()


def todo_branch(key: bytes) -> tuple[str, BranchName]:
    """Return the repository's partition and the branch that an entry with this key names."""
    partition, _, name = key.decode().partition("/")
    return partition, BranchName(name)


def task_key(task_id: Nonce) -> bytes:
    """Return the key of a task's record."""
    return TASKS_PREFIX + task_id.encode()


def copy_key(address: str, nonce: str) -> bytes:
    """Return the key of the note that an object got another path without its bytes being copied."""
    return b"%s%s/%s" % (COPIES_PREFIX, address.encode(), nonce.encode())


def link_key(address: str) -> bytes:
    """Return the key of the token of an address that was given out."""
    return LINKS_PREFIX + address.encode()


def segment_call_key(owner: Nonce) -> bytes:
    """Return the key of the record of a request that stages a segment."""
    return SEGMENT_CALLS_PREFIX + owner.encode()


def segment_call_time_key(noted_at: Instant, owner: Nonce) -> bytes:
    """Return the key that finds such a record by its time."""
    return b"%s/%s" % (segment_call_times_before(noted_at), owner.encode())


def segment_call_times_before(instant: Instant) -> bytes:
    """Return the key below which every such key is of an earlier time."""
    return SEGMENT_CALL_TIMES_PREFIX + _due(instant)


def segment_call_of(key: bytes) -> Nonce:
    """Return the owner of the record that a key by time finds."""
    return Nonce(key.rpartition(b"/")[2].decode())


def copy_address(key: bytes) -> str:
    """Return the address of the object that a note with this key is about."""
    return key.removeprefix(COPIES_PREFIX).rpartition(b"/")[0].decode()


def link_address(key: bytes) -> str:
    """Return the address whose token has this key."""
    return key.removeprefix(LINKS_PREFIX).decode()
