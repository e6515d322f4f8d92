"""Two processes on one installation: each sees what the other did, and neither undoes it."""

import asyncio
import json
from collections import Counter
from pathlib import Path

from lakebed.env.clock import after
from lakebed.kv.drivers.lmdb import LmdbKV
from lakebed.limits import GRACE_SECONDS
from lakebed.refs.log import LogQuery
from lakebed.testing.kill import Victim
from lakebed.testing.site import Site, local_settings
from tests.engine.peer import write_and_commit

PEER = Path(__file__).with_name("peer.py")


async def test_two_processes_write_and_commit_to_one_branch_and_lose_nothing(
    tmp_path: Path, lmdb: LmdbKV
) -> None:
    site = Site(tmp_path, "local://", local_settings(tmp_path), kv=lmdb)
    async with site.lake() as lake:
        with Victim(PEER, str(tmp_path)) as peer:
            peer.begin("write-and-commit")
            assert peer.read() == "ready"
            ours = await write_and_commit(lake, "own", writers=10, each=15)
            said = await asyncio.get_running_loop().run_in_executor(None, peer.read)
            assert said is not None, "the other process failed"
            theirs = json.loads(said)
            assert peer.wait() == 0

        assert sorted(await lake.show("main")) == sorted([*ours["paths"], *theirs["paths"]])
        log = (await lake.catalog.commits.log("lake", "main", LogQuery(amount=100_000))).results
        made = Counter(commit.id for commit in log if commit.parents)
        assert made == Counter([*ours["commits"], *theirs["commits"]])
        assert ours["commits"]
        assert theirs["commits"]


async def test_a_recreated_repository_never_meets_what_another_process_writes_to_the_old_one(
    tmp_path: Path, lmdb: LmdbKV
) -> None:
    site = Site(tmp_path, "local://", local_settings(tmp_path), kv=lmdb)
    async with site.lake() as lake:
        uids = [lake.repo.uid]
        said: Counter[str] = Counter()
        with Victim(PEER, str(tmp_path)) as peer:
            peer.begin("write-to-whatever-is-there")
            for turn in range(6):
                while said[uids[-1]] < 30:
                    line = peer.read()
                    assert line is not None, "the other process failed"
                    said[line] += 1
                await lake.catalog.repositories.delete("lake", delete_data=True)
                again = await lake.catalog.repositories.create("lake", f"local://lake-{turn}")
                uids.append(again.uid)
                now = after(await lake.kv.now(), 2 * GRACE_SECONDS)
                await lake.cleaner.clean_once(now)
                shown = await lake.show("main")
                assert set(shown.values()) <= {again.uid}, "what lies here was written for another repository"
            said.update(peer.kill())

        # A write of the killed process that was under way may show only now: LMDB tells readers of it with our next one.
        await lake.commit("main")
        shown = await lake.show("main@")
        assert set(shown.values()) == {uids[-1]}
        assert await lake.show("main") == shown
