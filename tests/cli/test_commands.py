"""The command line against a real server, called as a person calls it."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from lakebed.cli.main import main
from lakebed.client.repo import Repo
from lakebed.env.ids import SystemIds
from lakebed.testing.server_process import ServerProcess

pytestmark = pytest.mark.server


@dataclass
class Said:
    code: int
    raw: bytes
    errors: str

    @property
    def text(self) -> str:
        return self.raw.decode()

    @property
    def json(self) -> Any:
        return json.loads(self.raw)


Run = Callable[..., Said]


@pytest.fixture
def run(
    server: ServerProcess, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> Run:
    """Calls `lakebed` with arguments."""
    for name, value in server.client_environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setenv("COLUMNS", "80")

    def call(*args: object) -> Said:
        monkeypatch.setattr("sys.argv", ["lakebed", *map(str, args)])
        capfdbinary.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        out, errors = capfdbinary.readouterr()
        return Said(int(ended.value.code or 0), out, errors.decode())

    return call


def test_a_day_with_a_lake(run: Run, tmp_path: Path) -> None:
    repo = f"cli-{SystemIds().token()}"
    (tmp_path / "a.csv").write_text("x,y\n")

    assert run("repo", "create", f"lakebed://{repo}", f"local://{repo}").code == 0
    assert run("fs", "upload", tmp_path / "a.csv", f"lakebed://{repo}/main/data/").code == 0
    assert run("diff", f"lakebed://{repo}/main").text == "+ data/a.csv\n"
    assert "Add a" in run("commit", f"{repo}/main", "-m", "Add a", "--meta", "by=me").text
    assert run("branch", "create", f"lakefs://{repo}/fix").code == 0
    assert run("fs", "rm", f"{repo}/fix/data/a.csv").code == 0
    assert run("commit", f"{repo}/fix", "-m", "Remove a").code == 0
    assert run("diff", f"{repo}/main", "fix").text == "- data/a.csv\n"
    assert "merged fix into main" in run("merge", f"{repo}/fix", "main").text
    assert run("fs", "ls", f"{repo}/main").text == ""
    assert run("tag", "create", f"{repo}/v1", "main~1").code == 0
    assert run("fs", "cat", f"lakebed://{repo}/v1/data/a.csv").raw == b"x,y\n"
    log = run("log", f"{repo}/main", "--json").json
    by_message = {commit["message"]: commit for commit in log}
    assert set(by_message) == {"Merge 'fix' into 'main'", "Remove a", "Add a", "Repository created"}
    assert by_message["Add a"]["metadata"] == {"by": "me"}
    assert repo in run("repo", "list").text
    assert run("repo", "delete", repo, "--yes").code == 0
    assert run("repo", "show", repo).code == 3


def test_a_folder_goes_up_and_down_and_only_once(run: Run, repo: Repo, tmp_path: Path) -> None:
    for i in range(30):
        file = tmp_path / "from" / f"d{i % 3}" / f"f{i}"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(bytes([i]) * i)
    there = f"lakebed://{repo.name}/main/in"

    first = run("fs", "upload", "-r", tmp_path / "from", there, "--json").json
    second = run("fs", "upload", "-r", tmp_path / "from", there, "--json").json
    down = run("fs", "download", "-r", there, tmp_path / "to", "--json").json

    assert (first["copied"], first["skipped"], first["bytes"]) == (30, 0, sum(range(30)))
    assert (second["copied"], second["skipped"]) == (0, 30)
    assert down["copied"] == 30
    assert (tmp_path / "to" / "d2" / "f29").read_bytes() == bytes([29]) * 29


def test_a_folder_of_which_one_file_fails_ends_with_1_and_says_which(
    run: Run, repo: Repo, tmp_path: Path
) -> None:
    repo.branch("main").write("ok", "")
    repo.branch("main").write("../bad", "")

    said = run("fs", "download", "-r", f"{repo.name}/main", tmp_path)

    assert said.code == 1
    assert "../bad" in said.errors
    assert (tmp_path / "ok").exists()


def test_listing_shows_folders_sizes_and_single_objects(run: Run, repo: Repo) -> None:
    repo.branch("main").write("a/1", "12345")
    repo.branch("main").write("b", "")

    lines = run("fs", "ls", f"{repo.name}/main").text.splitlines()
    assert [line.split()[-1] for line in lines] == ["a/", "b"]
    assert run("fs", "ls", f"{repo.name}/main/a").text.split()[:2] == ["5", "B"]
    assert [each["path"] for each in run("fs", "ls", "-r", f"{repo.name}/main", "--json").json] == [
        "a/1",
        "b",
    ]
    assert run("fs", "ls", f"{repo.name}/main/b", "--json").json[0]["path"] == "b"
    missing = run("fs", "ls", f"{repo.name}/main/nothing")
    assert (missing.code, "no folder 'nothing'" in missing.errors) == (3, True)


def test_objects_are_copied_described_and_deleted(run: Run, repo: Repo, tmp_path: Path) -> None:
    main = repo.branch("main")
    main.write("a/1", "one")
    main.write("a/2", "two")

    assert run("fs", "cp", f"{repo.name}/main/a/1", f"{repo.name}/main/c").code == 0
    copied = run("fs", "cp", "-r", f"{repo.name}/main/a", f"{repo.name}/main/b", "--json").json
    assert (copied["copied"], copied["skipped"], copied["failed"]) == (2, 0, 0)
    main.write("a/3", "three")
    assert run("fs", "cp", "-r", f"{repo.name}/main/a", f"{repo.name}/main/b", "--json").json["skipped"] == 2
    assert run("fs", "cp", f"{repo.name}/main/a/1", f"{repo.name}/main/d/", "--json").json["path"] == "d/1"
    assert run("fs", "stat", f"{repo.name}/main/b/2", "--json").json["size_bytes"] == 3
    assert "checksum" in run("fs", "stat", f"{repo.name}/main/c").text
    assert run("fs", "download", f"{repo.name}/main/b/2", tmp_path).code == 0
    assert (tmp_path / "2").read_text() == "two"
    assert run("fs", "rm", "-r", f"{repo.name}/main/a", "--json").json == {"deleted": 3}
    assert [info.path for info in main.objects()] == ["b/1", "b/2", "b/3", "c", "d/1"]
    assert run("fs", "rm", f"{repo.name}/main/a/1").code == 3


def test_branches_are_reset_reverted_picked_and_deleted(run: Run, repo: Repo) -> None:
    main, name = repo.branch("main"), repo.name
    main.write("a", "1")
    main.commit("Add a")
    main.write("b", "2")

    assert run("branch", "reset", f"{name}/main", "--path", "b", "--yes").code == 0
    assert list(main.uncommitted()) == []
    assert run("branch", "create", f"{name}/dev", "-s", "main~1").code == 0
    assert run("branch", "cherry-pick", f"{name}/dev", "main").code == 0
    assert repo.branch("dev").read("a") == b"1"
    assert run("branch", "revert", f"{name}/main", "main").code == 0
    assert list(main.objects()) == []
    listed = run("branch", "list", name, "--json").json
    assert [each["id"] for each in listed] == ["dev", "main"]
    assert run("branch", "show", f"{name}/dev").code == 0
    assert run("branch", "delete", f"{name}/dev", "-y").code == 0
    assert run("branch", "show", f"{name}/dev").code == 3


def test_a_conflict_says_how_to_go_on(run: Run, repo: Repo) -> None:
    main, dev = repo.branch("main"), repo.branch("dev")
    dev.create("main")
    for branch in (main, dev):
        branch.write("a", branch.name)
        branch.commit("Change a")

    said = run("merge", f"{repo.name}/dev", "main")

    assert said.code == 5
    assert "source-wins" in said.errors
    assert run("diff", f"{repo.name}/main", "dev").text == "x a\n"
    assert run("merge", f"{repo.name}/dev", "main", "--strategy", "source-wins").code == 0
    assert main.read("a") == b"dev"


def test_what_is_put_aside_comes_back(run: Run, repo: Repo) -> None:
    main = repo.branch("main")
    main.write("a", "1")

    stash = run("stash", "push", f"{repo.name}/main", "-m", "later", "--json").json
    assert list(main.uncommitted()) == []
    assert stash["id"] in run("stash", "list", repo.name).text
    assert run("stash", "pop", repo.name, stash["id"]).code == 0

    assert [change.path for change in main.uncommitted()] == ["a"]
    assert run("stash", "list", repo.name, "--json").json == []

    stash = run("stash", "push", f"{repo.name}/main", "--json").json
    assert run("stash", "drop", repo.name, stash["id"], "--yes").code == 0
    assert run("stash", "list", repo.name, "--json").json == []


def test_an_import_becomes_a_commit(run: Run, repo: Repo, server: ServerProcess) -> None:
    folder = server.imports / repo.name
    folder.mkdir()
    (folder / "x").write_text("x")

    said = run("import", f"local://{folder}/", f"{repo.name}/main/in/", "-m", "Bring it", "--json")

    assert said.json["message"] == "Bring it"
    assert repo.ref("main").read("in/x") == b"x"


def test_users_get_keys_groups_and_policies(run: Run, tmp_path: Path) -> None:
    user = f"user-{SystemIds().token()}"
    statement = {"effect": "allow", "action": ["fs:Read*"], "resource": "*"}
    (tmp_path / "policy.json").write_text(json.dumps({"statement": [statement]}))

    assert run("auth", "whoami").text == "admin\n"
    assert run("auth", "user", "create", user).code == 0
    assert run("auth", "policy", "create", f"{user}-policy", tmp_path / "policy.json").code == 0
    assert run("auth", "policy", "attach", f"{user}-policy", "user", user).code == 0
    assert run("auth", "group", "create", f"{user}-group").code == 0
    assert run("auth", "group", "add", f"{user}-group", user).code == 0
    key = run("auth", "key", "create", user, "--json").json
    assert key["secret_access_key"]
    shown = run("auth", "user", "show", user, "--json").json
    assert shown == {
        "id": user,
        "groups": [f"{user}-group"],
        "policies": [f"{user}-policy"],
        "access_keys": [key["access_key_id"]],
    }
    assert run("auth", "policy", "show", f"{user}-policy", "--json").json["statement"] == [statement]
    assert run("auth", "group", "members", f"{user}-group", "--json").json[0]["id"] == user
    assert user in run("auth", "user", "list").text
    assert run("auth", "key", "delete", user, key["access_key_id"], "-y").code == 0
    assert run("auth", "policy", "detach", f"{user}-policy", "user", user).code == 0
    assert run("auth", "group", "remove", f"{user}-group", user).code == 0
    assert run("auth", "user", "delete", user, "-y").code == 0
    assert run("auth", "group", "delete", f"{user}-group", "-y").code == 0
    assert run("auth", "policy", "delete", f"{user}-policy", "-y").code == 0


def test_the_doctor_finds_a_healthy_server_and_each_ailment(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run("doctor").code == 0

    monkeypatch.setenv("LAKEBED_SECRET_ACCESS_KEY", "wrong")
    said = run("doctor", "--json")
    assert (said.code, [each["ok"] for each in said.json][-1]) == (1, False)
    assert said.json[-1]["check"] == "access key"

    monkeypatch.setenv("LAKEBED_ENDPOINT", "http://127.0.0.1:1")
    said = run("doctor")
    assert (said.code, "lakebed run --quickstart" in said.text) == (1, True)

    for name in ("LAKEBED_ENDPOINT", "LAKEBED_ACCESS_KEY_ID", "LAKEBED_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", "/nowhere")
    assert run("doctor").code == 1
    assert "LAKEBED_ENDPOINT" in run("repo", "list").errors


def test_the_configuration_is_shown_without_its_secret(run: Run, server: ServerProcess) -> None:
    said = run("config")

    assert server.endpoint in said.text
    assert server.client_environment["LAKEBED_SECRET_ACCESS_KEY"] not in said.text


@pytest.mark.parametrize(
    ("args", "code"),
    [
        (("log", "no-such-repo/main"), 3),
        (("log", "s3://bucket/x"), 2),
        (("commit", "repo-only", "-m", "x"), 2),
        (("fs", "cat", "a/main"), 2),
        (("fs", "upload", "/no/such/file", "a/main/x"), 2),
        (("merge", "a/main", "lakebed://b/main"), 2),
        (("no-such-command",), 2),
    ],
)
def test_mistakes_are_told_on_standard_error_with_a_code(run: Run, args: tuple[str, ...], code: int) -> None:
    said = run(*args)

    assert (said.code, said.text) == (code, "")
    assert said.errors


def test_nothing_is_deleted_without_a_yes(run: Run, repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    with Path("/dev/null").open() as nothing:
        monkeypatch.setattr("sys.stdin", nothing)
        assert run("repo", "delete", repo.name).code != 0

    assert repo.info().id == repo.name


def test_data_goes_only_when_the_name_is_typed(
    run: Run, repo: Repo, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    repo.branch("main").write("a", "12345")
    for typed, ends_well in (("", False), ("yes", False), (f"{repo.name}x", False), (repo.name, True)):
        answer = tmp_path / "typed"
        answer.write_text(f"{typed}\n")
        with answer.open() as stdin:
            monkeypatch.setattr("sys.stdin", stdin)
            said = run("repo", "delete", repo.name, "--with-data")
        assert "1 objects and 1 files of its own" in said.errors, (
            "what is lost is said before it is asked for"
        )
        assert (said.code == 0) == ends_well, said
        assert "minutes" in said.text or not ends_well
    assert run("repo", "show", repo.name).code == 3


def test_a_place_is_purged_only_when_nobody_has_it(run: Run, repo: Repo) -> None:
    place = repo.info().storage_namespace
    said = run("repo", "purge", place, "--yes")
    assert said.code != 0
    assert "in use" in said.errors
    assert repo.info().storage_namespace == place


def test_every_command_has_help(run: Run) -> None:
    page = run("--help")

    assert page.code == 0
    for name in ("repo", "fs", "branch", "commit", "log", "diff", "merge", "tag", "stash", "auth", "doctor"):
        assert name in page.text
        assert run(name, "--help").code == 0


def test_branches_are_protected_and_data_is_kept_by_rules(run: Run, repo: Repo) -> None:
    name = f"lakebed://{repo.name}"
    assert run("repo", "protected", name).text == "No branch is protected.\n"
    assert run("repo", "protect", name, "main").code == 0
    assert run("repo", "protected", name, "--json").json == ["main"]
    assert run("commit", f"{name}/main", "-m", "Refused", "--allow-empty").code == 6
    assert run("repo", "unprotect", name, "main", "--json").json == {"pattern": "main", "protected": False}

    assert "everything is kept" in run("repo", "retention", name).text
    assert run("repo", "retention", name, "--days", 30, "--branch", "main=90").code == 0
    rules = run("repo", "retention", name, "--json").json
    assert rules == {"default_retention_days": 30, "branches": [{"branch_id": "main", "retention_days": 90}]}
    assert run("repo", "retention", name, "--branch", "main=1").code == 2
    assert run("repo", "retention", name, "--clear", "--json").json is None
