"""A disk of a few megabytes, full when a test wants it: a real one, for which nobody has to be root.

A process in a user namespace of its own mounts it over a folder. Commands that run `within` that namespace see the disk
under the folder's name; everybody else reaches it by way of that process.
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
    """The disk as seen from outside, and the command that runs commands which see it under its folder's name."""

    folder: Path
    within: tuple[str, ...]

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
    """Let everything in a folder lie on a small disk until the end, for what runs `within` it."""
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
            str(folder),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        assert holder.stdout is not None
        if holder.stdout.readline() != b"mounted\n":
            pytest.skip("this system lets nobody but root mount anything")
        enter = ("nsenter", f"--target={holder.pid}", "--user", "--mount", "--preserve-credentials", "--")
        disk = SmallDisk(Path(f"/proc/{holder.pid}/root{folder}"), enter)
        shutil.copytree(folder, disk.folder, dirs_exist_ok=True)
        yield disk
        # The folder itself stays: without the place it is mounted on, the disk would be gone.
        aside = folder.with_name("aside")
        shutil.copytree(disk.folder, aside)
    finally:
        holder.kill()
        holder.communicate()
    shutil.rmtree(folder)
    aside.rename(folder)
