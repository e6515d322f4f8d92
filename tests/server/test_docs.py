"""The examples of the quickstart and of the configuration's page, run as they stand; and what operations promises."""

import re
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from io import StringIO
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry
from rich.console import Console
from typer.testing import CliRunner

from lakebed.cli.main import app
from lakebed.client.client import Client
from lakebed.compaction.meters import CompactionMeters
from lakebed.env.clock import SystemClock
from lakebed.kv.drivers.memory import MemoryKV
from lakebed.kv.wrappers.metrics import MeteredKV
from lakebed.objects.wrappers.metrics import ObjectMeters
from lakebed.server.config import Config
from lakebed.server.gc_metrics import GcStates
from lakebed.server.installation import open_installation
from lakebed.server.sample import make_quickstart
from lakebed.telemetry.requests import RequestMetrics
from lakebed.testing.server_process import ServerProcess, running_server

DOCS = Path(__file__).parents[2] / "docs"
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page: str) -> list[tuple[str, str]]:
    return FENCE.findall((DOCS / page).read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """What `make run` starts."""
    with running_server(tmp_path_factory.mktemp("quickstart"), flags=["--sample"]) as running:
        yield running


@pytest.mark.server
@pytest.mark.skipif(shutil.which("curl") is None, reason="one of the four ways is curl")
def test_the_quickstart_runs_from_top_to_bottom(server: ServerProcess, tmp_path: Path) -> None:
    found = [
        (kind, code.replace("http://127.0.0.1:8000", server.endpoint))
        for kind, code in blocks("quickstart.md")
    ]
    # Between two shells the variables would be lost: it is one terminal.
    shell = "\n".join(code for kind, code in found if kind == "sh")
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", shell],
        cwd=tmp_path,
        env={"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "HOME": str(tmp_path), "TERM": "dumb"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "anchors are heavy" in done.stdout
    assert done.stdout.endswith("hello")

    for code in [code for kind, code in found if kind == "python"]:
        exec(compile(code, "quickstart.md", "exec"), {"__name__": "docs"})


def test_the_quickstart_needs_no_other_language() -> None:
    assert {kind for kind, _ in blocks("quickstart.md")} == {"sh", "python"}


@pytest.mark.server
def test_the_readme_of_the_quickstart_repository_runs_as_it_stands(
    server: ServerProcess, tmp_path: Path
) -> None:
    with Client(server.endpoint, server.access_key, server.secret_key) as client:
        main = client.repo("quickstart").branch("main")
        readme = main.read("README.md").decode()
        commands = [line.removeprefix("    ") for line in readme.splitlines() if line.startswith("    ")]
        assert len(commands) == 5
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", "\n".join(commands)],
            env={"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "HOME": str(tmp_path)}
            | server.client_environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert not main.exists("data/lakes-by-country.csv")
        assert main.exists("data/lakes.source.md")
        named = re.findall(r"\((images/[^)]+)\)", readme)
        assert [path for path in named if not main.exists(path)] == []
        assert named


async def test_a_quickstart_repository_that_cannot_be_created_is_told_and_stops_nothing(
    tmp_path: Path,
) -> None:
    said = StringIO()
    out = Console(file=said, width=200)
    async with open_installation(Config(data=tmp_path)) as wired:
        await make_quickstart(wired.catalog, out)
        await make_quickstart(wired.catalog, out)
    first, second = [line for line in said.getvalue().splitlines() if line]
    assert first == "A repository quickstart with a table: lakes.parquet"
    assert second.startswith("No repository quickstart: ")


def test_the_commands_of_the_configuration_page_exist(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    lines = [
        line for kind, code in blocks("configuration.md") if kind == "console" for line in code.splitlines()
    ]
    commands = [line.removeprefix("$ lakebed ").split() for line in lines]
    (setup,) = [words for words in commands if words[0] == "setup"]
    assert CliRunner().invoke(app, setup, catch_exceptions=False).exit_code == 0
    (run,) = [words for words in commands if words[0] == "run"]
    shown = CliRunner().invoke(app, ["run", "--help"], catch_exceptions=False).output
    assert [flag for flag in run if flag.startswith("--") and flag not in shown] == []


def test_the_page_of_operations_names_every_metric(tmp_path: Path) -> None:
    registry = CollectorRegistry()
    MeteredKV(MemoryKV(), registry=registry, clock=SystemClock())
    ObjectMeters(registry)
    CompactionMeters(registry)
    registry.register(RequestMetrics(tmp_path))
    registry.register(GcStates({}, by_repository=True))
    page = (DOCS / "operations.md").read_text(encoding="utf-8")
    names = {
        f"{metric.name}_total" if metric.type == "counter" else metric.name for metric in registry.collect()
    }
    assert len(names) > 20
    assert {name for name in names if not re.search(rf"`{name}[`{{]", page)} == set()
    told = set(re.findall(r"^\| `(lakebed_\w+)", page, re.MULTILINE))
    assert told <= names


@pytest.mark.server
def test_an_embedded_server_shows_metrics_of_its_database_its_storage_and_garbage_collection(
    server: ServerProcess,
) -> None:
    with Client(server.endpoint, server.access_key, server.secret_key) as client:
        repo = client.repo("metered")
        repo.create("local://metered")
        for number in range(130):
            repo.branch("main").write(f"a/{number}", "12345")
        started = repo.gc.begin("mark", holder="a test")
        repo.gc.end(started.run_id, started.token, outcome="failed")
    text = urllib.request.urlopen(f"{server.endpoint}/metrics", timeout=30).read().decode()

    def value(name: str) -> float:
        return sum(float(line.rpartition(" ")[2]) for line in text.splitlines() if line.startswith(name))

    assert value('lakebed_kv_calls_total{operation="set_rows",outcome="any"}') >= 65
    assert value('lakebed_kv_seconds_count{operation="set_rows"}') >= 2
    assert value('lakebed_objects_calls_total{operation="put",outcome="any"}') >= 65
    assert value('lakebed_gc_runs_failed{kind="mark",repository="*"}') == 1
    assert "metered" not in text, "names of repositories are not for everyone"


@pytest.mark.server
def test_a_copy_of_the_embedded_database_beside_a_running_server_is_a_backup(
    server: ServerProcess, tmp_path: Path
) -> None:
    with Client(server.endpoint, server.access_key, server.secret_key) as client:
        repo = client.repo("kept")
        repo.create("local://kept")
        repo.branch("main").write("a", "1")
        data = server.folder / "data"
        subprocess.run(
            [sys.executable, "-m", "lmdb", "copy", "-e", str(data / "kv"), str(tmp_path / "kv")],
            check=True,
            capture_output=True,
        )
        repo.branch("main").write("later", "2")
    restored = tmp_path / "data"
    restored.mkdir()
    for name in ("VERSION", "installation.key", "objects"):
        source = data / name
        (shutil.copytree if source.is_dir() else shutil.copy)(source, restored / name)
    (tmp_path / "kv").rename(restored / "kv")
    with (
        running_server(tmp_path, environment={"LAKEBED_COMPACTION": "off"}) as again,
        Client(again.endpoint, again.access_key, again.secret_key) as client,
    ):
        client.repo("kept").compaction.raise_epoch()
        assert [each.path for each in client.repo("kept").branch("main").objects()] == ["a"]
        assert client.repo("kept").branch("main").read("a") == b"1"
