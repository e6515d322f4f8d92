"""`Places`: the one module that decides which folders of this machine a server may touch.

    local://name/…, local:///name   a folder below `objects`, which is part of the data folder
    local:///folder/…               an absolute folder, only in or below one of `roots`, which the operator configures

Symbolic links are resolved before anything is compared, and a store below its top folder is then opened without following
any (`objects.local.folders`). The rest of the data folder (database, keys, cache, work in progress) is `private`: no
repository lies in it or around it, and nothing is imported from it, whatever roots and import prefixes say.

A record says `local:///folder` only if that folder was admitted as an absolute one when the repository was created: a
client that joins `local://`, a slash and a name gets `local://name`.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lakebed.errors import ErrorKind, InvalidInputError, UnavailableError
from lakebed.objects.namespaces import (
    PlaceUrl,
    canonical_namespace,
    normalise_namespace,
    parse_place,
    places_above,
)

SETTING = "storage.local.roots"


@dataclass(frozen=True, slots=True)
class LocalFolder:
    """An admitted folder, resolved, and the configured folder that admits it."""

    path: Path
    top: Path


class Places:
    """What namespaces mean here, and which of them may be used."""

    def __init__(
        self, *, objects: Path | None = None, roots: Sequence[Path] = (), private: Path | None = None
    ) -> None:
        self._objects = objects
        self._roots = tuple(roots)
        self._private = private

    def namespace(self, url: str) -> str:
        """Return how the namespace of a new repository is stored.

        Raises:
            InvalidInputError: `INVALID_NAMESPACE`: no place, or one that the configuration does not admit.
        """
        place = parse_place(normalise_namespace(url))
        if place.scheme == "mem" and self._private is not None:
            raise InvalidInputError(
                ErrorKind.INVALID_NAMESPACE,
                f"{place} is memory of one process, and this server keeps what it acknowledges: use local:// or s3://",
            )
        if place.scheme == "local" and not place.host and "/" not in place.path:
            named = PlaceUrl("local", place.path, "")
            if self._admit(place) is None and self._objects is not None:
                place = named
        if place.scheme == "local" and self._admit(place) is None:
            raise InvalidInputError(ErrorKind.INVALID_NAMESPACE, self._refusal(place))
        return str(place)

    def canonical(self, namespace: str) -> str:
        """Return the one spelling of a place, symbolic links resolved, whether or not it may be used."""
        return canonical_namespace(namespace, self._objects)

    def usable(self, namespace: str) -> str:
        """Return the one spelling of the place of an existing repository, which its store is opened at.

        Raises:
            UnavailableError: `STORE_UNAVAILABLE`: the configuration does not admit it, or no longer does.
        """
        place = parse_place(namespace)
        if place.scheme != "local":
            return str(place)
        return f"local://{self.folder(place).path}"

    def folder(self, place: PlaceUrl) -> LocalFolder:
        """Return the folder of a local place; errors as for `usable`."""
        admitted = self._admit(place)
        if admitted is None:
            raise UnavailableError(ErrorKind.STORE_UNAVAILABLE, self._refusal(place))
        return admitted

    def above(self, place: str) -> list[str]:
        """Return the places above one in its one spelling in which another repository can lie."""
        found = places_above(place)
        if not place.startswith("local://"):
            return found
        return [each for each in found if self._admit(parse_place(each)) is not None]

    def is_private(self, place: str) -> bool:
        """Return whether a place in its one spelling lies in the data folder, or around it."""
        if self._private is None or not place.startswith("local://"):
            return False
        path = Path(place.removeprefix("local://"))
        return _overlap(path, _resolved(self._private))

    def _admit(self, place: PlaceUrl) -> LocalFolder | None:
        if place.host and self._objects is None:
            return None
        path = Path(self.canonical(str(place)).removeprefix("local://"))
        if self._objects is not None:
            objects = _resolved(self._objects)
            if objects in path.parents:
                return LocalFolder(path, objects)
            if _overlap(path, objects):
                return None
        if place.host or self.is_private(f"local://{path}"):
            return None
        tops = [top for top in map(_resolved, self._roots) if top == path or top in path.parents]
        return LocalFolder(path, tops[0]) if tops else None

    def _refusal(self, place: PlaceUrl) -> str:
        if place.host:
            return (
                f"{place} leads out of the data folder's objects: choose another name"
                if self._objects is not None
                else f"{place} needs a data folder: configure one"
            )
        return (
            f"{place} is no folder that this server may use: add it, or a folder above it, to {SETTING} and restart, "
            "or use local://name for a folder in the server's data folder"
        )


def _resolved(path: Path) -> Path:
    return Path(os.path.realpath(path))


def _overlap(left: Path, right: Path) -> bool:
    return left == right or left in right.parents or right in left.parents
