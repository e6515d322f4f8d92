"""The owner marker: how a namespace says whose it is, to every installation.

A repository's record says so to its own installation only. The marker lies in the
namespace itself, so a second installation, or a repository above or below, sees it.
"""

from collections.abc import Awaitable, Callable

import msgspec

from lakebed.errors import AlreadyExistsError, ErrorKind, InvalidInputError
from lakebed.model.ids import RepoName, RepoUid
from lakebed.objects.namespaces import places_above
from lakebed.objects.port import ObjectStore

OpenStore = Callable[[str], Awaitable[ObjectStore]]
"""Returns the store rooted at a namespace."""

_PREFIX = "_lakebed/owner-"


def marker_key(uid: RepoUid) -> str:
    """Return where the marker of a repository lies in its namespace."""
    return f"{_PREFIX}{uid}"


async def put_marker(store: ObjectStore, name: RepoName, uid: RepoUid) -> None:
    """Say that the namespace belongs to this repository. Saying so twice is no error."""
    try:
        await store.put(marker_key(uid), msgspec.json.encode({"repository": name, "uid": uid}))
    except AlreadyExistsError:
        return


async def require_unowned(open_store: OpenStore, namespace: str, uid: RepoUid, *, allow_data: bool) -> None:
    """Look for anyone else in the namespace, above it and below. The own marker must be there already.

    Raises:
        InvalidInputError: `NAMESPACE_IN_USE`.
    """
    own = marker_key(uid)
    async for infos in (await open_store(namespace)).list():
        for info in infos:
            if info.key == own:
                continue
            if not allow_data or info.key.startswith(_PREFIX) or f"/{_PREFIX}" in info.key:
                raise _in_use(namespace, f"it holds {info.key!r}")
    for above in places_above(namespace):
        async for infos in (await open_store(above)).list(_PREFIX):
            raise _in_use(namespace, f"{above} belongs to a repository ({infos[0].key})")


def _in_use(namespace: str, why: str) -> InvalidInputError:
    return InvalidInputError(
        ErrorKind.NAMESPACE_IN_USE, f"namespace {namespace} is in use: {why}. Choose an empty one of its own"
    )
