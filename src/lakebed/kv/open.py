"""URL to driver, the only place that knows which drivers there are.

A driver announces itself under the entry-point group `lakebed.kv`, by URL scheme,
as `async (url, *, clock) -> KVStore`. So nobody imports a database's library but
the driver that needs it, and a driver from another package works like our own.
"""

from importlib.metadata import EntryPoint, entry_points
from typing import Protocol, cast
from urllib.parse import urlsplit

from lakebed.env.clock import Clock, SystemClock
from lakebed.errors import ErrorKind, InvalidInputError
from lakebed.kv.port import KVStore

GROUP = "lakebed.kv"


class Opener(Protocol):
    """What an entry point of the group gives."""

    async def __call__(self, url: str, *, clock: Clock) -> KVStore: ...


async def open_kv(url: str, *, clock: Clock | None = None) -> KVStore:
    """Return the store that `url` names, ready for use.

    Raises:
        InvalidInputError: no driver for the scheme, or a URL that its driver cannot read.
        UnavailableError: the database did not answer.
        CorruptError: it was written by a newer version, or is not ours.
    """
    scheme = urlsplit(url).scheme
    drivers = {each.name: each for each in entry_points(group=GROUP)}
    if scheme not in drivers:
        raise InvalidInputError(
            ErrorKind.INVALID_CONFIG,
            f"no key-value store speaks {scheme or 'an empty scheme'!r}; write one of "
            + ", ".join(f"{name}://" for name in sorted(drivers)),
        )
    opener = _load(drivers[scheme])
    return await opener(url, clock=clock or SystemClock())


def _load(driver: EntryPoint) -> Opener:
    try:
        return cast("Opener", driver.load())
    except ModuleNotFoundError as error:
        raise InvalidInputError(
            ErrorKind.INVALID_CONFIG,
            f"{driver.name}:// needs the module {error.name!r}: "
            "install lakebed with the extra that brings it, for example 'lakebed[postgres]'",
        ) from error
