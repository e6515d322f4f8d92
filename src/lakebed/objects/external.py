"""External addresses: objects that lie outside every repository and are only read.

An address is admitted if, after symbolic links are resolved, it lies under a
configured import prefix, and outside the data folder and every repository's namespace.
Otherwise anyone who may stage could read any file of the server, its keys, or another
repository's objects. It is asked when an address comes in and again before every read: links
and repositories change meanwhile.

What was resolved is then opened without following links, so nothing can be
swapped between the check and the read. That is why a first check may trust for
a moment what it found out about a folder: a million files come from a few of them.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from lakebed.errors import DeniedError, ErrorKind, InvalidInputError, quoted
from lakebed.limits import PLACE_BYTES_MAX
from lakebed.objects.drivers.local import LocalObjects
from lakebed.objects.drivers.s3 import S3Objects
from lakebed.objects.namespaces import PlaceUrl, is_within, overlap, parse_place
from lakebed.objects.port import ObjectStore
from lakebed.objects.settings import StoreSettings

_LOCAL = "local://"
# Every second character may begin a folder, which takes a system call: ten milliseconds at worst.
_CHARACTERS_A_TURN = 4 * 1024

Namespaces: TypeAlias = Callable[[], Iterable[str] | Awaitable[Iterable[str]]]
"""Tells the namespaces of all repositories there are at this moment, in their one spelling (`Places.canonical`).
Whoever remembers them for a while hands out the same list until it has asked again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExternalObject:
    """What an address means: an object of a store that is only read, or a prefix of such objects."""

    store: ObjectStore
    key: str
    file: Path | None
    """The resolved path, if it is a local file or folder."""


@dataclass(frozen=True, slots=True)
class _Bounds:
    """Resolved places: what is open, and what is ours; `told` is the list that the latter came from."""

    told: object
    prefixes: list[str]
    namespaces: list[str]
    clear: dict[str, str] = field(default_factory=dict)
    """Addresses of local folders, as they were spelled, from which everything may be read but links, and where they lead."""


class ExternalAddresses:
    """The gate in front of everything that is not ours."""

    def __init__(
        self,
        *,
        import_prefixes: Sequence[str],
        namespaces: Namespaces,
        settings: StoreSettings | None = None,
    ) -> None:
        settings = settings or StoreSettings()
        self._places = settings.places
        for prefix in import_prefixes:
            self._require_public(prefix)
        self._prefixes = tuple(import_prefixes)
        self._namespaces = namespaces
        self._settings = settings
        self._stores: dict[str, ObjectStore] = {}
        self._last = _Bounds(None, [], [])
        self._since_turn = 0
        """Characters of addresses that were resolved since others had their turn."""

    async def check(self, address: str) -> str:
        """Return where `address` leads if it, or all that begins with it, may be read: symbolic links are resolved.

        Raises:
            InvalidInputError: `INVALID_ADDRESS`: it is no address of an object outside.
            DeniedError: `EXTERNAL_ADDRESS`: it is none that this installation reads.
        """
        bounds = await self._bounds()
        if self._is_turn_over(address):
            await asyncio.sleep(0)
        folder, _, name = address.rpartition("/")
        clear = bounds.clear.get(folder)
        if clear is not None and _is_plain(address, name):
            return f"{clear}/{name}"
        place = _parse(address)
        resolved, _ = self._admit(bounds, place, address)
        if place.scheme == "local" and not place.host:
            self._note_clear(bounds, folder)
        return resolved

    async def resolve(self, address: str) -> ExternalObject:
        """Return what `address` means; errors as for `check`. Whether it is there shows when it is read."""
        if self._is_turn_over(address):
            await asyncio.sleep(0)
        place = _parse(address)
        resolved, prefix = self._admit(await self._bounds(), place, address)
        if place.scheme == "local":
            file = Path(resolved.removeprefix(_LOCAL))
            root = prefix.removeprefix(_LOCAL)
            key = "" if str(file) == root else str(file.relative_to(root))
            return ExternalObject(store=self._store(prefix), key=key, file=file)
        bucket = f"s3://{place.host}"
        return ExternalObject(store=self._store(bucket), key=address.removeprefix(f"{bucket}/"), file=None)

    async def close(self) -> None:
        """Close the stores that were opened for reading."""
        stores, self._stores = self._stores, {}
        for store in stores.values():
            await store.close()

    def _is_turn_over(self, address: str) -> bool:
        """Return whether others must have their turn: one request may name ten thousand addresses, each with thousands of folders."""
        self._since_turn += len(address)
        if self._since_turn <= _CHARACTERS_A_TURN:
            return False
        self._since_turn = 0
        return True

    def _admit(self, bounds: _Bounds, place: PlaceUrl, address: str) -> tuple[str, str]:
        """Return the resolved address and the resolved prefix that admits it."""
        resolved = self._resolved(place, address)
        admitting = next((prefix for prefix in bounds.prefixes if _lies_under(resolved, prefix)), None)
        if admitting is None:
            raise DeniedError(
                ErrorKind.EXTERNAL_ADDRESS,
                f"{address} does not lie under a configured import prefix: "
                "add one that covers it to the configuration, or upload the object instead",
            )
        if self._places.is_private(resolved):
            raise DeniedError(
                ErrorKind.EXTERNAL_ADDRESS,
                f"{address} lies in the server's data folder, or around it: nothing is imported from there",
            )
        if any(_shares(resolved, namespace) for namespace in bounds.namespaces):
            raise DeniedError(
                ErrorKind.EXTERNAL_ADDRESS,
                f"{address} lies in the storage of a repository: copy the object through that repository instead",
            )
        return resolved, admitting

    def _note_clear(self, bounds: _Bounds, folder: str) -> None:
        resolved = f"{_LOCAL}{os.path.realpath(folder.removeprefix(_LOCAL))}"
        if (
            any(_lies_under(resolved, prefix) for prefix in bounds.prefixes)
            and not self._places.is_private(resolved)
            and not any(_shares(resolved, namespace) for namespace in bounds.namespaces)
        ):
            bounds.clear[folder] = resolved

    async def _bounds(self) -> _Bounds:
        """Resolve prefixes and namespaces, again only when the namespaces come in another list than last time."""
        told = self._namespaces()
        namespaces = await told if isinstance(told, Awaitable) else told
        if self._last.told is not namespaces:
            self._last = _Bounds(
                namespaces,
                [self._canonical(prefix) for prefix in self._prefixes],
                list(namespaces),
            )
        return self._last

    def _resolved(self, place: PlaceUrl, address: str) -> str:
        # Local links are followed; an S3 key is what it is, to the last slash.
        return self._canonical(str(place)) if place.scheme == "local" else address

    def _canonical(self, url: str) -> str:
        return self._places.canonical(url)

    def _require_public(self, prefix: str) -> None:
        parse_place(prefix)
        if self._places.is_private(self._canonical(prefix)):
            raise InvalidInputError(
                ErrorKind.INVALID_CONFIG,
                f"import prefix {prefix} lies in the server's data folder, or contains it: anyone who may import could read "
                "the server's keys. Name a folder beside it, or move the data folder",
            )

    def _store(self, url: str) -> ObjectStore:
        store = self._stores.get(url)
        if store is None:
            place = parse_place(url)
            if place.scheme == "local":
                store = LocalObjects(Path(f"/{place.path}"), read_only=True)
            else:
                store = S3Objects(self._settings.s3_place(place.host, ""))
            self._stores[url] = store
        return store


def _parse(address: str) -> PlaceUrl:
    try:
        place = parse_place(address)
    except InvalidInputError as error:
        raise InvalidInputError(ErrorKind.INVALID_ADDRESS, str(error)) from error
    if place.scheme not in {"local", "s3"} or not place.path:
        raise InvalidInputError(
            ErrorKind.INVALID_ADDRESS,
            f"{quoted(address)} is no address of an object: use local:///path or s3://bucket/key",
        )
    return place


def _is_plain(address: str, name: str) -> bool:
    """Return whether the last part of a local address, which is `name`, is a file of its folder, and no link."""
    if name in {"", ".", ".."} or "\0" in name or len(address) > PLACE_BYTES_MAX:
        return False
    return not os.path.islink(address.removeprefix(_LOCAL))  # noqa: PTH114  a Path costs more


def _lies_under(resolved: str, prefix: str) -> bool:
    if resolved.startswith("local://"):
        return is_within(resolved, prefix)
    # `s3://b/imp` also begins `s3://b/imp2/x`: only what follows the slash is under the prefix.
    return resolved.startswith(f"{prefix}/")


def _shares(resolved: str, namespace: str) -> bool:
    if resolved.startswith("local://"):
        return overlap(resolved, namespace)
    return f"{resolved}/".startswith(f"{namespace}/") or f"{namespace}/".startswith(resolved)
