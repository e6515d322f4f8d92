"""`kill -9` at any moment during writes and commits: what was acknowledged is there after a restart."""

import hashlib
import json
import random  # noqa: TID251  a seed decides when to kill
import time
from contextlib import ExitStack
from pathlib import Path

from lakebed.refs.log import LogQuery
from lakebed.server.installation import open_installation
from lakebed.server.wiring import Wired
from lakebed.testing.kill import Victim
from tests.crash.child import config
from tests.crash.history import History

CHILD = Path(__file__).with_name("child.py")
ROUNDS = 15
# A kill leaves an unfinished commit behind, which holds one of a branch's few places for a minute.
BRANCHES = ("main", "b1", "b2", "b3")


async def test_every_acknowledged_write_and_commit_survives_kill_9_many_times(tmp_path: Path) -> None:
    chance = random.Random(9)
    histories = {branch: History() for branch in BRANCHES}
    tagged: set[str] = set()
    async with open_installation(config(tmp_path)) as wired:
        await wired.catalog.repositories.create("lake", "local://lake")
        for branch in BRANCHES[1:]:
            await wired.catalog.branches.create("lake", branch, "main")

    with ExitStack() as stack:
        waiting = stack.enter_context(Victim(CHILD))
        for life in range(ROUNDS):
            victim, waiting = waiting, stack.enter_context(Victim(CHILD))
            busy = chance.sample(BRANCHES, 2)
            victim.begin(json.dumps([str(tmp_path), f"life-{life}", busy]))
            said = hear(victim, events=chance.randrange(1, 250), commits=chance.randrange(1, 4))
            time.sleep(chance.random() * 0.02)
            said += victim.kill()
            for line in said:
                listen(histories, tagged, json.loads(line))

            async with open_installation(config(tmp_path)) as wired:
                for branch in busy:
                    await check(wired, branch, histories[branch])
                tags = await wired.catalog.tags.list("lake", amount=1_000_000)
                named = {tag.name: tag.commit_id for tag in tags.results}
                assert all(named[f"of-{commit_id}"] == commit_id for commit_id in tagged)

    assert sum(history.writes for history in histories.values()) > 10 * ROUNDS
    assert sum(len(history.commits) for history in histories.values()) >= ROUNDS


def hear(victim: Victim, *, events: int, commits: int) -> list[str | None]:
    """Listen until it has said so much: a life is as long as what was done in it, however slow the machine."""
    said: list[str | None] = []
    while len(said) < events or commits > 0:
        line = victim.read()
        assert line is not None, "it was to be killed, not to end by itself"
        commits -= json.loads(line)[0] == "committed"
        said.append(line)
    return said


def listen(histories: dict[str, History], tagged: set[str], line: list) -> None:
    event, branch, operation, detail = line
    history = histories[branch]
    match event:
        case "write":
            history.write_begins(operation, detail)
        case "written" | "not-written":
            assert detail != "outcome-unknown", "nothing was lost on the way"
            history.write_ends(operation, acknowledged=event == "written")
        case "commit":
            history.commit_begins(operation)
        case "committed" | "not-committed":
            assert event == "committed" or detail == "no-changes"
            history.commit_ends(operation, detail if event == "committed" else None)
        case "tagged":
            tagged.add(detail)


async def check(wired: Wired, branch: str, history: History) -> None:
    shown = await checksums(wired, branch)
    for path, checksum in shown.items():
        _, chunks = await wired.catalog.objects.read("lake", branch, path)
        data = b"".join([chunk async for chunk in chunks])
        assert hashlib.md5(data).hexdigest() == checksum, f"the bytes of {path} are not those of its entry"
    history.check_branch(shown)

    log = (await wired.catalog.commits.log("lake", branch, LogQuery(amount=1_000_000))).results
    made = [(commit.id, commit.message) for commit in log if commit.parents]
    for commit_id in history.check_log(made):
        history.check_commit(commit_id, await checksums(wired, commit_id))


async def checksums(wired: Wired, ref: str) -> dict[str, str]:
    rows = (await wired.catalog.objects.list("lake", ref, amount=1000)).rows
    return dict(zip(rows.column("key").to_pylist(), rows.column("checksum").to_pylist(), strict=True))
