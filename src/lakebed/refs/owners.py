"""How a namespace says whose it is, to every installation.

    owner-<uid>            the marker: a repository lies here, so that no other is created in, above or below it
    owners/<generation>    the owner file: a repository that took the namespace over, see `catalog/adoption`
    deleting-<uid>         the mark: the data of that repository is being deleted, or was within the last day
                           (`deleted_data`)

A repository's record says so to its own installation only. These lie in the
namespace itself, so a second installation, or a repository above or below, sees them.

The greatest generation owns the namespace. Owner files are only ever created, by a put that fails if the key
exists, so two installations never share a generation. An owner that is about to delete checks first that no
later one is there (`require_owned`): what it deletes after that, it has published before, and the next owner
reads what was published after it has created its file.
"""

from collections.abc import Awaitable, Callable, Sequence

import msgspec

from lakebed.errors import (
    AlreadyExistsError,
    ConflictError,
    ErrorKind,
    FencedError,
    InvalidInputError,
)
from lakebed.format.owners import OWNER, OWNERS_FOLDER, Owner, generation_of, owner_key
from lakebed.model.ids import RepoName, RepoUid
from lakebed.model.repository import Repository
from lakebed.objects.port import ObjectStore

OpenStore = Callable[[str], Awaitable[ObjectStore]]
"""Returns the store rooted at a namespace."""

_PREFIX = "_lakebed/owner-"
_DELETING_PREFIX = "_lakebed/deleting-"

_CHOOSE = "Choose an empty one of its own"
_WAIT_OR_ADOPT = (
    "If that repository was deleted, the server removes its marker after the grace (`grace_seconds`): try again then. "
    "If its database is lost, or this is a copy, use `lakebed repo adopt`"
)


def marker_key(uid: RepoUid) -> str:
    """Return where the marker of a repository lies in its namespace."""
    return f"{_PREFIX}{uid}"


async def put_marker(store: ObjectStore, name: RepoName, uid: RepoUid) -> None:
    """Say that the namespace belongs to this repository. Saying so twice is no error."""
    try:
        await store.put(marker_key(uid), msgspec.json.encode({"repository": name, "uid": uid}))
    except AlreadyExistsError:
        return


def deleting_key(uid: RepoUid) -> str:
    """Return where it is said that the data of a repository is being deleted."""
    return f"{_DELETING_PREFIX}{uid}"


def is_mark(key: str) -> bool:
    """Return whether a key says, of this namespace or one below, that the data of a repository is being deleted."""
    return key.startswith(_DELETING_PREFIX) or f"/{_DELETING_PREFIX}" in key


async def delete_marks(store: ObjectStore) -> None:
    """Keep what is written from here on from being deleted with the data of an earlier repository."""
    async for infos in store.list(_DELETING_PREFIX):
        await store.delete([info.key for info in infos])


async def put_deleting(store: ObjectStore, uid: RepoUid) -> None:
    """Say that the data of a repository is being deleted, before the first object goes."""
    try:
        await store.put(deleting_key(uid), b"")
    except AlreadyExistsError:
        return


async def markers(store: ObjectStore) -> list[RepoUid]:
    """Return the uids of the repositories that have a marker in the namespace itself."""
    return [RepoUid(info.key.removeprefix(_PREFIX)) async for page in store.list(_PREFIX) for info in page]


async def require_kept(store: ObjectStore, namespace: str) -> None:
    """Raise `InvalidInputError` (`NAMESPACE_IN_USE`) if the data of the namespace is being deleted."""
    async for infos in store.list(_DELETING_PREFIX):
        raise InvalidInputError(
            ErrorKind.NAMESPACE_IN_USE,
            f"the data in {namespace} is being deleted with its repository ({infos[0].key}): it cannot be adopted",
        )


async def newest_generation(store: ObjectStore) -> int:
    """Return the generation of the namespace's owner: 0 if nobody has adopted it."""
    newest = 0
    async for infos in store.list(OWNERS_FOLDER):
        newest = max([newest, *(found for info in infos if (found := generation_of(info.key)) is not None)])
    return newest


async def read_owner(store: ObjectStore, generation: int) -> Owner:
    """Return the owner of a generation above 0, or raise `NotFoundError`."""
    return OWNER.open(await store.get(owner_key(generation)))


async def claim(store: ObjectStore, owner: Owner) -> None:
    """Become the owner of the namespace. Claiming twice is no error.

    Raises:
        ConflictError: `VERSION_CHANGED`: another repository has this generation.
    """
    try:
        await store.put(owner_key(owner.generation), OWNER.seal(owner))
    except AlreadyExistsError:
        other = await read_owner(store, owner.generation)
        if other.uid != owner.uid:
            raise ConflictError(
                ErrorKind.VERSION_CHANGED, f"the namespace was taken over by {other} at the same time"
            ) from None


async def require_owned(store: ObjectStore, repo: Repository) -> None:
    """List the owners, and raise `FencedError` (`REPO_TAKEN_OVER`) if there is a later one than `repo`."""
    newest = await newest_generation(store)
    if newest > repo.generation:
        raise taken_over(repo, str(await read_owner(store, newest)))


async def is_owner(store: ObjectStore, uid: RepoUid) -> bool:
    """Return whether the namespace still belongs to the repository with this uid, so that it may delete everything.

    An owner without a marker is gone: an adopter puts its marker before its owner file, and whoever deletes a
    repository removes the marker last.
    """
    if await store.head(marker_key(uid)) is None:
        return False
    newest = await newest_generation(store)
    owner = (await read_owner(store, newest)).uid if newest else uid
    return owner == uid or await store.head(marker_key(owner)) is None


def taken_over(repo: Repository, by: str) -> FencedError:
    """Return the error of whoever would change a repository that another installation has adopted."""
    return FencedError(
        ErrorKind.REPO_TAKEN_OVER,
        f"{repo.namespace} of repository {repo.name} was taken over by {by}: this installation only reads it. "
        "Write there, and delete the repository here with --force, without --with-data",
    )


async def require_create_only(store: ObjectStore, namespace: str, probe: str) -> None:
    """Raise `InvalidInputError` (`UNSUPPORTED`) if the store lets a second put replace a first: no claim is safe there."""
    key = f"{OWNERS_FOLDER}probe-{probe}"
    try:
        await store.put(key, b"1")
        await store.put(key, b"2")
    except AlreadyExistsError:
        return
    finally:
        await store.delete([key])
    raise InvalidInputError(
        ErrorKind.UNSUPPORTED,
        f"the storage of {namespace} ignores 'create only if absent' (If-None-Match): two installations could adopt it at "
        "the same time. Use a store that supports conditional writes",
    )


async def require_unowned(
    open_store: OpenStore,
    namespace: str,
    uid: RepoUid,
    *,
    above: Sequence[str],
    allow_data: bool,
    adopting: bool = False,
) -> None:
    """Look for anyone else in the namespace, in the places `above` it, and below. It decides once the own marker is there.

    Who adopts the namespace takes it from the repository whose marker lies in it.

    Raises:
        InvalidInputError: `NAMESPACE_IN_USE`.
    """
    own = marker_key(uid)
    async for infos in (await open_store(namespace)).list():
        for info in infos:
            if info.key == own or is_mark(info.key):
                continue
            if adopting and info.key.startswith(_PREFIX):
                continue
            if info.key.startswith(_PREFIX) or f"/{_PREFIX}" in info.key:
                why = f"a repository lies in it or below it ({info.key})"
                raise _in_use(namespace, why, _WAIT_OR_ADOPT if allow_data else _CHOOSE)
            if not allow_data:
                # What other files are called is not for the caller to know.
                raise _in_use(namespace, "it holds data")
    for place in above:
        async for infos in (await open_store(place)).list(_PREFIX):
            raise _in_use(namespace, f"{place} belongs to a repository ({infos[0].key})")


def _in_use(namespace: str, why: str, advice: str = _CHOOSE) -> InvalidInputError:
    return InvalidInputError(ErrorKind.NAMESPACE_IN_USE, f"namespace {namespace} is in use: {why}. {advice}")
