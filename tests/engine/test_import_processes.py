"""Import as an installation does it: files are hashed in processes of their own."""

import asyncio
import multiprocessing
from dataclasses import replace
from pathlib import Path

from lakebed.errors import ErrorKind
from lakebed.model.tasks import Task, TaskState
from lakebed.server.config import Config
from lakebed.server.installation import open_installation
from lakebed.server.wiring import Wired
from lakebed.testing.lake import COMMIT
from lakebed.versioning.importing import ImportKind, ImportPath


async def run(wired: Wired, path: ImportPath) -> Task:
    task = await wired.catalog.imports.start("lake", "main", [path], COMMIT)
    while task.state is TaskState.RUNNING:
        await asyncio.sleep(0.02)
        task = await wired.catalog.imports.status("lake", "main", task.id)
    return task


async def test_files_and_what_is_wrong_with_them_pass_between_processes(tmp_path: Path) -> None:
    source = tmp_path / "outside"
    for number in range(30):
        file = source / f"{number % 3}" / f"{number}"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{number}")
    config = Config(data=tmp_path / "data", import_prefixes=(f"local://{source}",), processes=1)
    everything = ImportPath(kind=ImportKind.PREFIX, address=f"local://{source}/", destination="in/")
    async with open_installation(config) as wired:
        await wired.catalog.repositories.create("lake", "local://lake")
        first = await run(wired, everything)
        assert (first.state, first.progress, first.error) == (TaskState.DONE, 30, "")
        (source / "new").write_text("new")
        again = await run(wired, everything)
        assert (again.state, again.progress) == (TaskState.DONE, 31)
        page = await wired.catalog.objects.list("lake", "main", amount=1000)
        assert page.rows.num_rows == 31

        (source / "n\udcff").write_text("")
        failed = await run(wired, replace(everything, destination="elsewhere/"))
        assert failed.state is TaskState.FAILED
        assert failed.error_kind == ErrorKind.INVALID_PATH
        assert "not valid Unicode" in failed.error


async def test_an_import_works_after_its_helpers_were_killed(tmp_path: Path) -> None:
    source = tmp_path / "outside"
    source.mkdir()
    (source / "one").write_text("1")
    config = Config(data=tmp_path / "data", import_prefixes=(f"local://{source}",), processes=1)
    everything = ImportPath(kind=ImportKind.PREFIX, address=f"local://{source}/", destination="in/")
    async with open_installation(config) as wired:
        await wired.catalog.repositories.create("lake", "local://lake")
        before = set(multiprocessing.active_children())
        assert (await run(wired, everything)).state is TaskState.DONE
        helpers = set(multiprocessing.active_children()) - before
        assert helpers
        for helper in helpers:
            helper.kill()
        for number in range(2):
            (source / f"more{number}").write_text("2")
            again = await run(wired, everything)
            assert (again.state, again.error) == (TaskState.DONE, "")
