"""The files behind trees: where ranges and metaranges lie, and their bytes.

They are Parquet, so whoever may list a repository's objects can read them with any
engine. A name from outside is checked before it becomes a key.
"""

import re
from collections.abc import AsyncIterator
from typing import Final, Literal

from lakebed.auth.actions import Action
from lakebed.auth.arns import repository_arn
from lakebed.auth.caller import Caller
from lakebed.catalog.engine import Engine
from lakebed.catalog.links import SignedUrl, sign
from lakebed.committed.names import metarange_key, range_key
from lakebed.errors import ErrorKind, NotFoundError, quoted
from lakebed.model.ids import MetarangeId, RangeId
from lakebed.model.repository import Repository
from lakebed.objects.port import ObjectStore

FileKind = Literal["range", "meta_range"]

_NAME: Final = re.compile(r"[0-9a-z]+(-[0-9a-z]+)*", re.ASCII)
_NAME_MAX: Final = 255


class MetadataFiles:
    """Use cases on the files of trees."""

    def __init__(self, engine: Engine, caller: Caller) -> None:
        self._engine = engine
        self._caller = caller

    async def location(self, repo_name: str, kind: FileKind, name: str) -> str:
        """Return where a file lies, relative to the repository's namespace."""
        return (await self._find(repo_name, kind, name))[1]

    async def read(self, repo_name: str, kind: FileKind, name: str) -> AsyncIterator[bytes]:
        """Return the bytes of a file in chunks."""
        store, key = await self._find(repo_name, kind, name)
        return store.stream(key)

    async def download(self, repo_name: str, kind: FileKind, name: str) -> SignedUrl:
        """Return a URL for the bytes of a file.

        Raises:
            InvalidInputError: `INVALID_ARGUMENT`: the store cannot sign.
        """
        return await sign(self._engine, "GET", *await self._find(repo_name, kind, name))

    async def _find(self, repo_name: str, kind: FileKind, name: str) -> tuple[ObjectStore, str]:
        self._caller.require(Action.LIST_OBJECTS, repository_arn(repo_name))
        self._caller.require(Action.READ_REPOSITORY, repository_arn(repo_name))
        return await find_file(self._engine, await self._engine.repo(repo_name), kind, name)


async def find_file(engine: Engine, repo: Repository, kind: FileKind, name: str) -> tuple[ObjectStore, str]:
    """Return the store and the key of a file that is there.

    Raises:
        NotFoundError: `KEY_NOT_FOUND`.
    """
    key = range_key(RangeId(name)) if kind == "range" else metarange_key(MetarangeId(name))
    store = await engine.store_of(repo)
    if len(name) > _NAME_MAX or _NAME.fullmatch(name) is None or await store.head(key) is None:
        noun = kind.replace("_", "")
        raise NotFoundError(ErrorKind.KEY_NOT_FOUND, f"there is no {noun} {quoted(name)} in {repo.name}")
    return store, key
