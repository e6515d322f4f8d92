"""A database is lost, its storage is there: a new installation takes the repository over. Real servers, real stores."""

import asyncio
import shutil
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from lakebed.client.client import Client
from lakebed.client.repo import Repo
from lakebed.env.work import InlineWorkers
from lakebed.errors import ErrorKind, FencedError, PreconditionError
from lakebed.objects.open import open_store
from lakebed.objects.settings import StoreSettings
from lakebed.refs.dump_files import list_dumps, open_dump
from lakebed.testing.postgres import PostgresServer
from lakebed.testing.s3_server import make_bucket
from lakebed.testing.server_process import ServerProcess, running_server

pytestmark = pytest.mark.server

# Often, so that nobody has to wait for it.
OFTEN = {
    "LAKEBED_MAINTENANCE_SECONDS": "1",
    "LAKEBED_REFS_DUMP_SECONDS": "1",
    "LAKEBED_REFS_OWNER_SECONDS": "1",
}


@pytest.fixture(scope="session")
def s3(weed: StoreSettings) -> StoreSettings:
    make_bucket(weed, "lakes")
    return weed


def client_of(server: ServerProcess) -> Client:
    return Client(server.endpoint, server.access_key, server.secret_key)


def fill(repo: Repo) -> str:
    """Commit, tag and branch; leave something uncommitted. Return the last commit."""
    main = repo.branch("main")
    for number in range(3):
        main.write(f"a/{number}", str(number))
        head = main.commit(f"commit {number}").id
    repo.tag("v1").create("main~1")
    repo.branch("dev").create("main")
    main.write("uncommitted", "lost")
    return head


def check(repo: Repo, head: str) -> None:
    assert repo.branch("main").head().id == head
    assert [each.path for each in repo.ref("main").objects("")] == ["a/0", "a/1", "a/2"]
    assert repo.ref("main").read("a/2") == b"2"
    assert [each.path for each in repo.ref("v1").objects("")] == ["a/0", "a/1"]
    assert sorted(each.id for each in repo.branches()) == ["dev", "main"]


def eventually(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.05)


def is_dumped(namespace: str, settings: StoreSettings, head: str) -> bool:
    """Whether the newest dump in a namespace has both branches on a commit."""

    async def look() -> bool:
        store = open_store(namespace, settings)
        try:
            dumps = await list_dumps(store)
            if not dumps:
                return False
            heads = (await open_dump(store, dumps[-1], InlineWorkers())).heads
            return [branch.commit_id for branch in heads.branches] == [head, head] and len(heads.tags) == 1
        finally:
            await store.close()

    return asyncio.run(look())


@pytest.mark.xdist_group("postgres")
def test_postgres_and_s3_while_the_old_server_still_runs(
    postgres: PostgresServer, s3: StoreSettings, tmp_path: Path
) -> None:
    def environment(database: str) -> dict[str, str]:
        return {
            **OFTEN,
            "LAKEBED_DATABASE": postgres.create_database(database),
            "LAKEBED_STORAGE_S3_ENDPOINT": s3.s3_endpoint or "",
            "LAKEBED_STORAGE_S3_ACCESS_KEY_ID": s3.s3_access_key_id or "",
            "LAKEBED_STORAGE_S3_SECRET_ACCESS_KEY": s3.s3_secret_access_key or "",
        }

    place = "s3://lakes/shop"
    with (
        running_server(tmp_path / "old", environment=environment("disaster_old")) as old_server,
        running_server(tmp_path / "new", environment=environment("disaster_new")) as new_server,
        closing(client_of(old_server)) as old,
        closing(client_of(new_server)) as new,
    ):
        before = old.repo("shop")
        before.create(place)
        head = fill(before)
        eventually(lambda: is_dumped(place, s3, head))
        sweep = before.gc.begin("sweep")

        result = new.adopt(place).wait()

        assert (result.repository, result.branches, result.tags, result.lost_refs) == ("shop", 2, 1, ())
        assert (result.generation, result.missing, result.orphans) == (1, 0, 1)
        after = new.repo("shop")
        check(after, head)
        (orphan,) = after.orphans()
        assert orphan.size_bytes == 4
        after.branch("main").write("b", "new")
        after.branch("main").commit("the new owner goes on")
        with pytest.raises(PreconditionError, match="adopted"):
            after.gc.begin("mark")
        # The old server's sweep loses its lease, and its repository turns read-only.
        with pytest.raises(FencedError) as caught:
            before.gc.renew(sweep.run_id, sweep.token)
        assert caught.value.kind is ErrorKind.REPO_TAKEN_OVER

        def is_read_only() -> bool:
            try:
                before.branch("main").write("late", "1")
            except FencedError as error:
                return error.kind is ErrorKind.REPO_TAKEN_OVER and "by repository shop" in str(error)
            return False

        eventually(is_read_only)
        assert before.ref("main").read("a/1") == b"1", "it can still be read"
        assert after.ref("main").read("b") == b"new"


def test_lmdb_and_local_files_after_the_data_folder_is_lost(tmp_path: Path) -> None:
    with (
        running_server(tmp_path / "old", environment=OFTEN) as server,
        closing(client_of(server)) as old,
    ):
        repo = old.repo("shop")
        repo.create("local://shop")
        head = fill(repo)
        objects = tmp_path / "old" / "data" / "objects" / "shop"
        anywhere = StoreSettings(local_roots=(tmp_path,))
        eventually(lambda: is_dumped(f"local://{objects}", anywhere, head))
    kept = tmp_path / "kept" / "shop"
    kept.parent.mkdir()
    shutil.move(objects, kept)
    shutil.rmtree(tmp_path / "old")

    roots = {**OFTEN, "LAKEBED_STORAGE_LOCAL_ROOTS": str(kept.parent)}
    with (
        running_server(tmp_path / "new", environment=roots) as server,
        closing(client_of(server)) as new,
    ):
        result = new.adopt(f"local://{kept}", name="again").wait()
        assert (result.repository, result.lost_refs, result.missing) == ("again", (), 0)
        check(new.repo("again"), head)
        new.repo("again").branch("dev").write("c", "goes on")
        assert new.repo("again").branch("dev").commit("after the disaster").id
        eventually(lambda: len(asyncio.run(_dumps(f"local://{kept}", anywhere))) > 1)


async def _dumps(namespace: str, settings: StoreSettings) -> set[str]:
    """Return the repositories that have dumps in a namespace."""
    store = open_store(namespace, settings)
    try:
        return {name.uid for name in await list_dumps(store)}
    finally:
        await store.close()
