"""What a repository, or one that was deleted without its data, takes up in its namespace."""

import re
from dataclasses import dataclass
from typing import Final

from lakebed.env.clock import Clock
from lakebed.errors import ErrorKind, InvalidInputError
from lakebed.format.layout import DATA_FOLDER, OWN_FOLDER
from lakebed.objects.port import ObjectStore
from lakebed.refs.owners import is_mark

DATA_PREFIXES: Final = (DATA_FOLDER, OWN_FOLDER)
"""Everything that a repository ever puts into its namespace lies below one of these."""

# Slices and objects as `objects/slices.py` names them: nobody names own files so by chance.
_ADDRESS: Final = re.compile(r"data/[0-9a-v]{20}/[0-9a-v]{20}")


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageUse:
    """Objects of users, and the engine's own files."""

    objects: int
    files: int
    size: int
    """Bytes of both."""
    complete: bool = True
    """False if the listing was cut off: there is more."""


def is_address(key: str) -> bool:
    """Return whether only a repository names an object so."""
    return _ADDRESS.fullmatch(key) is not None


async def measure(store: ObjectStore, *, clock: Clock, seconds: float) -> StorageUse:
    """Count what a namespace holds, for at most about `seconds`."""
    started, counts, size = clock.monotonic(), [], 0
    for prefix in DATA_PREFIXES:
        counts.append(0)
        async for infos in store.list(prefix):
            counts[-1] += len(infos)
            size += sum(info.size_bytes for info in infos)
            if clock.monotonic() - started > seconds:
                objects, files = [*counts, 0][:2]
                return StorageUse(objects=objects, files=files, size=size, complete=False)
    return StorageUse(objects=counts[0], files=counts[1], size=size)


async def remove_traces(store: ObjectStore) -> bool:
    """Remove what the store itself has made at a place that holds no object. Return False if that has to be tried again."""
    async for _ in store.list():
        return True
    return await store.remove_if_empty()


async def require_leftovers(store: ObjectStore, namespace: str, *, own: str) -> StorageUse:
    """Count what is left of a deleted repository; `own` is a marker of the caller, and does not count.

    Raises:
        InvalidInputError: `INVALID_NAMESPACE`: something below `data/` is not a repository's, or nothing is left.
    """
    objects = files = size = 0
    for prefix in DATA_PREFIXES:
        async for infos in store.list(prefix):
            for info in infos:
                if prefix == DATA_FOLDER and not is_address(info.key):
                    raise InvalidInputError(
                        ErrorKind.INVALID_NAMESPACE,
                        f"{namespace} holds {info.key!r}, which no repository has put there: nothing is deleted. "
                        "Move it out of the namespace if the rest is to go",
                    )
            kept = [info for info in infos if info.key != own and not is_mark(info.key)]
            objects += len(kept) if prefix == DATA_FOLDER else 0
            files += len(kept) if prefix == OWN_FOLDER else 0
            size += sum(info.size_bytes for info in kept)
    if not objects + files:
        raise InvalidInputError(
            ErrorKind.INVALID_NAMESPACE, f"nothing of a repository is left in {namespace}: is that the place?"
        )
    return StorageUse(objects=objects, files=files, size=size)
