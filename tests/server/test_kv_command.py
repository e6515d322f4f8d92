"""`lakebed kv`: an installation on a laptop becomes one of a team, and back."""

import asyncio
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from lakebed.client.client import Client
from lakebed.errors import InvalidInputError, UnavailableError
from lakebed.kv.copying import COPY_PARTITION, Record
from lakebed.kv.drivers.lmdb import LmdbKV
from lakebed.kv.port import Row
from lakebed.limits import COPY_PAGE_ROWS
from lakebed.testing.postgres import PostgresServer
from lakebed.testing.server_process import ServerProcess, running_server
from tests.server.test_setup import Run, run

__all__ = ["run"]

POSTGRES = [pytest.mark.server, pytest.mark.xdist_group("postgres")]


def client_of(server: ServerProcess) -> Client:
    return Client(server.endpoint, server.access_key, server.secret_key)


@pytest.mark.server
@pytest.mark.xdist_group("postgres")
def test_an_installation_moves_to_postgresql_and_back_with_all_that_is_in_it(
    run: Run, tmp_path: Path, postgres: PostgresServer
) -> None:
    url, data = postgres.create_database("team"), tmp_path / "data"
    with running_server(tmp_path) as server, client_of(server) as client:
        repo = client.repo("books")
        repo.create("local://books")
        repo.branch("main").write("a", "1")
        repo.branch("main").commit("one")
        repo.branch("main").write("staged", "2")
        stash = repo.branch("main").stash("later")
        with pytest.raises(UnavailableError, match="another lakebed serves"):
            run("kv", "copy", data, url)

    said = run("kv", "copy", data, url)
    assert "copied and compared" in said
    assert "local://books" in said

    with (
        running_server(tmp_path, environment={"LAKEBED_DATABASE": url}) as server,
        client_of(server) as client,
    ):
        repo = client.repo("books")
        assert repo.branch("main").read("a") == b"1"
        assert [each.id for each in repo.stashes()] == [stash.id]
        repo.pop_stash(stash.id)
        assert repo.branch("main").read("staged") == b"2"
        repo.branch("main").commit("two")
        with pytest.raises(UnavailableError, match="source is in use"):
            run("kv", "copy", url, tmp_path / "back")

    with pytest.raises(InvalidInputError, match="was copied to postgresql://"):
        run("setup", "--data", data)
    assert "compared" in run("kv", "copy", url, tmp_path / "back")
    (tmp_path / "back" / "installation.key").write_bytes((data / "installation.key").read_bytes())
    (data / "objects").rename(tmp_path / "objects")
    (tmp_path / "back" / "objects").rmdir()
    (tmp_path / "objects").rename(tmp_path / "back" / "objects")
    flags = ("--data", str(tmp_path / "back"))
    with running_server(tmp_path, flags=flags) as server, client_of(server) as client:
        assert [each.message for each in client.repo("books").branch("main").log()][:2] == ["two", "one"]


# Kills the process just before a store is called so for the nth time.
DYING = """
import os, signal, sys
from lakebed.cli.main import main
from lakebed.kv.drivers.lmdb import LmdbKV

method, left = sys.argv.pop(1), int(sys.argv.pop(1))
whole = getattr(LmdbKV, method)

async def dying(*args, **kwargs):
    global left
    left -= 1
    if not left:
        os.kill(os.getpid(), signal.SIGKILL)
    return await whole(*args, **kwargs)

setattr(LmdbKV, method, dying)
main()
"""


@pytest.mark.server
def test_a_copy_that_is_killed_is_finished_by_the_same_command(run: Run, tmp_path: Path) -> None:
    source, target = tmp_path / "one", tmp_path / "two"
    asyncio.run(_fill(source, 3 * COPY_PAGE_ROWS))
    command = ["kv", "copy", f"lmdb://{source}", f"lmdb://{target}"]
    # Each goes on where the one before was killed.
    for method, nth, step in (
        ("swap", 1, "before the claim"),
        ("swap", 2, "claimed"),
        ("raise_version", 1, "begun"),
        ("load", 1, "raised"),
        ("swap", 1, "a batch is written, and not noted"),
        ("load", 2, "a batch is noted"),
        ("delete_rows", 1, "done, and not open"),
    ):
        killed = subprocess.run(
            [sys.executable, "-c", DYING, method, str(nth), *command],
            capture_output=True,
            check=False,
            timeout=120,
        )
        assert killed.returncode == -signal.SIGKILL, (step, killed.stderr)
        assert not asyncio.run(_is_whole(source, target)), step
    run(*command)
    assert asyncio.run(_is_whole(source, target))


def test_shared_settings_are_shown_and_replaced(run: Run, tmp_path: Path) -> None:
    run("setup", "--data", tmp_path)
    assert "grace_seconds = 900\n" in run("kv", "settings", "--data", tmp_path)
    changed = {"LAKEBED_GRACE_SECONDS": "1800"}
    with pytest.raises(InvalidInputError, match="grace_seconds is 1800 here and 900 in the database"):
        run("setup", "--data", tmp_path, **changed)
    assert "(this configuration: 1800)" in run("kv", "settings", "--data", tmp_path, **changed)
    assert "grace_seconds = 1800\n" in run("kv", "settings", "--replace", "--data", tmp_path, **changed)
    with pytest.raises(InvalidInputError, match="grace_seconds is 900 here and 1800"):
        run("setup", "--data", tmp_path)


def test_a_database_is_released_when_its_copy_is_gone(run: Run, tmp_path: Path) -> None:
    run("setup", "--data", tmp_path / "one")
    run("kv", "copy", tmp_path / "one", tmp_path / "two")
    with pytest.raises(InvalidInputError, match="was copied to"):
        run("kv", "copy", tmp_path / "one", tmp_path / "three")
    assert "may use it again" in run("kv", "release", tmp_path / "one")
    assert "nothing to release" in run("kv", "release", tmp_path / "one")
    run("kv", "copy", tmp_path / "one", tmp_path / "three")


def test_a_folder_that_is_none_of_ours_and_a_copy_onto_itself_are_refused(run: Run, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "file").touch()
    run("setup", "--data", tmp_path / "one")
    with pytest.raises(InvalidInputError, match="there is no database in"):
        run("kv", "copy", tmp_path / "mine", tmp_path / "two")
    with pytest.raises(InvalidInputError, match="no data folder"):
        run("kv", "copy", tmp_path / "one", tmp_path / "mine")
    with pytest.raises(InvalidInputError, match="same database"):
        run("kv", "copy", tmp_path / "one", tmp_path / "one")
    with pytest.raises(InvalidInputError, match="no data folder"):
        run("kv", "settings", "--data", tmp_path / "mine")


async def _fill(folder: Path, rows: int) -> None:
    kv = LmdbKV(folder)
    for at in range(0, rows, COPY_PAGE_ROWS):
        await kv.set_rows("p", [Row(b"%08d" % i, b"v" * 50) for i in range(at, at + COPY_PAGE_ROWS)])
    await kv.close()


async def _is_whole(one: Path, two: Path) -> bool:
    found: list[list[Record]] = []
    for folder in (one, two):
        kv = LmdbKV(folder)
        found.append([r async for page in kv.records() for r in page if r.partition != COPY_PARTITION])
        unfinished = await kv.get(COPY_PARTITION, b"state") is not None
        await kv.close()
    return found[0] == found[1] and not unfinished


def test_a_copy_of_a_database_that_is_not_there_is_refused_and_creates_nothing(
    run: Run, tmp_path: Path
) -> None:
    with pytest.raises(InvalidInputError, match="there is no database in"):
        run("kv", "copy", tmp_path / "mistyped", tmp_path / "target")
    with pytest.raises(InvalidInputError, match="there is no database in"):
        run("kv", "release", tmp_path / "mistyped")
    assert list(tmp_path.iterdir()) == []


def test_a_copy_of_an_empty_database_is_refused(run: Run, tmp_path: Path) -> None:
    asyncio.run(_fill(tmp_path / "one", 0))
    with pytest.raises(InvalidInputError, match="is empty"):
        run("kv", "copy", f"lmdb://{tmp_path / 'one'}", tmp_path / "two")
