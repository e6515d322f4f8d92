"""Named ids and the parsers that make them.

An id in a signature has already been checked: the only way to get one from a
`str` that came from outside is its parser. Code past the edge never validates
names again.
"""

import re
from functools import lru_cache
from typing import NewType

from lakebed.errors import ErrorKind, InvalidInputError, quoted
from lakebed.limits import PATH_BYTES_MAX, REF_NAME_BYTES_MAX

RepoName = NewType("RepoName", str)
RepoUid = NewType("RepoUid", str)
"""Random, one for each creation of a repository: a new repository of an old name never meets the old one's data."""
BranchName = NewType("BranchName", str)
TagName = NewType("TagName", str)
CommitId = NewType("CommitId", str)
"""64 lower-case hex digits."""
MetarangeId = NewType("MetarangeId", str)
"""64 hex digits, the file's name without its folder and ending; older ones are `<hash>-<nonce>`. `EMPTY_TREE` names no file."""
RangeId = NewType("RangeId", str)
"""Like a metarange's."""
StagingToken = NewType("StagingToken", str)
"""`<repo>-<branch>:<random>`: the KV partition that holds one layer of staged rows."""
Nonce = NewType("Nonce", str)
"""Random name of one operation: how it recognises its own writes, and what protects files nobody references yet."""
Path = NewType("Path", str)
"""An object's path in a repository: 1 to 1,024 bytes of UTF-8. Its order is the order of those bytes."""

EMPTY_TREE = MetarangeId("")
"""The tree without entries."""

_REPO = re.compile(r"[a-z0-9][a-z0-9-]{2,62}", re.ASCII)
_BRANCH = re.compile(r"\w[-\w]*", re.ASCII)
_COMMIT = re.compile(r"[0-9a-f]{64}")
_TAG_FORBIDDEN = re.compile(r"[\x00-\x20\x7f~^:?*\[\\/]|\.\.|@\{")

# Every request names a repository and a branch, and mostly the same few.
_NAMES_REMEMBERED = 4096


@lru_cache(maxsize=_NAMES_REMEMBERED)
def parse_repo_name(text: str) -> RepoName:
    """Return `text` as a repository name, or raise `InvalidInputError`."""
    if _REPO.fullmatch(text) is None:
        raise InvalidInputError(
            ErrorKind.INVALID_REPO_NAME,
            f"repository name {quoted(text)} must be 3 to 63 characters of a-z, 0-9 and '-', and not start with '-'",
        )
    return RepoName(text)


@lru_cache(maxsize=_NAMES_REMEMBERED)
def parse_branch_name(text: str) -> BranchName:
    """Return `text` as a branch name, or raise `InvalidInputError`."""
    if _BRANCH.fullmatch(text) is None or len(text) > REF_NAME_BYTES_MAX:
        raise InvalidInputError(
            ErrorKind.INVALID_BRANCH_NAME,
            f"branch name {quoted(text)} must be 1 to {REF_NAME_BYTES_MAX} letters, digits, '_' and '-', and not start with '-'",
        )
    return BranchName(text)


def parse_tag_name(text: str) -> TagName:
    """Return `text` as a tag name, or raise `InvalidInputError`. The rules are Git's, without '/'."""
    if (
        not text
        or len(text.encode("utf-8", "surrogatepass")) > REF_NAME_BYTES_MAX
        or _TAG_FORBIDDEN.search(text)
        or text == "@"
        or text.startswith((".", "-"))
        or text.endswith((".", ".lock"))
        or not _is_utf8(text)
    ):
        raise InvalidInputError(
            ErrorKind.INVALID_TAG_NAME,
            f"tag name {quoted(text)} breaks Git's rules: no spaces, control characters, '..', '@{{' or any of ~^:?*[\\/, "
            f"no leading '.' or '-', no trailing '.' or '.lock', at most {REF_NAME_BYTES_MAX} bytes",
        )
    return TagName(text)


def parse_path(text: str) -> Path:
    """Return `text` as an object path, or raise `InvalidInputError`."""
    if not text:
        raise InvalidInputError(ErrorKind.INVALID_PATH, "path must not be empty")
    if not _is_utf8(text):
        raise InvalidInputError(ErrorKind.INVALID_PATH, f"path {quoted(text)} is not valid Unicode")
    if len(text) > PATH_BYTES_MAX or (not text.isascii() and len(text.encode()) > PATH_BYTES_MAX):
        raise InvalidInputError(
            ErrorKind.INVALID_PATH,
            f"path of {len(text.encode())} bytes is longer than {PATH_BYTES_MAX}",
            about=text,
        )
    return Path(text)


def is_commit_id(text: str) -> bool:
    """Return whether `text` has the form of a full commit id."""
    return _COMMIT.fullmatch(text) is not None


def _is_utf8(text: str) -> bool:
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
