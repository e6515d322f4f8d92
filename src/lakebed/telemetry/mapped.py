"""Files that are mapped into memory, with all of their blocks.

A process that writes to a mapped page for which the disk has no block is killed with SIGBUS. So a file is written in
full before it is mapped: a full disk is an error then, and no death later.
"""

import os
from pathlib import Path


def make_whole(file: Path, size: int) -> None:
    """Create a file of `size` zeros; one that is there stays as it is.

    Raises `OSError`, as of a full disk; there is no file then.
    """
    try:
        made = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        return
    try:
        with os.fdopen(made, "wb") as opened:
            opened.write(bytes(size))
    except OSError:
        file.unlink()
        raise
