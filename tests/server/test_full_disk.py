"""A disk that runs full stops no process: everybody is told, and everything goes on once there is room."""

from pathlib import Path

import pytest

from lakebed.errors import ErrorKind, UnavailableError
from lakebed.server.asgi import WorkerApp
from lakebed.server.config import load_config
from lakebed.server.data_folder import Layout
from lakebed.server.metrics import reserve
from lakebed.telemetry.mapped import make_whole
from lakebed.testing.server_process import running_server
from tests.server.backlog import wait_until
from tests.server.http import Http
from tests.server.small_disk import on_small_disk


@pytest.mark.server
def test_workers_outlive_a_full_disk(tmp_path: Path) -> None:
    data = tmp_path / "site" / "data"
    data.mkdir(parents=True)
    with (
        on_small_disk(data) as disk,
        running_server(tmp_path / "site", workers=2, within=disk.within) as server,
    ):
        ask = Http(server)
        body = {"name": "lake", "storage_namespace": "local://lake"}
        assert ask("POST", "/repositories", body=body)[0] == 201
        folder = disk.folder / "tmp/metrics"
        mapped = wait_until(
            lambda: (found := list(folder.iterdir())) and len(found) == 2 * 4 + 3 and found,
            "files of two workers and a compactor",
        )
        sparse = [file.name for file in mapped if file.stat().st_blocks * 512 < file.stat().st_size]
        assert not sparse, "a write to a page without a block ends the process"
        disk.fill()
        for number in range(20):
            branch = {"name": f"b{number}", "source": "main"}
            assert ask("POST", "/repositories/lake/branches", body=branch)[0] in {201, 503}
            assert ask("GET", "/repositories/lake/branches")[0] == 200
        disk.empty()
        assert ask("POST", "/repositories/lake/branches", body={"name": "later", "source": "main"})[0] == 201
        assert "worker_died" not in (server.folder / "server.log").read_text()


def test_a_mapped_file_has_its_blocks_or_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with on_small_disk(tmp_path / "folder") as disk:
        file = disk.folder / "mapped"
        make_whole(file, 100_000)
        assert file.stat().st_blocks * 512 >= 100_000
        file.write_bytes(b"mine")
        make_whole(file, 100_000)
        assert file.read_bytes() == b"mine", "one that is there stays"
        disk.fill()
        with pytest.raises(OSError, match="No space"):
            make_whole(disk.folder / "other", 100_000)
        with pytest.raises(UnavailableError) as caught:
            reserve(disk.folder)
        assert caught.value.kind is ErrorKind.DISK_FULL
        assert {each.name for each in disk.folder.iterdir()} == {"mapped", "ballast"}


async def test_a_worker_that_waits_for_its_database_leaves_one_file(tmp_path: Path) -> None:
    config = load_config(
        flags={"data": str(tmp_path)},
        environment={"LAKEBED_DATABASE": "postgresql://127.0.0.1:1/none"},
        file=None,
    )
    app = WorkerApp(config)
    for _ in range(3):
        with pytest.raises(UnavailableError):
            await app.start()
        await app.stop()
    assert len(list(Layout(tmp_path).metrics.iterdir())) == 1
