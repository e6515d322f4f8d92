"""HTTP statuses to errors: the client raises what the engine raises, so the remedy is the same.

A Lakebed server names the kind in a header; of any other server of this API only the
status is known, and the table below picks a kind of the right class.
"""

from typing import Final

import msgspec

from lakebed.errors import (
    AlreadyExistsError,
    ConflictError,
    CorruptError,
    DeniedError,
    ErrorKind,
    FencedError,
    InvalidInputError,
    LakebedError,
    NotFoundError,
    PreconditionError,
    UnavailableError,
)

KIND_HEADER: Final = "x-lakebed-error-kind"

_BY_STATUS: Final[dict[int, tuple[type[LakebedError], ErrorKind]]] = {
    400: (InvalidInputError, ErrorKind.INVALID_ARGUMENT),
    401: (DeniedError, ErrorKind.UNAUTHENTICATED),
    403: (DeniedError, ErrorKind.PERMISSION_DENIED),
    404: (NotFoundError, ErrorKind.KEY_NOT_FOUND),
    405: (InvalidInputError, ErrorKind.UNSUPPORTED),
    409: (ConflictError, ErrorKind.VERSION_CHANGED),
    410: (NotFoundError, ErrorKind.DATA_MISSING),
    412: (PreconditionError, ErrorKind.CONDITION_FAILED),
    413: (InvalidInputError, ErrorKind.TOO_LARGE),
    416: (InvalidInputError, ErrorKind.RANGE_NOT_SATISFIABLE),
    429: (UnavailableError, ErrorKind.TOO_MANY_RETRIES),
    501: (InvalidInputError, ErrorKind.UNSUPPORTED),
    500: (CorruptError, ErrorKind.UNREADABLE),
    503: (UnavailableError, ErrorKind.STORE_UNAVAILABLE),
}
_KINDS: Final = {kind.value: kind for kind in ErrorKind}
_EXISTS: Final = frozenset(kind for kind in ErrorKind if kind.value.endswith("-exists")) | {
    ErrorKind.ALREADY_SET_UP
}
# lakeFS's two texts for 401: whoever is unknown logs in again, whoever may not does not.
_DENIED_TEXT: Final = "insufficient permissions"


_CONFLICT_TEXT: Final = (
    "both sides changed the same paths: see which with a diff, then merge with the strategy "
    "source-wins or dest-wins, or resolve them on the source"
)


class _ErrorBody(msgspec.Struct):
    message: str = ""
    detail: str = ""
    """What a Lakebed server says beyond the phrase in `message`."""
    reference: str | None = None
    """A merge that met conflicts is answered with the reference of no commit, and no message."""


def error_of(status: int, body: bytes, *, kind: str | None = None, asked: str) -> LakebedError:
    """Return what a refused request raises; `asked` is its method and path, for people."""
    said = _said(body)
    if status == 409 and said.reference == "":
        return ConflictError(ErrorKind.MERGE_CONFLICT, _CONFLICT_TEXT)
    text = said.detail or said.message or f"{asked} was answered with status {status}"
    fallback = UnavailableError if status >= 500 else InvalidInputError
    of_class, of_kind = _BY_STATUS.get(status, (fallback, ErrorKind.UNSUPPORTED))
    if status == 401 and text == _DENIED_TEXT:
        of_kind = ErrorKind.PERMISSION_DENIED
    of_kind = _KINDS.get(kind or "", of_kind)
    if status == 409 and (of_kind in _EXISTS or (kind is None and _is_taken(text))):
        of_class = AlreadyExistsError
        of_kind = of_kind if of_kind in _EXISTS else ErrorKind.KEY_EXISTS
    if of_kind in (ErrorKind.LEASE_LOST, ErrorKind.REPO_TAKEN_OVER):
        of_class = FencedError
    return of_class(of_kind, text)


def _is_taken(text: str) -> bool:
    """Return whether lakeFS refused a name because it is taken: `Already exists`, `not unique`."""
    return "exists" in text or "not unique" in text


def _said(body: bytes) -> _ErrorBody:
    try:
        return msgspec.json.decode(body, type=_ErrorBody)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _ErrorBody()
