"""Import of a million local files of one byte in 100 folders.

The files stay in the work folder, because making them takes longer than all the
rest; whether the kernel still has them in its cache decides the first figure.
"""

import asyncio
import shutil
from pathlib import Path

from bench.clock import Stopwatch
from bench.figure import Figure, peer
from bench.lab import COMMIT, REPO, Lab
from lakebed.model.tasks import TaskState
from lakebed.server.config import Config
from lakebed.server.installation import open_installation
from lakebed.server.wiring import Wired
from lakebed.versioning.importing import ImportKind, ImportPath

_FOLDERS = 100


async def import_files(lab: Lab) -> list[Figure]:
    """Import into an empty branch twice, then again onto the same."""
    count = lab.count(1_000_000)
    source = _files(lab.work, count)
    data = lab.work / "scratch"
    shutil.rmtree(data, ignore_errors=True)
    try:
        async with open_installation(Config(data=data, import_prefixes=(f"local://{source}",))) as site:
            await site.catalog.repositories.create(REPO, f"local://{REPO}")
            await site.catalog.branches.create(REPO, "second", "main")
            first = await _import(site, source, "main", count)
            second = await _import(site, source, "second", count)
            again = await _import(site, source, "second", count)
    finally:
        shutil.rmtree(data, ignore_errors=True)
    return [
        Figure(
            name=f"{count:,} files, warm",
            value=second,
            unit="s",
            peer=peer(26),
            grows=True,
            note=f"the first time {first:.1f} s",
        ),
        Figure(name="the same again, nothing changed", value=again, unit="s"),
    ]


async def _import(site: Wired, source: Path, branch: str, count: int) -> float:
    path = ImportPath(kind=ImportKind.PREFIX, address=f"local://{source}/", destination="imp/")
    with Stopwatch() as watch:
        task = await site.catalog.imports.start(REPO, branch, [path], COMMIT)
        while task.state is TaskState.RUNNING:
            await asyncio.sleep(0.02)
            task = await site.catalog.imports.status(REPO, branch, task.id)
    assert task.state is TaskState.DONE, task
    page = await site.catalog.objects.list(REPO, branch, prefix="imp/", delimiter="/", amount=1000)
    assert len(page.prefixes) == min(_FOLDERS, count)
    return watch.seconds


def _files(work: Path, count: int) -> Path:
    """Return a folder with `count` files, made now or in an earlier run."""
    base = work / f"files-{count}"
    done = base.with_suffix(".done")
    if not done.exists():
        for folder in range(_FOLDERS):
            below = base / f"d{folder:03d}"
            below.mkdir(parents=True, exist_ok=True)
            for number in range(folder, count, _FOLDERS):
                (below / f"f{number:08d}").write_bytes(b"x")
        done.touch()
    return base
