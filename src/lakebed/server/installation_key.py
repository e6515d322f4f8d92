"""The installation's key: what secrets are encrypted with at rest."""

import os
from pathlib import Path

from lakebed.env.ids import IdSource
from lakebed.errors import ErrorKind, InvalidInputError

_BYTES_MIN = 32


def installation_key(given: str | None, path: Path, ids: IdSource) -> bytes:
    """Return the configured key, or the one kept at `path`, which is made the first time.

    Raises:
        InvalidInputError: `INVALID_CONFIG`: the configured key is too short, or the file cannot be read.
    """
    if given is not None:
        if len(given.encode()) < _BYTES_MIN:
            raise InvalidInputError(
                ErrorKind.INVALID_CONFIG, f"the installation key needs at least {_BYTES_MIN} bytes of chance"
            )
        return given.encode()
    try:
        return _made(path, ids)
    except OSError as error:
        raise InvalidInputError(
            ErrorKind.INVALID_CONFIG, f"the installation key at {path} cannot be read: {error.strerror}"
        ) from error


def _made(path: Path, ids: IdSource) -> bytes:
    """Read the key, or write it whole under its name: of two processes that do so, one wins."""
    if not path.exists():
        temporary = path.with_name(f"{path.name}.{ids.token()}")
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write("".join(ids.token() for _ in range(4)).encode())
            file.flush()
            os.fsync(file.fileno())
        try:
            path.hardlink_to(temporary)
        except FileExistsError:
            pass
        finally:
            temporary.unlink()
        folder = os.open(path.parent, os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)
    return path.read_bytes()
