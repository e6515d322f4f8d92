"""Tags: names for commits that do not move."""

from dataclasses import replace

from lakebed.env.clock import Clock, Instant
from lakebed.env.ids import IdSource
from lakebed.errors import ErrorKind, NotFoundError
from lakebed.format.records import decode_tag, encode_tag
from lakebed.kv.port import KVStore
from lakebed.limits import LIST_PAGE_DEFAULT
from lakebed.model.commits import DeletedTag, Tag
from lakebed.model.ids import CommitId, Nonce, TagName
from lakebed.model.repository import Repository
from lakebed.refs.keys import TAGS_PREFIX, tag_key
from lakebed.refs.lifecycle import RefKind, RefLifecycle
from lakebed.refs.listing import Listing
from lakebed.refs.names import require_no_branch, require_no_commit
from lakebed.refs.scans import scan_records


class Tags:
    """The tags of every repository in one KV store."""

    def __init__(self, kv: KVStore, *, clock: Clock, ids: IdSource) -> None:
        self._kv = kv
        self._lifecycle = RefLifecycle(_KIND, kv, clock=clock, ids=ids)

    async def get(self, repo: Repository, name: TagName) -> Tag:
        """Return a tag that everyone can see. One KV read.

        Raises:
            NotFoundError: `TAG_NOT_FOUND`.
        """
        found = await self._lifecycle.visible(repo, name)
        if found is None:
            raise NotFoundError(ErrorKind.TAG_NOT_FOUND, f"tag {name!r} not found in {repo.name}")
        return found.value

    async def create(
        self, repo: Repository, name: TagName, commit_id: CommitId, *, beside_branch: bool = False
    ) -> Tag:
        """Create a tag on a commit; `beside_branch` allows a branch of the same name.

        Raises:
            AlreadyExistsError: the name is a tag, a branch or the id of a commit.
            NotFoundError: `COMMIT_NOT_FOUND`: no such commit, or one that is being collected.
            UnavailableError: `OUTCOME_UNKNOWN`: it may have been created, and the name has changed hands since.
        """
        if not beside_branch:
            await require_no_branch(self._kv, repo, name)
        await require_no_commit(self._kv, repo, name)

        def make(nonce: Nonce, _previous: DeletedTag | None, _now: Instant) -> Tag:
            return Tag(name=name, commit_id=commit_id, tentative=True, created_by=nonce)

        return (await self._lifecycle.create(repo, name, make)).value

    async def delete(self, repo: Repository, name: TagName) -> Tag:
        """Delete a tag, and return it as it was.

        Raises:
            NotFoundError: `TAG_NOT_FOUND`.
        """
        return await self._lifecycle.delete(repo, name)

    async def list(
        self, repo: Repository, *, prefix: str = "", after: str = "", amount: int = LIST_PAGE_DEFAULT
    ) -> Listing[Tag]:
        """Return the tags whose name begins with `prefix` and is greater than `after`, by name."""
        results: list[Tag] = []
        async for items in scan_records(
            self._kv, repo.partition, TAGS_PREFIX, prefix=prefix, after=after, page_items_max=amount + 1
        ):
            for item in items:
                tag = await self._listed(repo, item.value)
                if tag is None:
                    continue
                if len(results) == amount:
                    return Listing(results=tuple(results), has_more=True)
                results.append(tag)
        return Listing(results=tuple(results), has_more=False)

    async def _listed(self, repo: Repository, value: bytes) -> Tag | None:
        record = decode_tag(value)
        if isinstance(record, DeletedTag):
            return None
        if not record.tentative:
            return record
        found = await self._lifecycle.visible(repo, record.name)
        return found.value if found is not None else None


def _decode(data: bytes) -> tuple[Tag | None, DeletedTag | None]:
    record = decode_tag(data)
    return (None, record) if isinstance(record, DeletedTag) else (record, None)


_KIND: RefKind[Tag, DeletedTag] = RefKind(
    noun="tag",
    exists=ErrorKind.TAG_EXISTS,
    missing=ErrorKind.TAG_NOT_FOUND,
    key=lambda name: tag_key(TagName(name)),
    decode=_decode,
    encode=encode_tag,
    encode_tombstone=encode_tag,
    names=lambda tag: (tag.commit_id.encode(),),
    published=lambda tag, _now: replace(tag, tentative=False),
    buried=lambda _tag, _now: None,
)
