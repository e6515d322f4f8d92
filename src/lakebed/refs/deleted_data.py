"""How the cleaner frees the namespace of a repository that was deleted with its data. Order matters.

A client that was already uploading when its repository was deleted may outlast the grace. An object store has no fences, so
its bytes arrive after everything else was deleted. The cleaner therefore comes twice.

First, a grace after the deletion, while `owner-<uid>` lies in the namespace:
    1. put    `deleting-<uid>`, the mark, if no other repository owns the namespace
                                                    crash: all of it again
    2. delete every object, abort every upload      the same. The owner is checked after each page of a listing
    3. write  the late entry, due a day later, with the mark's time of writing
                                                    crash: the repeat finds the late entry, and goes on with 4
    4. delete `owner-<uid>`                         from here another repository can be created in the namespace

Second, when the late entry is due, while the mark lies there unchanged and the namespace has no owner:
    5. delete what was uploaded late, abort uploads crash: all of it again. The mark is checked after each page of a listing
    6. delete the mark, and what the store itself keeps in the namespace
    7. remove the late entry

A creation puts its own marker, looks for others, deletes the marks, and only then becomes live and writes data. So a page
that was listed before the mark was seen holds no object of a later repository. If the mark is gone, or was put
again since (a copy of 1 that arrived late), a later repository may have lived here, and its data may have been kept when it was
deleted: then 5 deletes nothing. A later repository collects late uploads as its own garbage. A creation that dies after it
has deleted the marks, and before it was live, leaves late uploads to `lakebed repo purge`.
"""

import re
from collections.abc import Awaitable, Callable
from typing import Final

from lakebed.env.clock import Instant
from lakebed.format.layout import DATA_FOLDER, OWN_FOLDER
from lakebed.format.owners import OWNERS_FOLDER
from lakebed.model.ids import RepoUid
from lakebed.objects.port import ObjectStore
from lakebed.refs.leftovers import DATA_PREFIXES, is_address
from lakebed.refs.owners import deleting_key, is_owner, marker_key, markers, put_deleting

# Another repository may lie below this one since: its files are named so.
_NESTED: Final = re.compile(f"/({DATA_FOLDER}|{OWN_FOLDER})")


async def free_data(store: ObjectStore, uid: RepoUid) -> Instant | None:
    """Do 1 and 2. Return when the mark was written; None if the namespace belongs to another repository."""
    own = (marker_key(uid), deleting_key(uid))

    async def may_delete() -> bool:
        return await is_owner(store, uid)

    # A later owner must not find the mark: while it lies there, the namespace cannot be adopted.
    if not await may_delete():
        return None
    await put_deleting(store, uid)
    await _delete(store, may_delete, lambda key: key not in own)
    mark = await store.head(deleting_key(uid))
    return mark.mtime if mark is not None and await may_delete() else None


async def free_late_data(store: ObjectStore, uid: RepoUid, marked_at: Instant) -> bool:
    """Do 5 and 6. Return False if that has to be tried again: the namespace or the store is in use."""
    mark = deleting_key(uid)

    async def is_marked() -> bool:
        found = await store.head(mark)
        return found is not None and found.mtime == marked_at

    async def may_delete() -> bool:
        return await is_marked() and not await markers(store)

    await _delete(store, may_delete, lambda key: key != mark and _is_of_repository(key))
    owned = bool(await markers(store))
    if owned and await is_marked():
        return False  # A creation is under way: it deletes the mark, or gives up.
    await store.delete([mark])
    return owned or await store.remove_if_empty()


async def _delete(
    store: ObjectStore, may_delete: Callable[[], Awaitable[bool]], is_own: Callable[[str], bool]
) -> None:
    """Delete and abort page by page; ask after each listing whether its page may go."""
    for prefix in DATA_PREFIXES:
        async for infos in store.list(prefix):
            if not await may_delete():
                return
            await store.delete([info.key for info in infos if is_own(info.key)])
    async for uploads in store.list_uploads():
        if not await may_delete():
            return
        for each in uploads:
            if is_own(each.key):
                await store.abort_upload(each.key, each.upload)


def _is_of_repository(key: str) -> bool:
    """Return whether only a repository at the namespace itself names an object so.

    Owner files are named by number: a later repository may have put one of the same name.
    """
    if key.startswith(DATA_FOLDER):
        return is_address(key)
    return not key.startswith(OWNERS_FOLDER) and not _NESTED.search(key)
