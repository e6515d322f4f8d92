"""One name, one thing: branches, tags and commit ids share a space of names.

The check reads other records than the one the new ref is written to, so two
creations of one name at the same moment, a branch and a tag, can both succeed.
Nothing breaks then: a ref expression finds the branch first. What the check is
for is that nobody shadows a name by mistake. A restore of a dump that has both
brings both back.
"""

from lakebed.errors import AlreadyExistsError, ErrorKind
from lakebed.format.records import decode_branch, decode_tag
from lakebed.kv.port import KVStore
from lakebed.model.branch import Branch
from lakebed.model.commits import Tag
from lakebed.model.ids import BranchName, CommitId, TagName, is_commit_id
from lakebed.model.repository import Repository
from lakebed.refs.keys import branch_key, commit_key, tag_key


async def require_no_branch(kv: KVStore, repo: Repository, name: str) -> None:
    """Raise `AlreadyExistsError` if `name` is a branch."""
    item = await kv.get(repo.partition, branch_key(BranchName(name)))
    if item is not None and isinstance(decode_branch(item.value), Branch):
        raise AlreadyExistsError(ErrorKind.BRANCH_EXISTS, f"{name!r} is a branch of {repo.name}")


async def require_no_tag(kv: KVStore, repo: Repository, name: str) -> None:
    """Raise `AlreadyExistsError` if `name` is a tag."""
    item = await kv.get(repo.partition, tag_key(TagName(name)))
    if item is not None and isinstance(decode_tag(item.value), Tag):
        raise AlreadyExistsError(ErrorKind.TAG_EXISTS, f"{name!r} is a tag of {repo.name}")


async def require_no_commit(kv: KVStore, repo: Repository, name: str) -> None:
    """Raise `AlreadyExistsError` if `name` is the id of a commit."""
    if is_commit_id(name) and await kv.get(repo.partition, commit_key(CommitId(name))) is not None:
        raise AlreadyExistsError(ErrorKind.COMMIT_EXISTS, f"{name!r} is a commit of {repo.name}")
