"""What an operator runs beside a server that serves: it disturbs nobody, and nobody disturbs it."""

import json
import subprocess
import sys
import threading
import zipfile
from pathlib import Path

import pytest

from lakebed.client.repo import Repo
from lakebed.testing.server_process import ServerProcess

pytestmark = pytest.mark.server

COMMAND = str(Path(sys.executable).parent / "lakebed")


def test_verify_finds_nothing_wrong_while_others_write_and_commit(repo: Repo, server: ServerProcess) -> None:
    main, stop, failed = repo.branch("main"), threading.Event(), []
    for i in range(50):
        main.write(f"first/{i}", f"{i}")
    main.commit("First")

    def write() -> None:
        count = 0
        try:
            while not stop.is_set():
                main.write(f"later/{count}", f"{count}")
                count += 1
                if count % 5 == 0:
                    main.commit(f"{count}")
        except Exception as error:  # noqa: BLE001  the test says what it was
            failed.append(error)

    writer = threading.Thread(target=write)
    writer.start()
    said = subprocess.run(
        [COMMAND, "verify", repo.name, "--data", "--json", "--data-dir", str(server.folder / "data")],
        capture_output=True,
        text=True,
        check=False,
    )
    stop.set()
    writer.join()

    report = json.loads(said.stdout)
    assert (said.returncode, report["findings"], failed) == (0, [], [])
    assert report["verified"]["objects"] >= 50
    assert main.read("first/7") == b"7"


def test_diagnostics_has_the_metrics_of_the_server(repo: Repo, server: ServerProcess, tmp_path: Path) -> None:
    repo.branch("main").write("a", "1")
    out = tmp_path / "out.zip"
    args = ["--data-dir", str(server.folder / "data"), "--endpoint", server.endpoint, "--out", str(out)]

    subprocess.run([COMMAND, "diagnostics", *args, "--log", str(server.folder / "server.log")], check=True)

    with zipfile.ZipFile(out) as bundle:
        texts = {name: bundle.read(name).decode() for name in bundle.namelist()}
    assert texts.keys() >= {"about.json", "metrics.txt", "repositories.json", "log.txt"}
    assert "# TYPE" in texts["metrics.txt"]
    assert repo.name in [each["name"] for each in json.loads(texts["repositories.json"])]
    assert not [name for name in texts if name.endswith(".error.txt")]
    assert server.secret_key not in "".join(texts.values())
