"""A deny in the middle of what a use case touches refuses it, whatever else allows it.

The table names every use case of the catalog. One that is given paths or prefixes is tried: the caller may do
everything, except one action on one place in the middle. All others are listed with what they ask for instead; a new use
case fails the first test until it is in the table.
"""

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final, get_type_hints

import pytest

from lakebed.auth.actions import Action
from lakebed.auth.arns import EVERYTHING, branch_arn, namespace_arn, object_arn, tag_arn
from lakebed.auth.caller import Caller
from lakebed.auth.decisions import Permissions
from lakebed.catalog.copies import CopySource, CopyTarget
from lakebed.catalog.links import Linked
from lakebed.catalog.multipart import Completed, UploadOf
from lakebed.catalog.multipart import CopySource as PartSource
from lakebed.catalog.objects import Attributes
from lakebed.catalog.part_uploads import UploadOf as PartUploadOf
from lakebed.catalog.session import Session, Sessions
from lakebed.env.clock import Instant
from lakebed.errors import ErrorKind, LakebedError
from lakebed.format.handed_in import segment_of
from lakebed.model.auth import Effect, Incarnation, Policy, PolicyId, Statement
from lakebed.model.entries import Entry
from lakebed.model.ids import Path
from lakebed.refs.dump import RefsDump
from lakebed.testing.lake import COMMIT, Lake, open_lake
from lakebed.versioning.importing import ImportKind, ImportPath
from tests.api.test_segments import deletions, linked, table

SECRET: Final = "a/secret/x"
"""What is denied lies here, below `a/`."""
SOURCE: Final = "s3://outside/in/secret/x"

Use = Callable[[Session, str], Awaitable[object]]
"""Tries a use case on a branch `main`; the text is the id of a stash that is there."""


@dataclass(frozen=True, slots=True)
class Tried:
    """A use case, and what it must not get past: any one of these denials is enough to refuse it."""

    use: Use
    denials: tuple[tuple[Action, str], ...]


WRITE: Final = ((Action.WRITE_OBJECT, object_arn("lake", "a/secret/*")),)
READ: Final = ((Action.READ_OBJECT, object_arn("lake", "a/secret/*")),)
DELETE: Final = ((Action.DELETE_OBJECT, object_arn("lake", "*secret*")),)
IMPORT: Final = ((Action.IMPORT_FROM_STORAGE, namespace_arn("s3://outside/in/secret/*")),)

REFS: Final = (
    (Action.CREATE_BRANCH, branch_arn("lake", "prod")),
    (Action.CREATE_COMMIT, branch_arn("lake", "prod")),
    (Action.CREATE_TAG, tag_arn("lake", "v*")),
)

BRANCH: Final = "a permission on the branch or tag: it changes all of it or none"
REPOSITORY: Final = "a permission on the repository: it shows or changes no content of objects"
LISTING: Final = "fs:ListObjects on the repository: names, sizes and addresses are no content"
FOUND: Final = "nothing: the caller hands in what a use case above has found for it"
NONE: Final = "nothing that has a path"


async def _chunks(data: bytes = b"") -> AsyncIterator[bytes]:
    yield data


def _import(kind: ImportKind, *, source: str, destination: str) -> Use:
    path = ImportPath(kind=kind, address=source, destination=destination)
    return lambda session, _: session.imports.start("lake", "main", [path], COMMIT)


def _segment(data: bytes) -> Use:
    return lambda session, _: session.segments.stage("lake", "main", _chunks(data), prefix="a/")


async def _delete(session: Session, _stash: str) -> object:
    return await session.objects.delete("lake", "main", ["a/b", SECRET, "a/z"])


async def _stage(session: Session, _stash: str) -> object:
    entries = [
        Entry(path=Path(path), address=address, checksum="c", size_bytes=1, mtime=Instant(0))
        for path, address in (("a/b", "s3://outside/in/b"), (SECRET, SOURCE))
    ]
    return await session.objects.stage("lake", "main", entries)


UPLOAD: Final = UploadOf(
    repo_name="lake", branch="main", path=SECRET, upload="u", address="mem://lake/data/x"
)
PARTS: Final = PartUploadOf(repo_name="lake", branch="main", path=SECRET, id="u")
PART_SOURCE: Final = PartSource(repo_name="lake", ref="main", path=SECRET, bytes_of=lambda _size: None)
DUMP: Final = RefsDump(commits="a", branches="b", tags="c")
LINKS: Final = segment_of(table([linked("a/b", "s3://outside/in/b"), linked(SECRET, SOURCE)]))
LINKED: Final = Linked(address="mem://lake/data/x", checksum="c", size_bytes=1, content_type="")

USE_CASES: Final[dict[str, list[Tried] | str]] = {
    "repositories.create": REPOSITORY,
    "repositories.get": REPOSITORY,
    "repositories.list": REPOSITORY,
    "repositories.delete": REPOSITORY,
    "repositories.purge": REPOSITORY,
    "adoptions.start": REPOSITORY,
    "adoptions.status": REPOSITORY,
    "adoptions.orphans": REPOSITORY,
    "repositories.storage_use": REPOSITORY,
    "repositories.metadata": REPOSITORY,
    "repositories.set_metadata": REPOSITORY,
    "repositories.delete_metadata": REPOSITORY,
    "repositories.branch_protection": REPOSITORY,
    "repositories.set_branch_protection": REPOSITORY,
    "branches.get": BRANCH,
    "branches.create": BRANCH,
    "branches.delete": BRANCH,
    "branches.list": REPOSITORY,
    "branches.reset": BRANCH,
    "branches.reset_path": [Tried(lambda s, _: s.branches.reset_path("lake", "main", SECRET), WRITE)],
    "branches.reset_prefix": [
        Tried(lambda s, _: s.branches.reset_prefix("lake", "main", "a/"), WRITE),
        Tried(lambda s, _: s.branches.reset_prefix("lake", "main", ""), WRITE),
    ],
    "branches.hard_reset": BRANCH,
    "branches.revert": BRANCH,
    "branches.cherry_pick": BRANCH,
    "tags.create": BRANCH,
    "tags.get": BRANCH,
    "tags.delete": BRANCH,
    "tags.list": REPOSITORY,
    "commits.commit": BRANCH,
    "commits.get": REPOSITORY,
    "commits.log": BRANCH,
    "commits.blame": REPOSITORY,
    "objects.stat": [Tried(lambda s, _: s.objects.stat("lake", "main", SECRET), READ)],
    "objects.locate": [Tried(lambda s, _: s.objects.locate("lake", "main", SECRET), READ)],
    "objects.list": LISTING,
    "objects.namespace": FOUND,
    "objects.may_delete": NONE,
    "objects.read": [Tried(lambda s, _: s.objects.read("lake", "main", SECRET), READ)],
    "objects.open": FOUND,
    "objects.content": FOUND,
    "objects.upload": [Tried(lambda s, _: s.objects.upload("lake", "main", SECRET, b"1"), WRITE)],
    "objects.stage": [Tried(_stage, WRITE + IMPORT)],
    "objects.delete": [Tried(_delete, DELETE)],
    "objects.copy": [
        Tried(lambda s, _: s.objects.copy("lake", "main", "to", source_path=SECRET), READ),
        Tried(lambda s, _: s.objects.copy("lake", "main", SECRET, source_path="a/b"), WRITE),
    ],
    "objects.set_metadata": [Tried(lambda s, _: s.objects.set_metadata("lake", "main", SECRET, {}), WRITE)],
    "copies.copy": [
        Tried(
            lambda s, _: s.copies.copy(
                CopySource(repo_name="lake", ref="main", path=SECRET),
                CopyTarget(repo_name="lake", branch="main", path="to"),
                change=lambda entry: entry,
            ),
            READ,
        ),
        Tried(
            lambda s, _: s.copies.copy(
                CopySource(repo_name="lake", ref="main", path="a/b"),
                CopyTarget(repo_name="lake", branch="main", path=SECRET),
                change=lambda entry: entry,
            ),
            WRITE,
        ),
    ],
    "part_uploads.begin": [
        Tried(lambda s, _: s.part_uploads.begin("lake", "main", SECRET, Attributes()), WRITE)
    ],
    "part_uploads.put": [Tried(lambda s, _: s.part_uploads.put(PARTS, 1, _chunks(), size_bytes=0), WRITE)],
    "part_uploads.copy": [Tried(lambda s, _: s.part_uploads.copy(PARTS, 1, (None, None)), WRITE)],  # type: ignore[arg-type]
    "part_uploads.complete": [Tried(lambda s, _: s.part_uploads.complete(PARTS, [(1, "")]), WRITE)],
    "part_uploads.abort": [Tried(lambda s, _: s.part_uploads.abort(PARTS), WRITE)],
    "part_uploads.parts": [Tried(lambda s, _: s.part_uploads.parts(PARTS, amount=1), WRITE)],
    "part_uploads.under_way": LISTING,
    "part_uploads.sweep": FOUND,
    "diffs.uncommitted": LISTING,
    "diffs.diff": LISTING,
    "diffs.merge_base": REPOSITORY,
    "diffs.merge": BRANCH,
    "stashes.create": BRANCH,
    "stashes.list": LISTING,
    "stashes.pop": [
        Tried(lambda s, stash: s.stashes.pop("lake", stash), WRITE + DELETE),
        Tried(lambda s, stash: s.stashes.pop("lake", stash, into="other"), WRITE + DELETE),
    ],
    "stashes.drop": BRANCH,
    "dumps.dump": REPOSITORY,
    "dumps.restore": [Tried(lambda s, _: s.dumps.restore("lake", DUMP), REFS)],
    "dumps.start_dump": REPOSITORY,
    "dumps.start_restore": [Tried(lambda s, _: s.dumps.start_restore("lake", DUMP), REFS)],
    "dumps.dump_status": REPOSITORY,
    "dumps.restore_status": REPOSITORY,
    "imports.start": [
        Tried(
            _import(ImportKind.PREFIX, source="s3://outside/in/", destination="a/"), WRITE + DELETE + IMPORT
        ),
        Tried(_import(ImportKind.PREFIX, source="s3://outside/", destination=""), WRITE + DELETE + IMPORT),
        Tried(_import(ImportKind.PREFIX, source="s3://outside/in/s", destination="a/sec"), WRITE + IMPORT),
        Tried(_import(ImportKind.OBJECT, source=SOURCE, destination=SECRET), WRITE + IMPORT),
    ],
    "imports.status": BRANCH,
    "imports.cancel": BRANCH,
    "background.start_commit": BRANCH,
    "background.commit_status": BRANCH,
    "background.start_merge": BRANCH,
    "background.merge_status": BRANCH,
    "background.commit_of": FOUND,
    "settings.gc_rules": REPOSITORY,
    "settings.set_gc_rules": REPOSITORY,
    "settings.delete_gc_rules": REPOSITORY,
    "settings.may_set_gc_rules": REPOSITORY,
    "settings.may_protect_branches": REPOSITORY,
    "settings.may_write": [Tried(lambda s, _: s.settings.may_write("lake", "main", SECRET), WRITE)],
    "settings.add_protection": REPOSITORY,
    "settings.remove_protection": REPOSITORY,
    "segments.stage": [
        Tried(_segment(LINKS), WRITE + IMPORT),
        Tried(_segment(deletions("a/b", SECRET, "a/z")), WRITE + DELETE),
    ],
    "compaction.status": REPOSITORY,
    "compaction.branch": BRANCH,
    "compaction.run": BRANCH,
    "compaction.pause": REPOSITORY,
    "compaction.raise_epoch": REPOSITORY,
    "compaction.retry": REPOSITORY,
    "gc.begin": REPOSITORY,
    "gc.renew": REPOSITORY,
    "gc.start_sweep": REPOSITORY,
    "gc.publish": REPOSITORY,
    "gc.withdraw_marks": REPOSITORY,
    "gc.end": REPOSITORY,
    "gc.runs": REPOSITORY,
    "gc.run": REPOSITORY,
    "gc.prepare_uncommitted": REPOSITORY,
    "gc.prepare_commits": REPOSITORY,
    "gc.start_prepare_commits": REPOSITORY,
    "gc.prepare_commits_status": REPOSITORY,
    "samples.fill": REPOSITORY,
    "samples.fill_with_history": REPOSITORY,
    "commit_records.create": REPOSITORY,
    "metadata_files.location": LISTING,
    "metadata_files.read": LISTING,
    "metadata_files.download": LISTING,
    "links.download": FOUND,
    "links.download_address": [
        Tried(lambda s, _: s.links.download_address("lake", SECRET, "mem://lake/data/x", ""), READ)
    ],
    "links.storage_class": FOUND,
    "links.issue": [Tried(lambda s, _: s.links.issue("lake", "main", SECRET), WRITE)],
    "links.link": [Tried(lambda s, _: s.links.link("lake", "main", SECRET, LINKED), WRITE)],
    "multipart.begin": [Tried(lambda s, _: s.multipart.begin("lake", "main", SECRET), WRITE)],
    "multipart.part_url": [Tried(lambda s, _: s.multipart.part_url(UPLOAD, 1), WRITE)],
    "multipart.copy_part": [Tried(lambda s, _: s.multipart.copy_part(UPLOAD, 1, PART_SOURCE), WRITE + READ)],
    "multipart.complete": [
        Tried(lambda s, _: s.multipart.complete(UPLOAD, Completed(parts=[(1, "e")], content_type="")), WRITE)
    ],
    "multipart.abort": [Tried(lambda s, _: s.multipart.abort(UPLOAD), WRITE)],
    "symlinks.create": [Tried(lambda s, _: s.symlinks.create("lake", "main", "a/"), WRITE)],
    "planned.list_runs": NONE,
    "planned.run": NONE,
    "planned.list_pulls": NONE,
    "planned.pull": NONE,
    "planned.write_pull": NONE,
    "planned.read_principal": NONE,
    "planned.list_principals": NONE,
    "planned.create_principal": NONE,
    "planned.delete_principal": NONE,
}
TRIED: Final = [
    (name, case) for name, cases in USE_CASES.items() if not isinstance(cases, str) for case in cases
]


def _resources() -> dict[str, Any]:
    """Return the class behind every property of a session."""
    return {
        name: get_type_hints(found.fget)["return"]
        for name, found in vars(Session).items()
        if isinstance(found, property) and found.fget is not None
    }


def test_every_use_case_is_in_the_table() -> None:
    users = {"users", "groups", "policies", "credentials"}
    found = {
        f"{name}.{method}"
        for name, kind in _resources().items()
        for method, function in vars(kind).items()
        if name not in users and not method.startswith("_") and inspect.isfunction(function)
    }
    assert found == set(USE_CASES)


@pytest.mark.parametrize(("name", "case"), TRIED, ids=[name for name, _ in TRIED])
async def test_a_denial_in_the_middle_refuses_the_use_case(name: str, case: Tried) -> None:
    async with open_lake() as lake:
        stash = await _furnish(lake)
        before = await _state(lake)
        for denial in case.denials:
            assert await _outcome(lake, case.use, stash, denial) is ErrorKind.PERMISSION_DENIED, denial
            assert await _state(lake) == before
        # It is the denial that refused it, and not something else.
        assert await _outcome(lake, case.use, stash, None) is not ErrorKind.PERMISSION_DENIED, name


async def test_a_stash_that_deletes_needs_the_right_to_delete() -> None:
    async with open_lake() as lake:
        stash = await _furnish(lake)
        caller = _caller([("allow", "fs:*", EVERYTHING), ("deny", "fs:DeleteObject", EVERYTHING)])
        with pytest.raises(LakebedError) as refused:
            await Sessions(lake.engine).of(caller).stashes.pop("lake", stash)
        assert refused.value.kind is ErrorKind.PERMISSION_DENIED


async def _furnish(lake: Lake) -> str:
    """Commit objects, put a change and a deletion aside, and return the stash."""
    await lake.commit("main", **{"a/b": "1", SECRET: "2", "a/z": "3"})
    await lake.catalog.branches.create("lake", "other", "main")
    await lake.put("main", **{SECRET: "changed"})
    await lake.catalog.objects.delete("lake", "main", ["a/z"])
    return (await lake.catalog.stashes.create("lake", "main")).id


async def _state(lake: Lake) -> object:
    branches = [await lake.catalog.branches.get("lake", name) for name in ("main", "other")]
    return [await lake.show(each.name) for each in branches], [each.commit_id for each in branches]


async def _outcome(lake: Lake, use: Use, stash: str, denial: tuple[Action, str] | None) -> ErrorKind | None:
    given = [("allow", "*", EVERYTHING)]
    if denial is not None:
        given.append(("deny", denial[0].value, denial[1]))
    try:
        await use(Sessions(lake.engine).of(_caller(given)), stash)
    except LakebedError as error:
        return error.kind
    return None


def _caller(given: list[tuple[str, str, str]]) -> Caller:
    statements = tuple(
        Statement(effect=Effect(effect), actions=(action,), resource=resource)
        for effect, action, resource in given
    )
    policy = Policy(
        id=PolicyId("p"), incarnation=Incarnation("p"), created_at=Instant(0), statements=statements
    )
    return Caller(id="tester", permissions=Permissions([policy], user="tester"))
