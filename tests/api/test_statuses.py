"""Which status answers what: successes as the reference has them, and repeats, absences and unknown ids."""

import pytest

from lakebed.api.table import OPERATIONS
from lakebed.testing.asgi import AsgiClient

# Every other operation answers its success by method: GET and HEAD 200, POST 201, PUT 200 or 204, DELETE 204.
SUCCESS: dict[str, set[int]] = {
    "setup": {200},
    "setupCommPrefs": {200},
    "login": {200},
    "externalPrincipalLogin": {200},
    "stsLogin": {200},
    "oauthCallback": {302},
    "healthCheck": {204},
    "postStatsEvents": {204},
    "setRepositoryMetadata": {204},
    "dumpRefs": {201},
    "restoreRefs": {200},
    "dumpSubmit": {202},
    "restoreSubmit": {202},
    "CreateCommitRecord": {204},
    "uploadObjectPreflight": {204},
    "stageObject": {201},
    "getMetadataObject": {200, 302},
    "setGarbageCollectionRulesPreflight": {204},
    "internalSetGarbageCollectionRules": {204},
    "prepareGarbageCollectionCommitsAsync": {202},
    "createBranchProtectionRulePreflight": {204},
    "internalCreateBranchProtectionRule": {204},
    "addGroupMembership": {201},
    "attachPolicyToUser": {201},
    "attachPolicyToGroup": {201},
    "updatePolicy": {200},
    "completePresignMultipartUpload": {200},
    "uploadPart": {200},
    "uploadPartCopy": {204},
    "linkPhysicalAddress": {200},
    "mergePullRequest": {200},
    "updatePullRequest": {200},
    "revertBranch": {204},
    "mergeIntoBranch": {200},
    "getObject": {200, 206, 302, 304},
    "headObject": {200, 206},
    "deleteObjects": {200},
    "importStart": {202},
    # The document of the peer says 201, its server answers this.
    "updateObjectUserMetadata": {204},
    # Ours.
    "commitAsync": {202},
    "mergeIntoBranchAsync": {202},
    "stageObjects": {204},
    "popStash": {200},
    "dropStash": {204},
    "purgeStorage": {200},
    "adoptStorage": {202},
    "pauseCompaction": {204},
    "resumeCompaction": {204},
    "raiseCompactionEpoch": {200},
    "retryCompaction": {200},
    "compactBranch": {202},
    "renewGarbageCollectionRun": {200},
    "startGarbageCollectionSweep": {204},
    "publishGarbageCollectionMark": {200},
    "endGarbageCollectionRun": {204},
    "withdrawGarbageCollectionMarks": {204},
}
BY_METHOD = {"GET": {200}, "HEAD": {200}, "POST": {201}, "PUT": {204}, "DELETE": {204}}


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.id)
def test_success_has_the_status_of_the_reference(operation: object) -> None:
    row = next(each for each in OPERATIONS if each is operation)
    assert {status for status in row.replies if status < 400} == (
        SUCCESS[row.id] if row.id in SUCCESS else BY_METHOD[row.method]
    )


POLICY = {"id": "p", "statement": [{"effect": "allow", "action": ["fs:*"], "resource": "*"}]}

# In order: what is asked, and the status. Each line stands on those above it.
AUTH: list[tuple[str, str, object, int]] = [
    ("POST", "/auth/users", {"id": "u"}, 201),
    ("POST", "/auth/users", {"id": "u"}, 409),
    ("POST", "/auth/users", {"id": ""}, 400),
    ("POST", "/auth/groups", {"id": "g"}, 201),
    ("POST", "/auth/groups", {"id": "g"}, 409),
    ("POST", "/auth/policies", POLICY, 201),
    ("POST", "/auth/policies", POLICY, 409),
    ("PUT", "/auth/policies/none", {**POLICY, "id": "none"}, 404),
    # Membership.
    ("PUT", "/auth/groups/none/members/u", None, 404),
    ("PUT", "/auth/groups/g/members/none", None, 404),
    ("DELETE", "/auth/groups/g/members/u", None, 404),
    ("PUT", "/auth/groups/g/members/u", None, 201),
    ("PUT", "/auth/groups/g/members/u", None, 409),
    ("GET", "/auth/groups/none/members", None, 404),
    ("GET", "/auth/users/none/groups", None, 404),
    ("DELETE", "/auth/groups/none/members/u", None, 404),
    ("DELETE", "/auth/groups/g/members/none", None, 404),
    ("DELETE", "/auth/groups/g/members/u", None, 204),
    ("DELETE", "/auth/groups/g/members/u", None, 404),
    # Policies of users.
    ("PUT", "/auth/users/none/policies/p", None, 404),
    ("PUT", "/auth/users/u/policies/none", None, 404),
    ("DELETE", "/auth/users/u/policies/p", None, 404),
    ("PUT", "/auth/users/u/policies/p", None, 201),
    ("PUT", "/auth/users/u/policies/p", None, 409),
    ("GET", "/auth/users/none/policies", None, 404),
    ("DELETE", "/auth/users/none/policies/p", None, 404),
    ("DELETE", "/auth/users/u/policies/none", None, 404),
    ("DELETE", "/auth/users/u/policies/p", None, 204),
    ("DELETE", "/auth/users/u/policies/p", None, 404),
    # Policies of groups.
    ("PUT", "/auth/groups/none/policies/p", None, 404),
    ("PUT", "/auth/groups/g/policies/none", None, 404),
    ("DELETE", "/auth/groups/g/policies/p", None, 404),
    ("PUT", "/auth/groups/g/policies/p", None, 201),
    ("PUT", "/auth/groups/g/policies/p", None, 409),
    ("GET", "/auth/groups/none/policies", None, 404),
    ("DELETE", "/auth/groups/g/policies/p", None, 204),
    ("DELETE", "/auth/groups/g/policies/p", None, 404),
    # ACLs.
    ("GET", "/auth/groups/none/acl", None, 404),
    ("POST", "/auth/groups/none/acl", {"permission": "Read"}, 404),
    ("POST", "/auth/groups/g/acl", {"permission": "Everything"}, 400),
    ("POST", "/auth/groups/g/acl", {"permission": "Read"}, 201),
    # Keys.
    ("POST", "/auth/users/none/credentials", None, 404),
    ("GET", "/auth/users/none/credentials", None, 404),
    ("GET", "/auth/users/u/credentials/AKIANONE", None, 404),
    ("DELETE", "/auth/users/u/credentials/AKIANONE", None, 404),
    ("POST", "/auth/users/u/credentials", None, 201),
    # Going.
    ("GET", "/auth/users/none", None, 404),
    ("DELETE", "/auth/users/none", None, 404),
    ("DELETE", "/auth/users/u", None, 204),
    ("DELETE", "/auth/users/u", None, 404),
    ("GET", "/auth/groups/none", None, 404),
    ("DELETE", "/auth/groups/none", None, 404),
    ("DELETE", "/auth/groups/g", None, 204),
    ("GET", "/auth/policies/none", None, 404),
    ("DELETE", "/auth/policies/none", None, 404),
    ("DELETE", "/auth/policies/p", None, 204),
    ("DELETE", "/auth/policies/p", None, 404),
]


async def test_users_groups_and_policies_answer_repeats_and_absences(admin: AsgiClient) -> None:
    for method, path, body, expected in AUTH:
        answer = await (admin(method, path) if body is None else admin(method, path, json=body))
        assert answer.status == expected, (method, path, answer.body)


REPO = "/repositories/lake"
MAIN = f"{REPO}/branches/main"
ENTRY = {"physical_address": "s3://elsewhere/x", "checksum": "c", "size_bytes": 1}

# The same for what is in a repository.
REFS: list[tuple[str, str, object, int]] = [
    ("POST", "/repositories", {"name": "lake", "storage_namespace": "mem://other"}, 409),
    ("POST", "/repositories", {"name": "other", "storage_namespace": "mem://lake"}, 400),
    ("POST", "/repositories", {"name": "X", "storage_namespace": "mem://other"}, 400),
    ("POST", "/repositories", {"name": "other", "storage_namespace": "nowhere"}, 400),
    ("GET", "/repositories/none", None, 404),
    ("DELETE", "/repositories/none", None, 404),
    ("GET", "/repositories/none/branches", None, 404),
    # Branches and tags: names are shared.
    ("POST", f"{REPO}/branches", {"name": "dev", "source": "main"}, 201),
    ("POST", f"{REPO}/branches", {"name": "dev", "source": "main"}, 409),
    ("POST", f"{REPO}/branches", {"name": "more", "source": "none"}, 404),
    ("POST", f"{REPO}/tags", {"id": "v1", "ref": "main"}, 201),
    ("POST", f"{REPO}/tags", {"id": "v1", "ref": "main"}, 409),
    ("POST", f"{REPO}/tags", {"id": "v2", "ref": "none"}, 404),
    ("POST", f"{REPO}/tags", {"id": "a..b", "ref": "main"}, 400),
    ("POST", f"{REPO}/tags", {"id": "dev", "ref": "main"}, 409),
    ("POST", f"{REPO}/branches", {"name": "v1", "source": "main"}, 409),
    ("DELETE", f"{REPO}/tags/none", None, 404),
    ("DELETE", f"{REPO}/branches/none", None, 404),
    ("DELETE", MAIN, None, 403),
    # Commits.
    ("POST", f"{MAIN}/commits", {"message": "nothing"}, 400),
    ("POST", f"{MAIN}/commits", {"message": "nothing", "allow_empty": True}, 201),
    ("POST", f"{REPO}/branches/none/commits", {"message": "nothing"}, 404),
    ("GET", f"{REPO}/commits/none", None, 404),
    ("GET", f"{REPO}/commits/main~99", None, 404),
    ("GET", f"{REPO}/commits/main^9", None, 400),
    ("GET", f"{REPO}/commits/v1@", None, 400),
    ("GET", f"{REPO}/commits/main$", None, 400),
    # Merges.
    ("POST", f"{REPO}/refs/main/merge/main", {}, 400),
    ("POST", f"{REPO}/refs/dev/merge/main", {}, 400),
    ("POST", f"{REPO}/refs/none/merge/main", {}, 404),
    ("POST", f"{REPO}/refs/dev/merge/none", {}, 404),
    ("POST", f"{REPO}/refs/dev/merge/main", {"strategy": "mine"}, 400),
    # Reverts, picks, resets.
    ("POST", f"{MAIN}/revert", {"ref": "none", "parent_number": 0}, 404),
    ("POST", f"{MAIN}/cherry-pick", {"ref": "none"}, 404),
    ("PUT", MAIN, {"type": "reset"}, 204),
    ("PUT", MAIN, {"type": "object", "path": "none"}, 204),
    ("PUT", MAIN, {"type": "other"}, 400),
    # Objects.
    ("GET", f"{REPO}/refs/main/objects?path=none", None, 404),
    ("GET", f"{REPO}/refs/main/objects/stat?path=none", None, 404),
    ("GET", f"{REPO}/refs/none/objects/stat?path=a", None, 404),
    ("DELETE", f"{MAIN}/objects?path=none", None, 204),
    ("DELETE", f"{REPO}/branches/none/objects?path=none", None, 404),
    ("POST", f"{MAIN}/objects/delete", {"paths": ["none", ""]}, 200),
    ("POST", f"{MAIN}/objects/delete", {"paths": ["x"] * 1001}, 400),
    ("POST", f"{MAIN}/objects/copy?dest_path=b", {"src_path": "none"}, 404),
    ("PUT", f"{MAIN}/objects?path=a", ENTRY, 403),
    ("PUT", f"{MAIN}/objects/stat/user_metadata?path=none", {"set": {}}, 404),
    ("PUT", f"{MAIN}/staging/backing?path=a", {**ENTRY, "staging": {"physical_address": "x"}}, 400),
    ("POST", f"{MAIN}/staging/pmpu?path=a", None, 501),
    # Settings.
    ("GET", f"{REPO}/settings/gc_rules", None, 404),
    ("PUT", f"{REPO}/settings/gc_rules", {"default_retention_days": 1, "branches": []}, 204),
    ("GET", f"{REPO}/settings/gc_rules", None, 200),
    ("DELETE", f"{REPO}/settings/gc_rules", None, 204),
    ("GET", f"{REPO}/settings/gc_rules", None, 404),
    ("PUT", f"{REPO}/settings/branch_protection", [{"pattern": "main"}], 204),
    ("DELETE", f"{MAIN}/objects?path=a", None, 403),
    ("POST", f"{MAIN}/commits", {"message": "m", "allow_empty": True}, 403),
    ("POST", f"{MAIN}/staging/pmpu?path=a", None, 403),
    ("PUT", f"{REPO}/settings/branch_protection", [], 204),
    # What is not there yet.
    ("GET", f"{REPO}/pulls/none", None, 404),
    ("GET", f"{REPO}/actions/runs/none", None, 404),
    ("DELETE", REPO, None, 204),
    ("GET", REPO, None, 404),
]


async def test_repositories_refs_and_objects_answer_repeats_and_absences(admin: AsgiClient) -> None:
    for method, path, body, expected in REFS:
        place, _, query = path.partition("?")
        answer = await (
            admin(method, place, query=query)
            if body is None
            else admin(method, place, query=query, json=body)
        )
        assert answer.status == expected, (method, path, answer.body)
