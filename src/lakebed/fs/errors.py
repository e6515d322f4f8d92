"""Our errors as those of the operating system, which is what callers of a file system catch."""

from collections.abc import Iterator
from contextlib import contextmanager

from lakebed.errors import AlreadyExistsError, DeniedError, NotFoundError, PreconditionError


@contextmanager
def os_errors(path: str) -> Iterator[None]:
    """Raise what `open` of a local file would raise."""
    try:
        yield
    except NotFoundError as error:
        raise FileNotFoundError(f"{path}: {error}") from error
    except DeniedError as error:
        raise PermissionError(f"{path}: {error}") from error
    except (AlreadyExistsError, PreconditionError) as error:
        raise FileExistsError(f"{path}: {error}") from error
