"""URLs of places: what they name, in one spelling, and which of them share bytes.

    mem://name/…        memory, for tests
    local://name/…      a folder below the data folder
    local:///abs/…      an absolute folder
    s3://bucket/…       a bucket, or a prefix of one

Two repositories never share or nest a place: the garbage collection of one would
take the other's objects for its own. Local places are compared after symbolic
links have been resolved, since two paths may lead to one folder.
"""

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lakebed.errors import ErrorKind, InvalidInputError, quoted
from lakebed.limits import (
    FOLDER_NAME_BYTES_MAX,
    NAMESPACE_BYTES_MAX,
    NAMESPACE_FOLDERS_MAX,
    PLACE_BYTES_MAX,
)

SCHEMES: Final = ("local", "mem", "s3")
_AWKWARD: Final = re.compile(r"[\s?#]")


@dataclass(frozen=True, slots=True)
class PlaceUrl:
    """A parsed URL. `host` is a bucket or a name; `path` has no slash at its ends."""

    scheme: str
    host: str
    path: str

    def __str__(self) -> str:
        return f"{self.scheme}://{self.host}/{self.path}" if self.path else f"{self.scheme}://{self.host}"


def parse_place(url: str) -> PlaceUrl:
    """Return what `url` names.

    Raises:
        InvalidInputError: `INVALID_NAMESPACE`: an unknown scheme, nothing named, or a path with empty, `.` or
            `..` parts, which different readers would understand differently.
    """
    if len(url) > PLACE_BYTES_MAX:
        raise InvalidInputError(
            ErrorKind.INVALID_NAMESPACE,
            f"{url[:64]!r}… has {len(url)} characters, and a place has at most {PLACE_BYTES_MAX}",
        )
    scheme, separator, rest = url.partition("://")
    if not separator or scheme not in SCHEMES:
        known = ", ".join(f"{name}://" for name in SCHEMES)
        raise InvalidInputError(
            ErrorKind.INVALID_NAMESPACE,
            f"{quoted(url)} is no storage this lakebed knows: it begins with one of {known}",
        )
    host, _, path = rest.partition("/")
    path = path.removesuffix("/")
    segments = path.split("/") if path else []
    if any(segment in {"", ".", ".."} or "\0" in segment for segment in segments) or host in {".", ".."}:
        raise InvalidInputError(
            ErrorKind.INVALID_NAMESPACE, f"{quoted(url)} has an empty, '.' or '..' part: write the place out"
        )
    if (not host and (scheme != "local" or not segments)) or "\0" in host:
        raise InvalidInputError(ErrorKind.INVALID_NAMESPACE, f"{quoted(url)} names no bucket or folder")
    return PlaceUrl(scheme, host, path)


def normalise_namespace(url: str) -> str:
    """Return the one spelling of a place as text, without a slash at its end and without looking at a disk.

    >>> normalise_namespace("s3://bucket/lake/")
    's3://bucket/lake'

    Raises:
        InvalidInputError: as for `parse_place`; for white space, `?` and `#`, which not every client gets right
            in a URL that it will see for years; and for a place that is too long or too deep for a repository.
    """
    if _AWKWARD.search(url):
        raise InvalidInputError(
            ErrorKind.INVALID_NAMESPACE, f"namespace {quoted(url)} must not have white space, '?' or '#'"
        )
    place = parse_place(url)
    _require_shallow(place)
    return str(place)


def _require_shallow(place: PlaceUrl) -> None:
    folders = [len(each.encode("utf-8", "surrogatepass")) for each in (place.host, *place.path.split("/"))]
    if (
        sum(folders) + len(folders) > NAMESPACE_BYTES_MAX
        or len(folders) > NAMESPACE_FOLDERS_MAX
        or max(folders) > FOLDER_NAME_BYTES_MAX
    ):
        raise InvalidInputError(
            ErrorKind.INVALID_NAMESPACE,
            f"namespace {str(place)[:64]!r}… is too long or too deep: choose one of at most {NAMESPACE_BYTES_MAX} bytes and "
            f"{NAMESPACE_FOLDERS_MAX} folders, each with a name of at most {FOLDER_NAME_BYTES_MAX} bytes",
        )


def local_path(place: PlaceUrl, data_dir: Path | None) -> Path:
    """Return the folder that a local place means."""
    assert place.scheme == "local"
    if not place.host:
        return Path("/") / place.path
    if data_dir is None:
        raise InvalidInputError(
            ErrorKind.INVALID_NAMESPACE,
            f"{place} needs a data folder: configure one, or use local:///absolute/path",
        )
    return data_dir.absolute() / place.host / place.path


def canonical_namespace(url: str, data_dir: Path | None = None) -> str:
    """Return the one spelling of a place: equal places get equal texts, nested ones nested texts.

    Looks at the disk for local places, to resolve symbolic links.
    """
    place = parse_place(url)
    if place.scheme != "local":
        return str(place)
    return f"local://{os.path.realpath(local_path(place, data_dir))}"


def is_within(inner: str, outer: str) -> bool:
    """Return whether one canonical place is the other or lies below it.

    >>> is_within("s3://b/a/x", "s3://b/a"), is_within("s3://b/ab", "s3://b/a")
    (True, False)
    """
    return f"{inner}/".startswith(f"{outer.removesuffix('/')}/")


def overlap(left: str, right: str) -> bool:
    """Return whether two canonical places are equal or nested, either way."""
    return is_within(left, right) or is_within(right, left)


def places_above(place: str) -> list[str]:
    """Return the places that would contain one in its one spelling, the nearest first.

    >>> places_above("s3://bucket/a/b")
    ['s3://bucket/a', 's3://bucket']
    """
    scheme, _, rest = place.partition("://")
    host, *segments = rest.split("/")
    above = [f"{scheme}://{'/'.join([host, *segments[:size]])}" for size in range(len(segments) - 1, -1, -1)]
    return above if host else above[:-1]
