"""`lakebed://repo/ref/path`: how the command line and fsspec name things.

`lakefs://` is taken as well, so that names can be pasted from elsewhere; and since
neither a repository nor a ref has a slash in its name, the scheme may be left out.
"""

from dataclasses import dataclass
from typing import Final

from lakebed.errors import ErrorKind, InvalidInputError

SCHEME: Final = "lakebed"
_SCHEMES: Final = ("lakebed", "lakefs")


@dataclass(frozen=True, slots=True)
class Uri:
    """A repository, a ref of it, an object at that ref; the later ones may be empty."""

    repo: str
    ref: str = ""
    path: str = ""

    def __str__(self) -> str:
        return f"{SCHEME}://{'/'.join(part for part in (self.repo, self.ref, self.path) if part)}"


def parse_uri(text: str) -> Uri:
    """Return what `text` names.

    Raises:
        InvalidInputError: it has another scheme, or names no repository.
    """
    scheme, separator, rest = text.partition("://")
    if not separator or "/" in scheme:
        rest = text
    elif scheme not in _SCHEMES:
        raise InvalidInputError(ErrorKind.INVALID_ARGUMENT, f"{text!r} is no {SCHEME}://repo/ref/path")
    repo, _, below = rest.partition("/")
    ref, _, path = below.partition("/")
    if not repo:
        raise InvalidInputError(
            ErrorKind.INVALID_ARGUMENT, f"{text!r} names no repository: write {SCHEME}://repo/ref/path"
        )
    return Uri(repo, ref, path)


def parse_repo(text: str) -> str:
    """Return the repository that `text` names, and nothing below it."""
    uri = parse_uri(text)
    if uri.ref:
        raise InvalidInputError(
            ErrorKind.INVALID_ARGUMENT, f"{text!r} names more than a repository: write {SCHEME}://{uri.repo}"
        )
    return uri.repo


def parse_ref(text: str) -> Uri:
    """Return the ref that `text` names, and nothing below it."""
    uri = parse_uri(text)
    if not uri.ref or uri.path:
        raise InvalidInputError(ErrorKind.INVALID_ARGUMENT, f"{text!r} must be {SCHEME}://repo/ref")
    return uri


def parse_object(text: str, *, path_required: bool = True) -> Uri:
    """Return the object, or without `path_required` the prefix, that `text` names."""
    uri = parse_uri(text)
    if not uri.ref or (path_required and not uri.path):
        raise InvalidInputError(ErrorKind.INVALID_ARGUMENT, f"{text!r} must be {SCHEME}://repo/ref/path")
    return uri


def parse_other_ref(text: str, repo: str) -> str:
    """Return a second ref of `repo`: its name alone, or a whole URI, which must be of the same repository."""
    if "/" not in text:
        return text
    uri = parse_ref(text)
    if uri.repo != repo:
        raise InvalidInputError(
            ErrorKind.INVALID_ARGUMENT, f"{text!r} is not of repository {repo}: both must be of the same"
        )
    return uri.ref
