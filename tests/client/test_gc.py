"""Garbage collection through the client, on a server process."""

from pathlib import Path

import pytest

from lakebed.client.repo import Repo
from lakebed.errors import ConflictError, ErrorKind, FencedError, NotFoundError
from lakebed.format.gc import COMMITS_FILE, ROOTS, UNCOMMITTED_FILE, decode_table

pytestmark = pytest.mark.server


def test_a_mark_from_begin_to_end(repo: Repo) -> None:
    main = repo.branch("main")
    main.write("a", "1")
    commit = main.commit("first")
    main.write("b", "2")
    started = repo.gc.begin("mark", holder="a test")
    assert started.storage.type == "local"
    root = Path(started.storage.url.removeprefix("local://"))
    page = repo.gc.prepare_uncommitted(started.run_id, started.token)
    assert page.continuation_token is None
    rows = decode_table(UNCOMMITTED_FILE, (root / page.key).read_bytes(), rows=page.rows)
    assert all((root / address).exists() for address in rows.column("address").to_pylist())
    prepared = repo.gc.prepare_commits(started.run_id, started.token)
    roots = ROOTS.open((root / prepared.roots).read_bytes())
    assert roots.uid == started.uid
    (file,) = roots.commits
    commits = decode_table(COMMITS_FILE, (root / file.key).read_bytes(), rows=file.rows)
    assert commit.id in commits.column("commit_id").to_pylist()
    assert repo.gc.renew(started.run_id, started.token).expires_at > started.now
    assert repo.gc.publish(started.run_id, started.token, "clean").run_id == started.run_id
    assert [mark.run_id for mark in repo.gc.runs().marks] == [started.run_id]
    repo.gc.withdraw_marks(started.run_id, started.token)
    assert repo.gc.runs().marks == []
    repo.gc.end(started.run_id, started.token, outcome="done")
    (run,) = repo.gc.runs().results
    assert (run.state, run.outcome) == ("ended", "done")
    assert repo.gc.run(started.run_id) == run


def test_a_lease_that_is_held_and_one_that_was_lost(repo: Repo) -> None:
    first = repo.gc.begin("mark", holder="one")
    with pytest.raises(ConflictError, match="of one is collecting") as held:
        repo.gc.begin("mark", holder="two")
    assert held.value.kind is ErrorKind.GC_RUNNING
    repo.gc.begin("mark", holder="two", takeover=True)
    with pytest.raises(FencedError):
        repo.gc.renew(first.run_id, first.token)
    with pytest.raises(FencedError):
        repo.gc.prepare_commits(first.run_id, first.token)
    with pytest.raises(FencedError):
        repo.gc.publish(first.run_id, first.token, "clean")
    with pytest.raises(FencedError):
        repo.gc.withdraw_marks(first.run_id, first.token)
    with pytest.raises(NotFoundError):
        repo.gc.run("none")
