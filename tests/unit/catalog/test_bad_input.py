"""Bad input: each kind has one error, which says what to do next, and nothing changes."""

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, replace

import pytest

from lakebed.catalog.diffs import DiffQuery
from lakebed.catalog.objects import Attributes
from lakebed.env.clock import Instant
from lakebed.errors import (
    AlreadyExistsError,
    ConflictError,
    DeniedError,
    ErrorKind,
    InvalidInputError,
    LakebedError,
    NotFoundError,
    PreconditionError,
)
from lakebed.limits import METADATA_BYTES_MAX, PATH_BYTES_MAX
from lakebed.model.entries import Entry
from lakebed.model.ids import Path
from lakebed.model.repository import BranchProtection
from lakebed.objects.port import ByteRange
from lakebed.staging.conditions import IfAbsent, IfChecksum
from lakebed.testing.lake import COMMIT, Lake, open_lake
from lakebed.versioning.merge import MergeConflictError, MergeRequest

MERGE = MergeRequest(commit=COMMIT)
Kind = ErrorKind


@pytest.fixture
async def lake() -> AsyncIterator[Lake]:
    """`main` is clean with a merge as its HEAD, `dev` conflicts with it, `dirty` has something staged.

    `guarded` is protected; there are a tag `v1`, a stash and a read-only repository `frozen`.
    """
    async with open_lake() as lake:
        await lake.commit("main", a="1", b="1")
        for branch in ("dev", "side", "dirty", "guarded"):
            await lake.catalog.branches.create("lake", branch, "main")
        await lake.commit("dev", a="dev")
        await lake.commit("side", c="side")
        await lake.commit("main", a="main")
        await lake.catalog.diffs.merge("lake", "side", "main", MERGE)
        await lake.put("dirty", staged="yes")
        await lake.catalog.tags.create("lake", "v1", "main~1")
        rules = BranchProtection(rules={"guarded": ("staging_write", "commit")})
        await lake.catalog.repositories.set_branch_protection("lake", rules)
        await lake.catalog.repositories.create("frozen", "mem://frozen", read_only=True)
        yield lake


@dataclass(frozen=True)
class Case:
    """A call, the error it must raise, and what that must say."""

    call: Callable[[Lake], Awaitable[object]]
    error: type[LakebedError]
    kind: ErrorKind
    says: str = ""


def upload(
    path: str, branch: str = "main", repo: str = "lake", **options
) -> Callable[[Lake], Awaitable[object]]:
    return lambda lake: lake.catalog.objects.upload(repo, branch, path, b"data", **options)


def stage(address: str) -> Callable[[Lake], Awaitable[object]]:
    entry = Entry(path=Path("x"), address=address, checksum="c", size_bytes=1, mtime=Instant(1))
    return lambda lake: lake.catalog.objects.stage("lake", "main", [entry])


def merge(source: str, dest: str) -> Callable[[Lake], Awaitable[object]]:
    return lambda lake: lake.catalog.diffs.merge("lake", source, dest, MERGE)


async def read_bytes(lake: Lake, path: str, byte_range: ByteRange) -> None:
    _, chunks = await lake.catalog.objects.read("lake", "main", path, byte_range=byte_range)
    async for _ in chunks:
        pass


def names(kind: ErrorKind, says: str, make, *texts: str) -> dict[str, Case]:
    return {f"{kind}: {text[:20]!r}": Case(make(text), InvalidInputError, kind, says) for text in texts}


NAMES = {
    **names(
        Kind.INVALID_REPO_NAME,
        "3 to 63 characters",
        lambda text: lambda lake: lake.catalog.repositories.create(text, "mem://new"),
        *("", "ab", "Abc", "-abc", "a_bc", "a/bc", "äbc", "a" * 64, "abc\n"),
    ),
    **names(
        Kind.INVALID_BRANCH_NAME,
        "letters, digits",
        lambda text: lambda lake: lake.catalog.branches.create("lake", text, "main"),
        *("", "-a", "a/b", "a b", "a.b", "ä", "a\n", "a" * 256),
    ),
    **names(
        Kind.INVALID_TAG_NAME,
        "Git's rules",
        lambda text: lambda lake: lake.catalog.tags.create("lake", text, "main"),
        *(
            "",
            "a b",
            "a..b",
            "a/b",
            ".a",
            "-a",
            "a.",
            "a.lock",
            "@",
            "a@{b",
            "a~",
            "a\x7f",
            "ä" * 128,
            "\ud800",
        ),
    ),
    **names(
        Kind.INVALID_NAMESPACE,
        "",
        lambda text: lambda lake: lake.catalog.repositories.create("new", text),
        *("", "nonsense", "mem://", "mem:/x", "mem://a/../b", "mem://a//b", "mem://a/./b"),
    ),
    **names(
        Kind.INVALID_PATH,
        "",
        upload,
        *("", "a" * (PATH_BYTES_MAX + 1), "ü" * (PATH_BYTES_MAX // 2 + 1), "a\ud800"),
    ),
    **names(
        Kind.INVALID_REF,
        "",
        lambda text: lambda lake: lake.catalog.objects.stat("lake", text, "a"),
        *("", "a b", "main~x", "main@~1", "main~1$", "~1", "v1$", "v1@", "main~1@", "main~" + "9" * 19),
    ),
    "path of a delete": Case(
        lambda lake: lake.catalog.objects.delete("lake", "main", ["a", ""]),
        InvalidInputError,
        Kind.INVALID_PATH,
    ),
    "path of a copy": Case(
        lambda lake: lake.catalog.objects.copy("lake", "main", "", source_path="a"),
        InvalidInputError,
        Kind.INVALID_PATH,
    ),
}

UNKNOWN = {
    "repository": Case(upload("x", repo="nowhere"), NotFoundError, Kind.REPO_NOT_FOUND, "nowhere"),
    "branch": Case(upload("x", "nowhere"), NotFoundError, Kind.BRANCH_NOT_FOUND, "nowhere"),
    "branch to delete": Case(
        lambda lake: lake.catalog.branches.delete("lake", "nowhere"), NotFoundError, Kind.BRANCH_NOT_FOUND
    ),
    "branch to commit": Case(
        lambda lake: lake.catalog.commits.commit("lake", "nowhere", COMMIT),
        NotFoundError,
        Kind.BRANCH_NOT_FOUND,
    ),
    "branch to merge into": Case(merge("dev", "nowhere"), NotFoundError, Kind.BRANCH_NOT_FOUND),
    "branch to reset": Case(
        lambda lake: lake.catalog.branches.reset("lake", "nowhere"), NotFoundError, Kind.BRANCH_NOT_FOUND
    ),
    "tag": Case(lambda lake: lake.catalog.tags.delete("lake", "v9"), NotFoundError, Kind.TAG_NOT_FOUND, "v9"),
    "ref": Case(
        lambda lake: lake.catalog.objects.stat("lake", "nowhere", "a"),
        NotFoundError,
        Kind.REF_NOT_FOUND,
        "nowhere",
    ),
    "commit": Case(
        lambda lake: lake.catalog.branches.create("lake", "new", "0" * 64), NotFoundError, Kind.REF_NOT_FOUND
    ),
    "ancestor": Case(
        lambda lake: lake.catalog.branches.create("lake", "new", "main~9"),
        NotFoundError,
        Kind.REF_NOT_FOUND,
        "further than the first commit",
    ),
    "object": Case(
        lambda lake: lake.catalog.objects.stat("lake", "main", "nowhere"),
        NotFoundError,
        Kind.OBJECT_NOT_FOUND,
    ),
    "source of a copy": Case(
        lambda lake: lake.catalog.objects.copy("lake", "main", "x", source_path="nowhere"),
        NotFoundError,
        Kind.OBJECT_NOT_FOUND,
    ),
    "stash": Case(
        lambda lake: lake.catalog.stashes.pop("lake", "nowhere"),
        NotFoundError,
        Kind.STASH_NOT_FOUND,
        "stash list",
    ),
    "import": Case(
        lambda lake: lake.catalog.imports.status("lake", "main", "nowhere"),
        NotFoundError,
        Kind.TASK_NOT_FOUND,
    ),
    "tree": Case(
        lambda lake: lake.catalog.commits.commit("lake", "main", COMMIT, source_metarange="nowhere"),
        NotFoundError,
        Kind.KEY_NOT_FOUND,
    ),
}

TAKEN = {
    "repository": Case(
        lambda lake: lake.catalog.repositories.create("lake", "mem://new"),
        AlreadyExistsError,
        Kind.REPO_EXISTS,
    ),
    "branch": Case(
        lambda lake: lake.catalog.branches.create("lake", "dev", "main"),
        AlreadyExistsError,
        Kind.BRANCH_EXISTS,
    ),
    "branch by a tag": Case(
        lambda lake: lake.catalog.branches.create("lake", "v1", "main"), AlreadyExistsError, Kind.TAG_EXISTS
    ),
    "tag": Case(
        lambda lake: lake.catalog.tags.create("lake", "v1", "main"), AlreadyExistsError, Kind.TAG_EXISTS
    ),
    "tag by a branch": Case(
        lambda lake: lake.catalog.tags.create("lake", "dev", "main"), AlreadyExistsError, Kind.BRANCH_EXISTS
    ),
    **{
        f"namespace {namespace}": Case(
            lambda lake, namespace=namespace: lake.catalog.repositories.create("new", namespace),
            InvalidInputError,
            Kind.NAMESPACE_IN_USE,
            "in use",
        )
        for namespace in ("mem://lake", "mem://lake/", "mem://lake/below", "mem://lake/data/x")
    },
}

CONDITIONS = {
    "object that exists": Case(
        upload("a", condition=IfAbsent()), PreconditionError, Kind.CONDITION_FAILED, "exists already"
    ),
    "other checksum": Case(upload("a", condition=IfChecksum("0")), PreconditionError, Kind.CONDITION_FAILED),
    "checksum of nothing": Case(
        upload("nowhere", condition=IfChecksum("0")), PreconditionError, Kind.CONDITION_FAILED
    ),
    "delete of another checksum": Case(
        lambda lake: lake.catalog.objects.delete("lake", "main", ["a"], condition=IfChecksum("0")),
        PreconditionError,
        Kind.CONDITION_FAILED,
    ),
    "other protection rules": Case(
        lambda lake: lake.catalog.repositories.set_branch_protection(
            "lake", BranchProtection(), if_match="0"
        ),
        PreconditionError,
        Kind.CONDITION_FAILED,
        "read them again",
    ),
}

DENIED = {
    "delete of the default branch": Case(
        lambda lake: lake.catalog.branches.delete("lake", "main"), DeniedError, Kind.DEFAULT_BRANCH
    ),
    **{
        f"{what} on a protected branch": Case(
            call, DeniedError, Kind.PROTECTED_BRANCH, "write to another branch and merge it"
        )
        for what, call in {
            "upload": upload("x", "guarded"),
            "delete": lambda lake: lake.catalog.objects.delete("lake", "guarded", ["a"]),
            "copy": lambda lake: lake.catalog.objects.copy("lake", "guarded", "x", source_path="a"),
            "commit": lambda lake: lake.catalog.commits.commit("lake", "guarded", COMMIT),
            "reset": lambda lake: lake.catalog.branches.reset("lake", "guarded"),
            "reset of a prefix": lambda lake: lake.catalog.branches.reset_prefix("lake", "guarded", "a"),
            "hard reset": lambda lake: lake.catalog.branches.hard_reset("lake", "guarded", "main"),
            "stash": lambda lake: lake.catalog.stashes.create("lake", "guarded"),
        }.items()
    },
    **{
        f"{what} in a read-only repository": Case(call, DeniedError, Kind.READ_ONLY_REPO, "read-only")
        for what, call in {
            "upload": upload("x", repo="frozen"),
            "delete": lambda lake: lake.catalog.objects.delete("frozen", "main", ["a"]),
            "commit": lambda lake: lake.catalog.commits.commit("frozen", "main", COMMIT),
            "branch": lambda lake: lake.catalog.branches.create("frozen", "new", "main"),
            "tag": lambda lake: lake.catalog.tags.create("frozen", "new", "main"),
            "merge": lambda lake: lake.catalog.diffs.merge("frozen", "main", "main", MERGE),
            "reset": lambda lake: lake.catalog.branches.reset("frozen", "main"),
            "revert": lambda lake: lake.catalog.branches.revert("frozen", "main", "main", COMMIT),
            "stash": lambda lake: lake.catalog.stashes.create("frozen", "main"),
            "metadata": lambda lake: lake.catalog.repositories.set_metadata("frozen", {"a": "b"}),
            "protection": lambda lake: lake.catalog.repositories.set_branch_protection(
                "frozen", BranchProtection()
            ),
            "delete of it": lambda lake: lake.catalog.repositories.delete("frozen"),
        }.items()
    },
    "external address": Case(
        stage("local:///etc/passwd"), DeniedError, Kind.EXTERNAL_ADDRESS, "import prefix"
    ),
}

SENSELESS = {
    "merge into itself": Case(merge("main", "main"), InvalidInputError, Kind.INVALID_ARGUMENT, "itself"),
    "merge of what is there": Case(merge("side", "main"), InvalidInputError, Kind.NO_CHANGES),
    "merge into a dirty branch": Case(
        merge("dev", "dirty"), InvalidInputError, Kind.DIRTY_BRANCH, "commit or reset"
    ),
    "merge of what is staged": Case(merge("dirty$", "main"), InvalidInputError, Kind.NOT_A_COMMIT),
    "merge with conflicts": Case(
        merge("dev", "main"), MergeConflictError, Kind.MERGE_CONFLICT, "choose a strategy"
    ),
    "commit of nothing": Case(
        lambda lake: lake.catalog.commits.commit("lake", "main", COMMIT), InvalidInputError, Kind.NO_CHANGES
    ),
    "stash of nothing": Case(
        lambda lake: lake.catalog.stashes.create("lake", "main"), InvalidInputError, Kind.NO_CHANGES
    ),
    "hard reset of a dirty branch": Case(
        lambda lake: lake.catalog.branches.hard_reset("lake", "dirty", "main"),
        InvalidInputError,
        Kind.DIRTY_BRANCH,
        "commit or reset",
    ),
    "third parent of a ref": Case(
        lambda lake: lake.catalog.branches.create("lake", "new", "main^3"),
        InvalidInputError,
        Kind.PARENT_OUT_OF_RANGE,
        "2 parents",
    ),
    "third parent of a revert": Case(
        lambda lake: lake.catalog.branches.revert("lake", "main", "main", COMMIT, parent_number=3),
        InvalidInputError,
        Kind.PARENT_OUT_OF_RANGE,
    ),
    "negative parent of a cherry-pick": Case(
        lambda lake: lake.catalog.branches.cherry_pick("lake", "dev", "main", COMMIT, parent_number=-1),
        InvalidInputError,
        Kind.PARENT_OUT_OF_RANGE,
    ),
    "revert of a merge": Case(
        lambda lake: lake.catalog.branches.revert("lake", "main", "main", COMMIT),
        ConflictError,
        Kind.PARENT_NEEDED,
        "say which one",
    ),
    "tag on what is staged": Case(
        lambda lake: lake.catalog.tags.create("lake", "v2", "dirty$"), InvalidInputError, Kind.NOT_A_COMMIT
    ),
    "diff from what is staged": Case(
        lambda lake: lake.catalog.diffs.diff("lake", "main", "dirty$", DiffQuery()),
        InvalidInputError,
        Kind.NOT_A_COMMIT,
    ),
    "too much metadata": Case(
        upload("x", attributes=Attributes(metadata={"k": "v" * METADATA_BYTES_MAX})),
        InvalidInputError,
        Kind.TOO_LARGE,
    ),
    "address inside": Case(stage("data/a/b"), InvalidInputError, Kind.INVALID_ADDRESS),
    "address of nothing": Case(stage("local://"), InvalidInputError, Kind.INVALID_ADDRESS),
    "range past the end": Case(
        lambda lake: read_bytes(lake, "a", ByteRange(100)), InvalidInputError, Kind.RANGE_NOT_SATISFIABLE
    ),
    "empty protection pattern": Case(
        lambda lake: lake.catalog.repositories.set_branch_protection(
            "lake", BranchProtection(rules={"": ("commit",)})
        ),
        InvalidInputError,
        Kind.INVALID_ARGUMENT,
    ),
    "protection against nonsense": Case(
        lambda lake: lake.catalog.repositories.set_branch_protection(
            "lake", BranchProtection(rules={"x": ("nonsense",)})
        ),
        InvalidInputError,
        Kind.INVALID_ARGUMENT,
        "choose from",
    ),
}

TABLE = [
    pytest.param(case, id=f"{group}: {name}")
    for group, cases in (
        ("name", NAMES),
        ("unknown", UNKNOWN),
        ("taken", TAKEN),
        ("condition", CONDITIONS),
        ("denied", DENIED),
        ("senseless", SENSELESS),
    )
    for name, case in cases.items()
]


async def everything(lake: Lake) -> object:
    """What users see of all repositories."""
    seen = {}
    for repo in (await lake.catalog.repositories.list()).results:
        branches = (await lake.catalog.branches.list(repo.name)).results
        seen[repo.name] = (
            repo,
            {b.name: (b.commit_id, dict(b.pending), await shown(lake, repo.name, b.name)) for b in branches},
            (await lake.catalog.tags.list(repo.name)).results,
            await lake.catalog.stashes.list(repo.name),
            await lake.catalog.repositories.metadata(repo.name),
            await lake.catalog.repositories.branch_protection(repo.name),
        )
    return seen


async def shown(lake: Lake, repo: str, branch: str) -> list[tuple[str, str]]:
    rows = (await lake.catalog.objects.list(repo, branch, amount=1000)).rows
    return list(zip(rows.column("key").to_pylist(), rows.column("checksum").to_pylist(), strict=True))


@pytest.mark.parametrize("case", TABLE)
async def test_bad_input_is_refused_by_one_error_and_changes_nothing(lake: Lake, case: Case) -> None:
    before = await everything(lake)
    with pytest.raises(LakebedError) as caught:
        await case.call(lake)

    assert type(caught.value) is case.error
    assert caught.value.kind is case.kind
    assert case.says in str(caught.value)
    assert "\n" not in str(caught.value)
    assert await everything(lake) == before


async def test_a_beginning_of_more_than_one_commit_asks_for_more_characters(lake: Lake) -> None:
    commits = []
    while len({commit[0] for commit in commits}) == len(commits):
        commits.append(
            (await lake.catalog.commits.commit("lake", "main", replace(COMMIT, allow_empty=True))).id
        )
    shared = next(commit[0] for commit in commits[:-1] if commit[0] == commits[-1][0])

    with pytest.raises(NotFoundError) as caught:
        await lake.catalog.commits.get("lake", shared)
    assert caught.value.kind is ErrorKind.REF_NOT_FOUND
    assert "add characters" in str(caught.value)
    assert (await lake.catalog.commits.get("lake", commits[-1][:40])).id == commits[-1]


async def test_a_namespace_above_a_repository_is_in_use(lake: Lake) -> None:
    await lake.catalog.repositories.create("deep", "mem://host/a/b")
    with pytest.raises(InvalidInputError) as caught:
        await lake.catalog.repositories.create("above", "mem://host/a")
    assert caught.value.kind is ErrorKind.NAMESPACE_IN_USE
    await lake.catalog.repositories.create("beside", "mem://host/a/b2")


async def test_what_a_protected_branch_may_still_take(lake: Lake) -> None:
    await lake.catalog.diffs.merge("lake", "side", "guarded", MERGE)
    assert (await lake.show("guarded"))["c"] == "side"


async def test_a_read_only_repository_is_written_to_by_force(lake: Lake) -> None:
    await lake.catalog.objects.upload("frozen", "main", "a", b"1", force=True)
    await lake.catalog.commits.commit("frozen", "main", COMMIT, force=True)
    assert await shown(lake, "frozen", "main") != []
