"""A disk of a few megabytes, full when a test wants it: a real one, for which nobody has to be root.

A process in a user namespace of its own mounts it there, and everybody reaches it by way of that process.
"""

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

_BYTES = 24 * 2**20
_MOUNT = 'mount -t tmpfs -o size="$1" tmpfs "$2" && echo mounted && exec cat'


@dataclass(frozen=True)
class SmallDisk:
    """A folder on it."""

    folder: Path

    @property
    def _ballast(self) -> Path:
        return self.folder / "ballast"

    def fill(self) -> None:
        """Leave no room."""
        with self._ballast.open("wb", buffering=0) as file:
            try:
                while file.write(bytes(4096)):
                    pass
            except OSError:
                return

    def empty(self) -> None:
        """Make room again."""
        self._ballast.unlink()


@contextmanager
def on_small_disk(folder: Path) -> Iterator[SmallDisk]:
    """Let everything in a folder lie on a small disk, under the same name, until the end."""
    mount, aside = folder.with_name("mounted"), folder.with_name("aside")
    mount.mkdir()
    holder = subprocess.Popen(
        [
            "unshare",
            "--user",
            "--map-root-user",
            "--mount",
            "sh",
            "-c",
            _MOUNT,
            "sh",
            str(_BYTES),
            str(mount),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        assert holder.stdout is not None
        if holder.stdout.readline() != b"mounted\n":
            pytest.skip("this system lets nobody but root mount anything")
        disk = SmallDisk(Path(f"/proc/{holder.pid}/root{mount}/disk"))
        shutil.copytree(folder, disk.folder)
        folder.rename(aside)
        folder.symlink_to(disk.folder)
        yield disk
        folder.unlink()
        shutil.copytree(disk.folder, folder)
    finally:
        holder.kill()
        holder.communicate()
