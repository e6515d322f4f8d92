"""Runs the examples of a page as they stand, each section in a folder of its own, against a server.

A fence's info string says what becomes of a block: `python` and `bash` are run in order, and with a file name behind the
language the block is stored under that name. With `clients` behind the language, the section needs what only `make test-clients` installs: its
line `pip install …` makes a virtual environment below `.cache/clients`, which later runs use again.
"""

import hashlib
import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from lakebed.testing.server_process import ServerProcess
from tests.clients.programs import install, require_tool

ROOT = Path(__file__).parents[2]
CLIENTS = (ROOT / "docs" / "clients.md").read_text(encoding="utf-8")
_CACHE = ROOT / ".cache"
_FENCE = re.compile(r"^```([^\n]+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_INSTALL = re.compile(r"^pip install (.+)\n", re.MULTILINE)
_RUN_SECONDS = 600


@dataclass(frozen=True, slots=True)
class Section:
    """A heading, and the blocks below it: info string and text."""

    title: str
    blocks: list[tuple[str, str]]

    @property
    def is_large(self) -> bool:
        return any(info.endswith(" clients") for info, _ in self.blocks)

    @property
    def requirements(self) -> str:
        """What `pip install` is told."""
        return " ".join(found for _, text in self.blocks for found in _INSTALL.findall(text))

    def run(self, server: ServerProcess, folder: Path) -> str:
        """Return what the section prints; skip the test if a program is not on this machine."""
        if any("<artifactId>" in text for _, text in self.blocks):
            require_tool("mvn")
            require_tool("javac")
        binaries = _environment(self.requirements) if self.requirements else Path(sys.executable).parent
        environment = {
            "PATH": f"{binaries}:{os.defpath}",
            "HOME": str(folder),
            "MAVEN_OPTS": f"-Dmaven.repo.local={_CACHE / 'maven'}",
        }
        address = server.endpoint.removeprefix("http://")
        printed = ""
        for info, text in self.blocks:
            code = re.sub(r"(127\.0\.0\.1|lakefs\.example\.com):8000", address, _INSTALL.sub("", text))
            language, _, name = info.partition(" ")
            if name not in ("", "clients"):
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                (folder / name).write_text(code, encoding="utf-8")
                continue
            done = subprocess.run(
                ["python", "-c", code] if language == "python" else ["bash", "-eu", "-c", code],
                capture_output=True,
                text=True,
                cwd=folder,
                timeout=_RUN_SECONDS,
                check=False,
                env=environment,
            )
            assert done.returncode == 0, f"{self.title}\n{done.stdout[-3000:]}\n{done.stderr[-5000:]}"
            printed += done.stdout
        return printed


def sections(page: str = CLIENTS) -> list[Section]:
    """Return the sections of a page that have something to run."""
    parts = re.split(r"^## ", page, flags=re.MULTILINE)[1:]
    found = [Section(part.partition("\n")[0], _FENCE.findall(part)) for part in parts]
    return [section for section in found if section.blocks]


def _environment(requirements: str) -> Path:
    """Return the programs of a virtual environment with `requirements`; `lakebed` in them is this tree."""
    folder = _CACHE / "clients" / hashlib.sha256(requirements.encode()).hexdigest()[:12]
    ready = folder / "ready"
    if not ready.exists():
        words = [re.sub(r"^lakebed(?=\[|$)", str(ROOT), word) for word in shlex.split(requirements)]
        install([sys.executable, "-m", "venv", "--clear", str(folder)], folder=ROOT, what=requirements)
        pip = (str(folder / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "install", "-q")
        install([*pip, *words], folder=ROOT, what=requirements)
        ready.touch()
    return folder / "bin"
