"""Branch protection: every operation of both edges, and what becomes of it on a protected branch.

The table names all operations that may change something. Those that change a branch are sent to one that a rule protects,
against staged writes only, against commits only, and against both. A new operation fails the first test until it is in
the table.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final

import pytest

from lakebed.api.table import OPERATIONS as REST_OPERATIONS
from lakebed.errors import ErrorKind
from lakebed.model.repository import BranchProtection
from lakebed.refs.protection import COMMIT, STAGING_WRITE
from lakebed.s3.table import OPERATIONS as S3_OPERATIONS
from lakebed.testing.rest import Rest, open_rest
from tests.api.test_segments import deletions
from tests.s3.site import site_of


@dataclass(frozen=True, slots=True)
class World:
    """A repository `lake` whose branch `main` has an object `a`, uncommitted changes, and a stash."""

    rest: Rest
    stash: str
    commit: str


Send = Callable[[World], Awaitable[tuple[int, str]]]
"""Sends the operation to `main`; returns status and what the answer says of the error."""


@dataclass(frozen=True, slots=True)
class Change:
    """An operation that changes a branch, and the rules that block it."""

    send: Send
    blocked_by: frozenset[str] = field(default_factory=frozenset)


STAGES: Final = frozenset({STAGING_WRITE})
COMMITS: Final = frozenset({COMMIT})
BOTH: Final = STAGES | COMMITS
MERGES: Final[frozenset[str]] = frozenset()
"""A merge is how a protected branch changes."""

NO_BRANCH: Final = "changes no branch"
ELSEWHERE: Final = "works on what is stored, and changes nothing that a branch shows"
NEW: Final = "makes what was not there"
WHOLE: Final = "ends the repository, or fills a bare one"
USERS: Final = "changes users and policies"

_MAIN: Final = "/repositories/lake/branches/main"


def _rest(method: str, target: str, /, *, json: Any = None, body: bytes = b"", **query: str) -> Send:
    async def send(world: World) -> tuple[int, str]:
        path = target.format(stash=world.stash, commit=world.commit)
        sent = {"json": json} if json is not None else {"body": body}
        if isinstance(json, dict):
            sent = {"json": {k: v.format(commit=world.commit) if k == "ref" else v for k, v in json.items()}}
        answer = await world.rest.admin(method, path, query=query, **sent)
        return answer.status, answer.headers.get("x-lakebed-error-kind", "")

    return send


def _s3(method: str, target: str, body: bytes = b"", **headers: str) -> Send:
    async def send(world: World) -> tuple[int, str]:
        site = await site_of(world.rest)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        status, answer = await site.send(site.signed(method, target, body, headers=named))
        protected = b"ProtectedBranch" in answer
        return status, ErrorKind.PROTECTED_BRANCH.value if protected else ""

    return send


_IMPORT: Final = {
    "paths": [{"type": "common_prefix", "path": "s3://outside/in/", "destination": "in/"}],
    "commit": {"message": "m"},
}
_LINK: Final = {
    "staging": {"physical_address": "mem://lake/data/x"},
    "checksum": "c",
    "size_bytes": 1,
}
_STAGE: Final = {"physical_address": "s3://outside/x", "checksum": "c", "size_bytes": 1}
_PARTS: Final = {"physical_address": "mem://lake/data/x", "parts": [{"part_number": 1, "etag": "e"}]}
_UPLOAD: Final = f"{_MAIN}/staging/pmpu/u"
_XML_PARTS: Final = (
    b"<CompleteMultipartUpload><Part><PartNumber>1</PartNumber></Part></CompleteMultipartUpload>"
)

TABLE: Final[dict[str, Change | str]] = {
    # Uncommitted changes.
    "uploadObject": Change(_rest("POST", f"{_MAIN}/objects", body=b"1", path="n"), STAGES),
    "stageObject": Change(_rest("PUT", f"{_MAIN}/objects", json=_STAGE, path="n"), STAGES),
    "deleteObject": Change(_rest("DELETE", f"{_MAIN}/objects", path="a"), STAGES),
    "deleteObjects": Change(_rest("POST", f"{_MAIN}/objects/delete", json={"paths": ["a"]}), STAGES),
    "copyObject": Change(
        _rest("POST", f"{_MAIN}/objects/copy", json={"src_path": "a"}, dest_path="n"), STAGES
    ),
    "updateObjectUserMetadata": Change(
        _rest("PUT", f"{_MAIN}/objects/stat/user_metadata", json={"set": {}}, path="a"), STAGES
    ),
    "linkPhysicalAddress": Change(_rest("PUT", f"{_MAIN}/staging/backing", json=_LINK, path="n"), STAGES),
    "stageObjects": Change(
        _rest("POST", f"{_MAIN}/staging/entries", json={"entries": [{"path": "n", **_STAGE}]}), STAGES
    ),
    "stageSegment": Change(_rest("POST", f"{_MAIN}/staging/segments", body=deletions("a")), STAGES),
    "createPresignMultipartUpload": Change(_rest("POST", f"{_MAIN}/staging/pmpu", path="n"), STAGES),
    "completePresignMultipartUpload": Change(_rest("PUT", _UPLOAD, json=_PARTS, path="n"), STAGES),
    "abortPresignMultipartUpload": Change(
        _rest("DELETE", _UPLOAD, json={"physical_address": "mem://lake/data/x"}, path="n"), STAGES
    ),
    "uploadPart": Change(
        _rest("PUT", f"{_UPLOAD}/parts/1", json={"physical_address": "mem://lake/data/x"}, path="n"), STAGES
    ),
    "uploadPartCopy": Change(
        _rest(
            "PUT",
            f"{_UPLOAD}/parts/1/copy",
            json={
                "physical_address": "mem://lake/data/x",
                "copy_source": {"repository": "lake", "ref": "main", "path": "a"},
            },
            path="n",
        ),
        STAGES,
    ),
    "resetBranch": Change(_rest("PUT", _MAIN, json={"type": "reset"}), STAGES),
    "createStash": Change(_rest("POST", f"{_MAIN}/stash"), STAGES),
    "popStash": Change(_rest("POST", "/repositories/lake/stashes/{stash}/pop"), STAGES),
    "PutObject": Change(_s3("PUT", "/lake/main/n", b"1"), STAGES),
    "CopyObject": Change(_s3("PUT", "/lake/main/n", x_amz_copy_source="/lake/main/a"), STAGES),
    "DeleteObject": Change(_s3("DELETE", "/lake/main/a"), STAGES),
    "DeleteObjects": Change(
        _s3("POST", "/lake?delete=", b"<Delete><Object><Key>main/a</Key></Object></Delete>"), STAGES
    ),
    "PutObjectTagging": Change(_s3("PUT", "/lake/main/a?tagging=", b"<Tagging><TagSet/></Tagging>"), STAGES),
    "DeleteObjectTagging": Change(_s3("DELETE", "/lake/main/a?tagging="), STAGES),
    "CreateMultipartUpload": Change(_s3("POST", "/lake/main/n?uploads="), STAGES),
    "UploadPart": Change(_s3("PUT", "/lake/main/n?partNumber=1&uploadId=u", b"1"), STAGES),
    "UploadPartCopy": Change(
        _s3("PUT", "/lake/main/n?partNumber=1&uploadId=u", x_amz_copy_source="/lake/main/a"), STAGES
    ),
    "CompleteMultipartUpload": Change(_s3("POST", "/lake/main/n?uploadId=u", _XML_PARTS), STAGES),
    "AbortMultipartUpload": Change(_s3("DELETE", "/lake/main/n?uploadId=u"), STAGES),
    # Commits.
    "commit": Change(_rest("POST", f"{_MAIN}/commits", json={"message": "m"}), COMMITS),
    "commitAsync": Change(_rest("POST", f"{_MAIN}/commits/async", json={"message": "m"}), COMMITS),
    "revertBranch": Change(
        _rest("POST", f"{_MAIN}/revert", json={"ref": "{commit}", "parent_number": 0}), COMMITS
    ),
    "cherryPick": Change(_rest("POST", f"{_MAIN}/cherry-pick", json={"ref": "{commit}"}), COMMITS),
    "hardResetBranch": Change(_rest("PUT", f"{_MAIN}/hard_reset", ref="other"), COMMITS),
    # `main` is the default branch: no rule is needed to keep it.
    "deleteBranch": Change(_rest("DELETE", "/repositories/lake/branches/may"), COMMITS),
    "importStart": Change(_rest("POST", f"{_MAIN}/import", json=_IMPORT), BOTH),
    "mergeIntoBranch": Change(_rest("POST", "/repositories/lake/refs/other/merge/main", json={}), MERGES),
    "mergeIntoBranchAsync": Change(
        _rest("POST", "/repositories/lake/refs/other/merge/main/async", json={}), MERGES
    ),
    # Everything else.
    "createBranch": NEW,
    "createTag": NEW,
    "createRepository": NEW,
    "CreateBucket": NEW,
    "CreateCommitRecord": NEW,
    "deleteTag": NO_BRANCH,
    "dropStash": NO_BRANCH,
    "deleteRepository": WHOLE,
    "DeleteBucket": WHOLE,
    "purgeStorage": WHOLE,
    "adoptStorage": WHOLE,
    "restoreRefs": WHOLE,
    "restoreSubmit": WHOLE,
    "importCancel": NO_BRANCH,
    "createSymlinkFile": ELSEWHERE,
    "dumpRefs": ELSEWHERE,
    "dumpSubmit": ELSEWHERE,
    "pauseCompaction": ELSEWHERE,
    "resumeCompaction": ELSEWHERE,
    "raiseCompactionEpoch": ELSEWHERE,
    "retryCompaction": ELSEWHERE,
    "compactBranch": ELSEWHERE,
    "prepareGarbageCollectionCommits": ELSEWHERE,
    "prepareGarbageCollectionCommitsAsync": ELSEWHERE,
    "prepareGarbageCollectionUncommitted": ELSEWHERE,
    "beginGarbageCollectionRun": ELSEWHERE,
    "renewGarbageCollectionRun": ELSEWHERE,
    "publishGarbageCollectionMark": ELSEWHERE,
    "withdrawGarbageCollectionMarks": ELSEWHERE,
    "endGarbageCollectionRun": ELSEWHERE,
    "startGarbageCollectionSweep": ELSEWHERE,
    "setRepositoryMetadata": NO_BRANCH,
    "deleteRepositoryMetadata": NO_BRANCH,
    "setGCRules": NO_BRANCH,
    "internalSetGarbageCollectionRules": NO_BRANCH,
    "deleteGCRules": NO_BRANCH,
    "internalDeleteGarbageCollectionRules": NO_BRANCH,
    "setBranchProtectionRules": NO_BRANCH,
    "internalCreateBranchProtectionRule": NO_BRANCH,
    "internalDeleteBranchProtectionRule": NO_BRANCH,
    "createPullRequest": NO_BRANCH,
    "updatePullRequest": NO_BRANCH,
    "mergePullRequest": NO_BRANCH,
    "postStatsEvents": NO_BRANCH,
    "createUser": USERS,
    "deleteUser": USERS,
    "attachPolicyToUser": USERS,
    "detachPolicyFromUser": USERS,
    "createCredentials": USERS,
    "deleteCredentials": USERS,
    "createGroup": USERS,
    "deleteGroup": USERS,
    "addGroupMembership": USERS,
    "deleteGroupMembership": USERS,
    "attachPolicyToGroup": USERS,
    "detachPolicyFromGroup": USERS,
    "setGroupACL": USERS,
    "createPolicy": USERS,
    "updatePolicy": USERS,
    "deletePolicy": USERS,
    "createUserExternalPrincipal": USERS,
    "deleteUserExternalPrincipal": USERS,
    "setup": USERS,
    "setupCommPrefs": USERS,
    "login": USERS,
    "externalPrincipalLogin": USERS,
    "stsLogin": USERS,
}
CHANGES: Final = {name: row for name, row in TABLE.items() if isinstance(row, Change)}


def test_every_operation_that_may_change_something_is_in_the_table() -> None:
    rest = {each.id for each in REST_OPERATIONS if each.method not in ("GET", "HEAD")}
    assert rest | {each.name for each in S3_OPERATIONS if each.writes} == set(TABLE)


@pytest.mark.parametrize("name", CHANGES)
async def test_a_rule_blocks_what_the_table_says_and_nothing_else(name: str) -> None:
    change = CHANGES[name]
    async with open_rest() as rest:
        world = await _furnished(rest)
        before = await _state(rest)
        for action in sorted(change.blocked_by):
            await _protect(rest, action)
            # A bulk deletion of S3 answers for each key.
            blocked = (200 if name == "DeleteObjects" else 403, "protected-branch")
            assert await change.send(world) == blocked, action
            assert await _state(rest) == before
        await _protect(rest, *(BOTH - change.blocked_by))
        assert (await change.send(world))[1] != "protected-branch"


async def _furnished(rest: Rest) -> World:
    lake = rest.lake
    await lake.catalog.branches.create("lake", "other", "main")
    await lake.catalog.branches.create("lake", "may", "main")
    await lake.commit("other", o="1")
    commit = await lake.commit("main", a="1")
    await lake.put("main", s="stashed")
    stash = await lake.catalog.stashes.create("lake", "main")
    await lake.put("main", u="uncommitted")
    return World(rest, stash.id, commit)


async def _protect(rest: Rest, *actions: str) -> None:
    rules = BranchProtection(rules={"ma*": actions} if actions else {})
    await rest.lake.catalog.repositories.set_branch_protection("lake", rules)


async def _state(rest: Rest) -> object:
    branch = await rest.lake.catalog.branches.get("lake", "main")
    return branch.commit_id, await rest.lake.show("main"), len(await rest.lake.catalog.stashes.list("lake"))
