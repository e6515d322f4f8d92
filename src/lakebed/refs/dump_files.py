"""The dumps that servers have written into a namespace by themselves: their names, and how one is read.

A dump is its own file, which has all refs, and the files from its base to it, which together have all commits.
"""

import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final

from lakebed.env.work import Workers
from lakebed.errors import CorruptError, ErrorKind, NotFoundError
from lakebed.format.dump import RefsHead, read_head, read_heads, read_refs_commits
from lakebed.model.commits import Commit
from lakebed.model.ids import RepoUid
from lakebed.objects.port import ObjectStore
from lakebed.refs.dump import REFS_FOLDER, Heads

_KEY: Final = re.compile(re.escape(REFS_FOLDER) + r"([^/]+)/(\d{8,})-(\d{8,})")


@dataclass(frozen=True, slots=True, order=True)
class DumpName:
    """A dump by the repository that wrote it, the generation of its ownership, and its number."""

    uid: RepoUid
    generation: int
    number: int

    def __str__(self) -> str:
        return f"{self.uid}/{self.generation:08}-{self.number:08}"

    @property
    def key(self) -> str:
        """Where its file lies."""
        return f"{REFS_FOLDER}{self}"


def parse_dump_key(key: str) -> DumpName | None:
    """Return the dump whose file has this key; None for other files."""
    found = _KEY.fullmatch(key)
    return DumpName(RepoUid(found[1]), int(found[2]), int(found[3])) if found else None


async def list_dumps(store: ObjectStore, uid: RepoUid | None = None) -> list[DumpName]:
    """Return the dumps of one repository, or of all that have been in the namespace, oldest first."""
    prefix = f"{REFS_FOLDER}{uid}/" if uid is not None else REFS_FOLDER
    names = [parse_dump_key(info.key) async for page in store.list(prefix) for info in page]
    return sorted(name for name in names if name is not None)


@dataclass(frozen=True, slots=True)
class StoredDump:
    """A dump that can be restored: its file, and what lies before it."""

    name: DumpName
    head: RefsHead
    heads: Heads
    _store: ObjectStore
    _workers: Workers

    async def commits(self) -> AsyncIterator[list[Commit]]:
        """Yield all commits, a few thousand at a time. One may come more than once.

        Raises:
            CorruptError: a file is damaged or missing.
        """
        for number in range(self.head.base, self.head.number + 1):
            name = DumpName(self.name.uid, self.name.generation, number)
            groups = read_refs_commits(await _get(self._store, name))
            while (commits := await self._workers.run(next, groups, None)) is not None:
                yield commits


async def open_dump(store: ObjectStore, name: DumpName, workers: Workers) -> StoredDump:
    """Read a dump's refs.

    Raises:
        CorruptError: its file is damaged or missing (`UNREADABLE`), or of a newer version.
    """
    data = await _get(store, name)
    head = await workers.run(read_head, data)
    branches, tags = await workers.run(read_heads, data)
    return StoredDump(name, head, Heads(branches=tuple(branches), tags=tuple(tags)), store, workers)


async def _get(store: ObjectStore, name: DumpName) -> bytes:
    try:
        return await store.get(name.key)
    except NotFoundError:
        raise CorruptError(
            ErrorKind.UNREADABLE, f"{name.key} is missing: choose another dump, of {REFS_FOLDER}"
        ) from None
