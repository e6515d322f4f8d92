"""What an adoption leaves in the namespace, under `_lakebed/adoptions/<uid>/` of the repository that adopted it.

report.json              what came back and what did not, sealed
orphans/<n>.parquet      objects that nothing refers to
"""

from typing import Final

import msgspec
import pyarrow as pa

from lakebed.env.clock import Instant
from lakebed.format.gc import Amount, DataFile, Document
from lakebed.format.parquet import FileKind
from lakebed.model.ids import BranchName, CommitId, RepoName, RepoUid

ADOPTIONS_FOLDER: Final = "_lakebed/adoptions/"

ORPHANS_FILE: Final = FileKind(
    name="orphans",
    version=1,
    schema=pa.schema(
        [
            pa.field("address", pa.string(), nullable=False),
            pa.field("size", pa.int64(), nullable=False),
            pa.field("mtime", pa.int64(), nullable=False),
            pa.field("path", pa.string(), nullable=False),
        ]
    ),
    sort_key="",
)
"""Objects as the store lists them; `path` is where one was staged, "" if that is not known."""


class LostRef(msgspec.Struct, frozen=True, kw_only=True):
    """A branch or tag that could not come back."""

    kind: str
    name: str
    commit_id: CommitId
    reason: str


class Missing(msgspec.Struct, frozen=True, kw_only=True):
    """A file or object that a commit refers to and the storage does not have."""

    where: str
    what: str


class AdoptionReport(msgspec.Struct, frozen=True, kw_only=True):
    """What came back, and what cannot. Lists hold the first ones, counts all."""

    repository: RepoName
    uid: RepoUid
    generation: int
    namespace: str
    default_branch: BranchName
    dump: str
    dumped_at: Instant | None
    """None: the dump does not say."""
    adopted_at: Instant
    gc_not_before: Instant
    commits: int
    branches: int
    tags: int
    expired_commits: int
    """Commits whose objects garbage collection was deleting: they keep their place in the log."""
    lost_refs: tuple[LostRef, ...]
    missing: int
    missing_listed: tuple[Missing, ...]
    orphans: Amount
    orphan_files: tuple[DataFile, ...]


REPORT: Final = Document("adoption", AdoptionReport)


def report_key(uid: RepoUid) -> str:
    """Return where the report of an adoption lies."""
    return f"{ADOPTIONS_FOLDER}{uid}/report.json"


def orphans_key(uid: RepoUid, number: int) -> str:
    """Return where a file of orphans lies."""
    return f"{ADOPTIONS_FOLDER}{uid}/orphans/{number:08}.parquet"
