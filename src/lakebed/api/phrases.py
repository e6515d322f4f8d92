"""Error kinds to statuses and phrases: the one table of the REST edge, which a test proves complete.

A phrase is the text that the reference server puts into `message` for a situation. Scripts, `lakectl` and the tests
of published clients compare it, so it is the reference's, letter for letter. It seldom names anything. What an error
of ours says beyond it (which name, what to do next) is sent as `detail`.

Where the reference has no phrase for a kind, `message` is our text, and there is no `detail`.

A phrase depends on the kind, at times on the operation, and at times on which parameter of the operation the error is
about: the left ref of a diff or the right one. `Row.on` has the exceptions, by `operation` or `operation:parameter`.
Long-running tasks have names of their own, such as `IMPORT_TASK`. In braces stand parameters of the request: of the
path, the query, the headers, or a field of the JSON body.

The table of the S3 edge is `lakebed.s3.kinds`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from lakebed.api.malformed import MalformedError
from lakebed.errors import ErrorKind, LakebedError, cut

K = ErrorKind

IMPORT_TASK: Final = "import task"
"""What an import is called here when it failed after it was started."""


@dataclass(frozen=True, slots=True)
class Row:
    """What the REST edge answers for one kind."""

    status: int
    phrase: str = ""
    """Empty where the reference has none."""
    on: Mapping[str, str] = field(default_factory=dict)
    """Other phrases, by `operation:parameter` or `operation`."""
    statuses: Mapping[str, int] = field(default_factory=dict)
    """Other statuses, by operation."""


@dataclass(frozen=True, slots=True)
class Asked:
    """The request that failed: its operation, and the texts and numbers that it gave, by parameter."""

    operation: str = ""
    given: Mapping[str, str] = field(default_factory=dict)


NOTHING_ASKED: Final = Asked()

ROWS: Final[dict[ErrorKind, Row]] = {
    K.INVALID_REPO_NAME: Row(400, "argument repository: repository id: invalid value: validation error"),
    K.INVALID_BRANCH_NAME: Row(
        400,
        "argument branch: branch id: invalid value: validation error",
        on={
            "createBranch": "argument branch: branch id: invalid value: validation error: branch id must consist of letters, digits, underscores and dashes, and cannot start with a dash",
            "uploadObject": "argument name: branch id: invalid value: validation error",
        },
    ),
    K.INVALID_TAG_NAME: Row(400, "argument tagID: tag id: invalid value: validation error"),
    K.INVALID_REF: Row(
        400,
        "argument ref: ref: invalid value: validation error",
        on={
            "createTag": "ref: invalid value: validation error",
            "getCommit": "ref: invalid value: validation error",
            "logCommits": "ref: ref: invalid value: validation error",
        },
    ),
    K.INVALID_PATH: Row(
        400,
        on={
            "uploadObject:path": "argument path: invalid value: validation error: {path:bytes} is above maximum length (1024)",
        },
    ),
    K.INVALID_NAMESPACE: Row(
        400,
        on={
            "createRepository": "failed to match required regex ^local://: invalid namespace",
        },
    ),
    K.INVALID_ADDRESS: Row(400, on={"stageObject": "physical address is not valid for block adapter: local"}),
    K.INVALID_ARGUMENT: Row(
        400,
        on={
            "createPresignMultipartUpload:parts": "parts can be between 0 and 10000",
            "deleteObjects:paths": "request size exceeded, max paths is set to 1000",
            "logCommits:since": (
                'parameter "since" in query has an error: string doesn\'t match the format "date-time": string doesn\'t match '
                'pattern "^[0-9]{{4}}-(0[1-9]|10|11|12)-(0[1-9]|[12][0-9]|3[01])T([0-1][0-9]|2[0-3]):[0-5][0-9]:([0-5][0-9]|60)'
                '(\\.[0-9]+)?(Z|(\\+|-)[0-9]{{2}}:[0-9]{{2}})?$"'
            ),
            "mergeIntoBranch:strategy": "argument strategy: invalid value: validation error",
            "resetBranch": "argument path: missing path: required value: validation error",
            "mergeIntoBranch:sourceRef": "update branch {destinationBranch}: no changes",
            "prepareGarbageCollectionUncommitted:continuation_token": "invalid continuation token",
        },
    ),
    K.INVALID_CONFIG: Row(400),
    K.INVALID_KEY: Row(400),
    K.INVALID_AUTH_ID: Row(400),
    K.INVALID_POLICY: Row(400),
    K.INVALID_ACL: Row(400),
    K.UNSUPPORTED: Row(
        501,
        "Not Implemented",
        on={
            "createPresignMultipartUpload": "presign multipart upload API is not supported",
        },
    ),
    K.NAMESPACE_IN_USE: Row(
        400,
        on={
            "createRepository": "failed to create repository: found lakeFS objects in the storage (:{storage_namespace}) key(_lakefs/dummy): storage namespace already in use",
        },
    ),
    K.DIRTY_BRANCH: Row(
        400,
        "uncommitted changes (dirty branch)",
        on={
            "commit": "cannot use source MetaRange on a branch with uncommitted changes",
            "import task": "import error: merge import: uncommitted changes (dirty branch)",
        },
    ),
    K.NO_CHANGES: Row(
        400,
        "no changes",
        on={
            "commit": "commit: no changes",
            "mergeIntoBranch": "update branch {destinationBranch}: no changes",
            "revertBranch": "update branch: no changes",
            "cherryPick": "update branch: no changes",
        },
    ),
    K.PARENT_OUT_OF_RANGE: Row(
        400,
        "argument ref: ref: invalid value: validation error",
        on={
            "getCommit": "ref: invalid value: validation error",
            "createTag": "ref: invalid value: validation error",
            "logCommits": "ref: ref: invalid value: validation error",
            "revertBranch": "given commit does not have the given parent number: parent {parent_number}",
            "cherryPick": "parent {parent_number}: given commit does not have the given parent number",
        },
    ),
    K.PARENT_NEEDED: Row(
        400,
        on={
            "revertBranch": "must specify 1-based parent number for reverting merge commit",
            "cherryPick": "must specify 1-based parent number for cherry-picking merge commit",
        },
        statuses={"revertBranch": 409},
    ),
    K.NOT_A_COMMIT: Row(400),
    K.RANGE_NOT_SATISFIABLE: Row(416, "Requested Range Not Satisfiable"),
    K.TOO_LARGE: Row(400),
    K.LINK_REFUSED: Row(
        400,
        on={
            "linkPhysicalAddress": "address is not signed: link address invalid",
            "linkPhysicalAddress:path": "invalid address signature: invalid address",
            "abortPresignMultipartUpload": "invalid address signature: invalid address",
            "abortPresignMultipartUpload:physical_address": "physical address must be relative to the storage namespace",
        },
    ),
    K.INVALID_PART: Row(400),
    K.PART_ORDER: Row(400),
    K.PART_TOO_SMALL: Row(400),
    K.NO_PARTS: Row(400, "parts are required"),
    K.NOT_BARE: Row(400, "can only restore into a bare repository"),
    K.NO_PRESIGNED_URLS: Row(400, "local adapter presigned URL: operation not supported"),
    K.REPO_NOT_FOUND: Row(404, "repository not found"),
    K.BRANCH_NOT_FOUND: Row(
        404,
        "branch not found",
        on={
            "uploadObject": "branch '{branch}' not found",
            "copyObject": "branch '{branch}' not found",
            "createPresignMultipartUpload": "branch '{branch}' not found",
        },
    ),
    K.TAG_NOT_FOUND: Row(404, "tag not found"),
    K.COMMIT_NOT_FOUND: Row(404, "commit not found"),
    K.REF_NOT_FOUND: Row(
        404,
        "not found",
        on={
            "getCommit": "commit not found",
            "logCommits:ref": "ref: not found",
            "logCommits:stop_at": "stop_at: not found",
            "logCommits:after": "from ref: not found",
            "diffRefs:leftRef": "get commit by branch {leftRef}: not found",
            "diffRefs:rightRef": "get commit by ref {rightRef}: not found",
            "findMergeBase:sourceRef": "get commit by branch {sourceRef}: not found",
            "findMergeBase:destinationBranch": "get commit by ref {destinationBranch}: not found",
            "mergeIntoBranch": "update branch {destinationBranch}: get commit by ref {sourceRef}: not found",
            "revertBranch": "get commit from ref {ref}: not found",
            "cherryPick": "get commit from ref {ref}: not found",
            "createBranch": "source reference '{source}': not found",
            "hardResetBranch": "hard-reset {branch} to {ref}: not found",
            "copyObject:branch": "branch '{branch}' not found",
            "updateObjectUserMetadata": "branch not found",
        },
    ),
    K.OBJECT_NOT_FOUND: Row(
        404,
        "not found",
        on={
            "import task": "import error: error on ingest: no such file or directory",
            "updateObjectUserMetadata": "update user metadata on {repository}/{branch}/{path}: not found",
        },
    ),
    K.KEY_NOT_FOUND: Row(
        404,
        "not found",
        on={
            "getRun": "not found: not found",
            "restoreRefs": "No data",
        },
        statuses={"restoreRefs": 410},
    ),
    K.UPLOAD_NOT_FOUND: Row(404),
    K.STASH_NOT_FOUND: Row(404),
    K.TASK_NOT_FOUND: Row(404, "not found"),
    K.JOB_NOT_FOUND: Row(404),
    K.MERGE_BASE_NOT_FOUND: Row(404),
    K.USER_NOT_FOUND: Row(
        404,
        "user not found",
        on={
            "createCredentials": "not found",
        },
    ),
    K.GROUP_NOT_FOUND: Row(404),
    K.POLICY_NOT_FOUND: Row(404),
    K.ACCESS_KEY_NOT_FOUND: Row(404, "credentials not found"),
    K.MEMBERSHIP_NOT_FOUND: Row(404),
    K.ATTACHMENT_NOT_FOUND: Row(404),
    K.ACL_NOT_FOUND: Row(404),
    K.GC_RULES_NOT_FOUND: Row(
        404,
        "not found",
        on={
            "prepareGarbageCollectionCommits": "get gc rules: not found",
        },
    ),
    K.RULE_NOT_FOUND: Row(404),
    K.GC_RUN_NOT_FOUND: Row(404),
    K.REPO_IN_DELETION: Row(410),
    K.DATA_MISSING: Row(410),
    K.REPO_EXISTS: Row(409, "error creating repository: not unique"),
    K.BRANCH_EXISTS: Row(
        409,
        "branch already exists: not unique",
        on={
            "createTag": "branch name {id}: conflict found",
        },
    ),
    K.TAG_EXISTS: Row(
        409,
        "tag already exists: not unique",
        on={
            "createBranch": "tag ID {name}: conflict found",
        },
    ),
    K.COMMIT_EXISTS: Row(
        409,
        on={
            "createBranch": "commit ID {name}: conflict found",
            "createTag": "commit ID {id}: conflict found",
        },
    ),
    K.KEY_EXISTS: Row(409),
    K.USER_EXISTS: Row(409, "Already exists"),
    K.GROUP_EXISTS: Row(409),
    K.POLICY_EXISTS: Row(409),
    K.ACCESS_KEY_EXISTS: Row(409),
    K.MEMBERSHIP_EXISTS: Row(409),
    K.ATTACHMENT_EXISTS: Row(409),
    K.ALREADY_SET_UP: Row(409, "lakeFS already initialized"),
    K.RULE_EXISTS: Row(409),
    K.VERSION_CHANGED: Row(409),
    K.FENCE_LOST: Row(409),
    K.ROW_CHANGED: Row(409),
    K.TOO_LATE: Row(400),
    K.MERGE_CONFLICT: Row(409, "update branch: conflict found"),
    K.TOO_MANY_RETRIES: Row(429),
    K.TASK_COMPLETED: Row(409, "conflict found"),
    K.GC_RUNNING: Row(409),
    K.RESTORE_INCOMPLETE: Row(409),
    K.OUTCOME_FORGOTTEN: Row(409),
    K.CONDITION_FAILED: Row(
        412,
        "Precondition failed",
        on={
            "uploadObject:If-None-Match": "path already exists",
        },
    ),
    K.GC_UNSAFE: Row(412),
    K.UNAUTHENTICATED: Row(401, "error authenticating request"),
    K.PERMISSION_DENIED: Row(401, "insufficient permissions"),
    K.PROTECTED_BRANCH: Row(
        403,
        "cannot write to protected branch",
        on={
            "commit": "cannot commit to protected branch",
            "mergeIntoBranch": "cannot commit to protected branch",
            "revertBranch": "cannot commit to protected branch",
            "cherryPick": "cannot commit to protected branch",
            "deleteBranch": "cannot commit to protected branch",
        },
    ),
    K.READ_ONLY_REPO: Row(403, "read-only repository"),
    K.DEFAULT_BRANCH: Row(403, "cannot delete repository default branch"),
    K.EXTERNAL_ADDRESS: Row(403),
    K.FOREIGN_PAGE: Row(403),
    K.STORE_UNAVAILABLE: Row(503),
    K.OUTCOME_UNKNOWN: Row(503),
    K.DISK_FULL: Row(503),
    K.IN_USE: Row(503),
    K.TOO_MANY_LAYERS: Row(429),
    K.CANCELLED: Row(503),
    K.SPARK_FAILED: Row(503),
    K.WORKER_BUSY: Row(503),
    K.TOO_MANY_LOGINS: Row(429),
    K.HELPER_DIED: Row(503),
    K.LEASE_LOST: Row(409),
    K.REPO_TAKEN_OVER: Row(409),
    K.CHECKSUM_MISMATCH: Row(500),
    K.KEYS_OUT_OF_ORDER: Row(500),
    K.UNREADABLE: Row(500),
    K.FILE_MISSING: Row(500),
    K.NEWER_VERSION: Row(500),
}


def status_of(kind: ErrorKind, asked: Asked) -> int:
    """Return the status of an error."""
    row = ROWS[kind]
    return row.statuses.get(asked.operation, row.status)


def phrase_of(kind: ErrorKind, asked: Asked, *, about: str = "") -> str | None:
    """Return the reference's phrase for an error of a request; None where it has none.

    `about` is the text of the request that the error is about, if it is about one: the first parameter with that value
    decides.
    """
    row = ROWS[kind]
    template = row.phrase
    if row.on:
        template = row.on.get(asked.operation, template)
        if about:
            keys = (f"{asked.operation}:{name}" for name, value in asked.given.items() if value == about)
            template = next((row.on[key] for key in keys if key in row.on), template)
    if not template:
        return None
    if "{" not in template:
        return template
    return template.format_map(_Given(asked.given))


def message_and_detail(kind: ErrorKind, text: str, asked: Asked, *, about: str = "") -> tuple[str, str]:
    """Return what an error with our `text` is answered with; no detail where it would only repeat the message."""
    phrase = phrase_of(kind, asked, about=about)
    return (text, "") if phrase is None or phrase == text else (phrase, text)


def phrased(error: LakebedError, asked: Asked) -> tuple[str, str]:
    """Return the message and the detail of an error."""
    if isinstance(error, MalformedError):
        phrase = ROWS[error.kind].on.get(f"{asked.operation}:{error.field}") or error.phrase
        return (phrase, str(error)) if phrase else (str(error), "")
    return message_and_detail(error.kind, str(error), asked, about=error.about)


class _Given(dict[str, "_Text"]):
    def __init__(self, given: Mapping[str, str]) -> None:
        super().__init__((name, _Text(value)) for name, value in given.items())

    def __missing__(self, name: str) -> "_Text":
        return _Text("")


class _Text(str):
    """A text of the request in a phrase: cut if it is long, or with `:bytes` its length."""

    __slots__ = ()

    def __format__(self, spec: str) -> str:
        return str(len(self.encode("utf-8", "surrogatepass"))) if spec == "bytes" else cut(self)
