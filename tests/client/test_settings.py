"""A repository's settings, tasks and policies through the client."""

import subprocess
import sys

import pytest

import lakebed
from lakebed.client.client import Client
from lakebed.client.replies import GcBranchRule, GcRules, Statement
from lakebed.client.repo import Repo
from lakebed.env.ids import SystemIds
from lakebed.errors import ConflictError, DeniedError, ErrorKind, InvalidInputError, NotFoundError


def test_the_client_is_found_at_the_top_and_costs_nothing_until_then() -> None:
    assert lakebed.Client is Client
    code = "import sys, lakebed, lakebed.format.ranges; sys.exit('httpx' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
    with pytest.raises(AttributeError):
        _ = lakebed.Server  # type: ignore[attr-defined]  that is the point


@pytest.mark.server
def test_retention_rules_are_set_read_and_removed(repo: Repo) -> None:
    assert repo.settings.gc_rules() is None

    repo.settings.set_gc_rules(21, branches={"main": 0})
    assert repo.settings.gc_rules() == GcRules(
        default_retention_days=21, branches=[GcBranchRule(branch_id="main", retention_days=0)]
    )

    repo.settings.delete_gc_rules()
    assert repo.settings.gc_rules() is None


@pytest.mark.server
def test_rules_of_a_repository_that_is_not_there_are_an_error(client: Client) -> None:
    with pytest.raises(NotFoundError):
        client.repo("no-such-repository").settings.gc_rules()


@pytest.mark.server
def test_a_protected_branch_takes_merges_only(repo: Repo) -> None:
    settings, main = repo.settings, repo.branch("main")
    settings.protect("main")
    settings.protect("main")
    settings.protect("release-*")
    assert settings.protected() == ["main", "release-*"]
    with pytest.raises(DeniedError):
        main.write("a", "1")

    settings.unprotect("main")
    main.write("a", "1")

    assert settings.protected() == ["release-*"]
    with pytest.raises(NotFoundError):
        settings.unprotect("main")
    settings.set_protected([])
    assert settings.protected() == []


@pytest.mark.server
def test_a_commit_is_started_and_waited_for(repo: Repo) -> None:
    main = repo.branch("main")
    main.write("a", "1")

    task = main.start_commit("In the background", metadata={"job": "7"})
    made = task.wait()

    assert (made.message, made.metadata) == ("In the background", {"job": "7"})
    assert main.head() == made
    assert task.status().completed
    with pytest.raises(InvalidInputError) as refused:
        main.start_commit("Nothing").wait()
    assert "no changes" in str(refused.value)


@pytest.mark.server
def test_a_merge_is_started_and_waited_for(repo: Repo) -> None:
    main, dev = repo.branch("main"), repo.branch("dev")
    dev.create("main")
    dev.write("a", "dev")
    dev.commit("Dev")

    merged = main.start_merge(dev, message="Take it").wait()
    assert main.head().id == merged
    assert main.read("a") == b"dev"

    for branch, text in ((main, "mine"), (dev, "theirs")):
        branch.write("a", text)
        branch.commit(text)
    with pytest.raises(ConflictError) as conflict:
        main.start_merge(dev).wait()
    assert conflict.value.kind is ErrorKind.MERGE_CONFLICT


@pytest.mark.server
def test_a_transaction_whose_branch_is_gone_raises_what_the_block_raised(repo: Repo) -> None:
    def fail() -> None:
        with repo.branch("main").transaction("Gone") as tx:
            tx.delete()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()


@pytest.mark.server
def test_a_policy_is_replaced(client: Client) -> None:
    name = f"policy-{SystemIds().token()}"
    allow = Statement(effect="allow", action=["fs:ReadObject"], resource="*")
    deny = Statement(effect="deny", action=["fs:ReadObject"], resource="*")
    client.auth.create_policy(name, [allow])

    client.auth.update_policy(name, [deny])

    assert client.auth.policy(name).statement == [deny]
    assert client.auth.user("admin").id == "admin"
    assert client.auth.group("Admins").id == "Admins"
