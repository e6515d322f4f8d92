"""Real compactors killed, frozen and without space: nothing acknowledged is lost, nothing is installed twice."""

import asyncio
import signal
from pathlib import Path

import psutil
import pytest

from lakebed.testing.postgres import PostgresServer
from lakebed.testing.server_process import running_server
from tests.server.backlog import (
    REPO,
    Backlog,
    check,
    compactor,
    compactor_of,
    ended,
    frozen_at_work,
    is_drained,
    jobs,
    listed,
    make_backlog,
    running_l2,
    wait_until,
)
from tests.server.http import PATIENCE_SECONDS, Http
from tests.server.small_disk import on_small_disk

pytestmark = pytest.mark.server


@pytest.fixture(scope="module")
def untouched(tmp_path_factory: pytest.TempPathFactory) -> Backlog:
    return asyncio.run(make_backlog(tmp_path_factory.mktemp("backlog")))


@pytest.fixture
def backlog(untouched: Backlog, tmp_path: Path) -> Backlog:
    return untouched.copied_to(tmp_path)


@pytest.mark.parametrize("victims", ["compactor", "supervisor", "everybody"])
async def test_processes_killed_in_the_middle_of_a_job_lose_nothing(backlog: Backlog, victims: str) -> None:
    environment = {**backlog.environment, "LAKEBED_COMPACTION": "on"}
    with running_server(backlog.folder, environment=environment) as server:
        http = Http(server)
        # The compactor must not finish before the test has found it.
        assert http("POST", f"{REPO}/compaction/pause")[0] == 204
        backlog.model.write(http, "live/before")
        working = compactor_of(server)
        assert http("POST", f"{REPO}/compaction/resume")[0] == 204
        frozen_at_work(http, working.pid)
        backlog.model.write(http, "live/meanwhile")
        backlog.model.delete(http, "live/before")
        everybody = psutil.Process(server.process.pid).children(recursive=True)
        if victims == "compactor":
            working.kill()
            wait_until(lambda: is_drained(http), "drained by the next compactor")
            assert compactor_of(server).pid != working.pid
        else:
            server.process.kill()
            for each in everybody if victims == "everybody" else [working]:
                each.send_signal(signal.SIGKILL if victims == "everybody" else signal.SIGCONT)
            _, alive = psutil.wait_procs(everybody, timeout=PATIENCE_SECONDS)
            assert not alive
    if victims != "compactor":
        with running_server(backlog.folder, environment=environment) as again:
            http = Http(again)
            wait_until(lambda: is_drained(http), "drained after the restart")
            backlog.model.write(http, "live/after")
            assert listed(again, "main") == backlog.model.paths["main"]
    await check(backlog)


async def test_a_compactor_frozen_past_its_lease_installs_nothing_when_it_wakes_up(backlog: Backlog) -> None:
    environment = {**backlog.environment, "LAKEBED_COMPACTION": "off"}
    with running_server(backlog.folder, environment=environment) as server:
        http = Http(server)
        with compactor(backlog, "frozen") as frozen:
            lost = frozen_at_work(http, frozen.pid)
            backlog.model.write(http, "live/meanwhile")
            with compactor(backlog, "quick") as quick:
                again = wait_until(lambda: taken_over(http, lost["worker"]), "taken over")
                assert again["id"] == lost["id"]
                wait_until(lambda: is_drained(http), "drained by the other")
                done = ended(backlog, "quick")
                frozen.send_signal(signal.SIGCONT)
                said = wait_until(
                    lambda: [line for line in ended(backlog, "frozen") if lost["id"] in line],
                    "what was frozen notices",
                )
                assert all("outcome=lost" in line or "outcome=released" in line for line in said)
                assert sum(lost["id"] in line and "outcome=done" in line for line in done) == 1
                quick.send_signal(signal.SIGTERM)
                assert quick.wait(PATIENCE_SECONDS) == 0
            # It is as good as before: what comes next it does alone.
            backlog.model.delete(http, *(f"new/{n:06}" for n in range(3000)))
            wait_until(lambda: not is_staged(http), "sealed and merged by the one that was frozen")
            wait_until(lambda: is_drained(http), "drained by the one that was frozen")
        assert listed(server, "main") == backlog.model.paths["main"]
    await check(backlog)


async def test_a_disk_that_is_full_postpones_jobs_until_there_is_space_again(backlog: Backlog) -> None:
    environment = {**backlog.environment, "LAKEBED_COMPACTION": "off"}
    with (
        on_small_disk(backlog.config.data / "objects") as disk,
        running_server(backlog.folder, environment=environment, within=disk.within) as server,
    ):
        http = Http(server)
        disk.fill()
        with compactor(backlog, within=disk.within):
            waiting = wait_until(lambda: next((job for job in jobs(http) if job["error"]), None), "an error")
            assert "is full" in waiting["error"]
            backlog.model.delete(http, "new/000001")
            assert listed(server, "main") == backlog.model.paths["main"]
            assert all(job["state"] != "parked" and job["failures"] == 0 for job in jobs(http))
            disk.empty()
            wait_until(lambda: is_drained(http), "drained once there is space")
        assert listed(server, "main") == backlog.model.paths["main"]
    await check(backlog)


@pytest.mark.xdist_group("postgres")
async def test_two_compactors_share_the_jobs_of_one_postgres_and_do_each_once(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    url = postgres.create_database("compactors")
    backlog = await make_backlog(tmp_path, kv_url=url, sides=("side", "side-2", "side-3", "side-4"))
    environment = {**backlog.environment, "LAKEBED_COMPACTION": "off"}
    with running_server(backlog.folder, environment=environment) as server:
        http = Http(server)
        with compactor(backlog, "one") as one:
            # It stands still with a job in its hands: what the other one does meanwhile it cannot have done.
            frozen_at_work(http, one.pid)
            with compactor(backlog, "two"):
                wait_until(lambda: ended(backlog, "two"), "a job done by the other")
                one.send_signal(signal.SIGCONT)
                wait_until(lambda: is_drained(http), "drained by both")
                wait_until(lambda: ended(backlog, "one"), "what stood still has ended its job")
        assert listed(server, "main") == backlog.model.paths["main"]
    done = [line for name in ("one", "two") for line in ended(backlog, name) if "outcome=done" in line]
    assert len(done) == 5
    await check(backlog)


def taken_over(http: Http, worker: str) -> dict[str, object] | None:
    job = running_l2(http)
    return job if job is not None and job["worker"] != worker else None


def is_staged(http: Http) -> bool:
    _, main = http("GET", "/repositories/shop/branches/main/compaction")
    return bool(main["staging"])
