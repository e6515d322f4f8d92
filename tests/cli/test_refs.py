"""`lakebed refs` against a real server."""

import json
import shutil
from pathlib import Path

import pytest

from lakebed.client.client import Client
from lakebed.client.repo import Repo
from lakebed.testing.server_process import ServerProcess
from tests.cli.test_commands import Run
from tests.cli.test_commands import run as run

pytestmark = pytest.mark.server


def copy_namespace(server: ServerProcess, repo: Repo, name: str) -> None:
    """Copy what a repository has stored, without whose it is."""
    objects = server.folder / "data" / "objects"
    for top in ("data", "_lakebed"):
        shutil.copytree(
            objects / repo.name / top, objects / name / top, ignore=shutil.ignore_patterns("owner-*")
        )


def test_refs_are_dumped_to_a_file_and_restored_elsewhere(
    run: Run, repo: Repo, client: Client, server: ServerProcess, tmp_path: Path
) -> None:
    repo.branch("main").write("a", "1")
    head = repo.branch("main").commit("one").id
    repo.tag("v1").create("main")
    said = run("refs", "dump", repo.name, "--to", tmp_path / "refs.json")
    assert said.code == 0, said.errors
    manifest = json.loads((tmp_path / "refs.json").read_text())
    assert set(manifest) == {"commits_meta_range_id", "branches_meta_range_id", "tags_meta_range_id"}

    copy = client.repo(f"{repo.name}-copy")
    copy_namespace(server, repo, copy.name)
    assert run("repo", "create", copy.name, f"local://{copy.name}", "--bare").code == 0
    restored = run("refs", "restore", copy.name, tmp_path / "refs.json", "--json")
    assert (restored.code, restored.json["branches"], restored.json["tags"]) == (0, 1, 1)
    assert restored.json["commits"] == restored.json["progress"] == 2
    assert copy.branch("main").head().id == head
    assert copy.ref("v1").read("a") == b"1"

    # Once more, by the manifest itself, over a branch that has moved on: it is reported, and nothing is overwritten.
    copy.branch("main").write("b", "2")
    moved = copy.branch("main").commit("two").id
    said = run("refs", "restore", copy.name, json.dumps(manifest))
    assert said.code == 1
    assert "main" in said.text
    assert "already exists" in said.text
    assert copy.branch("main").head().id == moved


def test_a_restore_says_what_is_wrong(run: Run, repo: Repo, tmp_path: Path) -> None:
    manifest = run("refs", "dump", repo.name).text
    said = run("refs", "restore", repo.name, manifest)
    assert said.code != 0
    assert "bare" in said.errors
    assert "No such file" in run("refs", "restore", repo.name, tmp_path / "none").errors
    (tmp_path / "odd").write_text("[]")
    assert "no manifest" in run("refs", "restore", repo.name, tmp_path / "odd").errors
