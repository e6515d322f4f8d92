"""The commit under a new ref, which must not be on its way out.

A collector condemns a commit first and lists the refs after that. A new ref
does the same in the other order (publish, then check), or checks in the very
step that publishes, so one of the two always sees the other.
"""

from lakebed.errors import ErrorKind, NotFoundError
from lakebed.format.records import decode_commit
from lakebed.kv.port import KVStore, VersionFence
from lakebed.model.ids import CommitId
from lakebed.model.repository import Repository
from lakebed.refs.keys import commit_key


async def anchor(kv: KVStore, repo: Repository, commit_id: CommitId) -> VersionFence:
    """Return a fence that holds while the commit, read just now, is one a ref may point to.

    Raises:
        NotFoundError: `COMMIT_NOT_FOUND`: there is no such commit, or it is condemned.
    """
    item = await kv.get(repo.partition, commit_key(commit_id))
    if item is None:
        raise NotFoundError(ErrorKind.COMMIT_NOT_FOUND, f"commit {commit_id!r} not found in {repo.name}")
    if decode_commit(item.value).condemned_by:
        raise NotFoundError(
            ErrorKind.COMMIT_NOT_FOUND,
            f"commit {commit_id} has expired and its objects are being removed: choose a newer one",
        )
    return VersionFence(partition=repo.partition, key=item.key, version=item.version)
