"""`Repo`: a repository, and the handles of what is in it."""

from collections.abc import Iterator

from lakebed.client.branch import Branch
from lakebed.client.compaction import Compaction
from lakebed.client.gc import GarbageCollection
from lakebed.client.ref import Ref
from lakebed.client.refs import Refs
from lakebed.client.replies import (
    CommitInfo,
    OrphanInfo,
    OrphanPage,
    RefInfo,
    RepositoryInfo,
    StashInfo,
    StorageUse,
)
from lakebed.client.settings import Settings
from lakebed.client.tag import Tag
from lakebed.client.transport import Transport, decode
from lakebed.limits import LIST_PAGE_MAX


class Repo:
    """One repository. A handle costs nothing: no request is made before something is asked of it."""

    def __init__(self, transport: Transport, name: str) -> None:
        self.name = name
        self._transport = transport

    def __repr__(self) -> str:
        return f"Repo({self.name!r})"

    def info(self) -> RepositoryInfo:
        """Return what is known of the repository."""
        return self._transport.get(RepositoryInfo, *self._path())

    def create(
        self,
        storage_namespace: str,
        *,
        default_branch: str = "main",
        read_only: bool = False,
        bare: bool = False,
    ) -> RepositoryInfo:
        """Create the repository over an empty namespace of the object store, as `s3://bucket/prefix`.

        A bare one has no branch and no commit, and its namespace may hold the data that a dump refers to.
        """
        body = {
            "name": self.name,
            "storage_namespace": storage_namespace,
            "default_branch": default_branch,
            "read_only": read_only,
        }
        query = {"bare": bare or None}
        return decode(self._transport.post("repositories", body=body, query=query), RepositoryInfo)

    def delete(self, *, force: bool = False, with_data: bool = False) -> None:
        """Delete the repository. Its objects stay in storage, unless `with_data`: then they go for good after the grace.

        `force` also takes a read-only one.
        """
        self._transport.delete(*self._path(), query={"force": force or None, "with_data": with_data or None})

    def storage_use(self) -> StorageUse:
        """Count what deleting the repository with its data would free."""
        return self._transport.get(StorageUse, *self._path("storage"))

    def metadata(self) -> dict[str, str]:
        """Return the repository's metadata."""
        return self._transport.get(dict[str, str], *self._path("metadata"))

    @property
    def settings(self) -> Settings:
        """Retention rules and branch protection."""
        return Settings(self._transport, self.name)

    @property
    def compaction(self) -> Compaction:
        """How far the merging of what is staged is."""
        return Compaction(self._transport, self.name)

    @property
    def gc(self) -> GarbageCollection:
        """Runs of garbage collection."""
        return GarbageCollection(self._transport, self.name)

    @property
    def refs(self) -> Refs:
        """Dump and restore of all refs."""
        return Refs(self._transport, self.name)

    def orphans(self, *, limit: int | None = None) -> Iterator[OrphanInfo]:
        """Yield the objects that nothing referred to when the repository was adopted, newest first."""
        after: int | None = 0
        left = limit
        while after is not None and (left is None or left > 0):
            amount = LIST_PAGE_MAX if left is None else min(left, LIST_PAGE_MAX)
            page = self._transport.get(
                OrphanPage, *self._path("orphans"), query={"after": after, "amount": amount}
            )
            yield from page.results
            after = page.after
            left = None if left is None else left - len(page.results)

    def ref(self, expression: str) -> Ref:
        """Return a handle for reading at a branch, tag, commit or expression such as `main~2`."""
        return Ref(self._transport, self.name, expression)

    def branch(self, name: str) -> Branch:
        """Return a handle for a branch."""
        return Branch(self._transport, self.name, name)

    def tag(self, name: str) -> Tag:
        """Return a handle for a tag."""
        return Tag(self._transport, self.name, name)

    def commit(self, commit_id: str) -> CommitInfo:
        """Return a commit by its id, or by any expression."""
        return self.ref(commit_id).head()

    def branches(
        self, *, prefix: str = "", show_hidden: bool = False, limit: int | None = None
    ) -> Iterator[RefInfo]:
        """Yield the branches in the order of their names."""
        query = {"prefix": prefix or None, "show_hidden": show_hidden or None}
        return self._transport.pages(RefInfo, *self._path("branches"), query=query, limit=limit)

    def tags(self, *, prefix: str = "", limit: int | None = None) -> Iterator[RefInfo]:
        """Yield the tags in the order of their names."""
        return self._transport.pages(
            RefInfo, *self._path("tags"), query={"prefix": prefix or None}, limit=limit
        )

    def stashes(self, *, limit: int | None = None) -> Iterator[StashInfo]:
        """Yield the changes that were put aside, oldest first."""
        return self._transport.pages(StashInfo, *self._path("stashes"), limit=limit)

    def pop_stash(self, stash_id: str, *, into: Branch | str = "") -> StashInfo:
        """Lay a stash over the branch it came from, or over another."""
        answer = self._transport.post(*self._path("stashes", stash_id, "pop"), body={"into": str(into)})
        return decode(answer, StashInfo)

    def drop_stash(self, stash_id: str) -> None:
        """Give a stash up for good; its changes cannot be brought back."""
        self._transport.delete(*self._path("stashes", stash_id))

    def _path(self, *below: str) -> tuple[str, ...]:
        return ("repositories", self.name, *below)
