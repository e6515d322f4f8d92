"""Error kinds to HTTP statuses: the one table, which a test proves complete."""

from typing import Final

import msgspec

from lakebed.api.reply import json_reply
from lakebed.errors import ErrorKind, LakebedError
from lakebed.http.reply import Headers, Reply
from lakebed.telemetry.failures import failure_fields
from lakebed.telemetry.log import get_logger

log = get_logger(__name__)

K = ErrorKind

STATUS: Final[dict[ErrorKind, int]] = {
    K.INVALID_REPO_NAME: 400,
    K.INVALID_BRANCH_NAME: 400,
    K.INVALID_TAG_NAME: 400,
    K.INVALID_REF: 400,
    K.INVALID_PATH: 400,
    K.INVALID_NAMESPACE: 400,
    K.INVALID_ADDRESS: 400,
    K.INVALID_ARGUMENT: 400,
    K.INVALID_CONFIG: 400,
    K.INVALID_KEY: 400,
    K.INVALID_AUTH_ID: 400,
    K.INVALID_POLICY: 400,
    K.INVALID_ACL: 400,
    K.UNSUPPORTED: 501,
    K.NAMESPACE_IN_USE: 400,
    K.DIRTY_BRANCH: 400,
    K.NO_CHANGES: 400,
    K.PARENT_OUT_OF_RANGE: 400,
    K.NOT_A_COMMIT: 400,
    K.RANGE_NOT_SATISFIABLE: 416,
    K.TOO_LARGE: 400,
    K.LINK_REFUSED: 400,
    K.INVALID_PART: 400,
    K.PART_ORDER: 400,
    K.PART_TOO_SMALL: 400,
    K.REPO_NOT_FOUND: 404,
    K.BRANCH_NOT_FOUND: 404,
    K.TAG_NOT_FOUND: 404,
    K.COMMIT_NOT_FOUND: 404,
    K.REF_NOT_FOUND: 404,
    K.OBJECT_NOT_FOUND: 404,
    K.KEY_NOT_FOUND: 404,
    K.UPLOAD_NOT_FOUND: 404,
    K.STASH_NOT_FOUND: 404,
    K.TASK_NOT_FOUND: 404,
    K.JOB_NOT_FOUND: 404,
    K.MERGE_BASE_NOT_FOUND: 404,
    K.USER_NOT_FOUND: 404,
    K.GROUP_NOT_FOUND: 404,
    K.POLICY_NOT_FOUND: 404,
    K.ACCESS_KEY_NOT_FOUND: 404,
    K.MEMBERSHIP_NOT_FOUND: 404,
    K.ATTACHMENT_NOT_FOUND: 404,
    K.ACL_NOT_FOUND: 404,
    K.GC_RULES_NOT_FOUND: 404,
    K.RULE_NOT_FOUND: 404,
    K.GC_RUN_NOT_FOUND: 404,
    K.REPO_IN_DELETION: 410,
    K.DATA_MISSING: 410,
    K.REPO_EXISTS: 409,
    K.BRANCH_EXISTS: 409,
    K.TAG_EXISTS: 409,
    K.COMMIT_EXISTS: 409,
    K.KEY_EXISTS: 409,
    K.USER_EXISTS: 409,
    K.GROUP_EXISTS: 409,
    K.POLICY_EXISTS: 409,
    K.ACCESS_KEY_EXISTS: 409,
    K.MEMBERSHIP_EXISTS: 409,
    K.ATTACHMENT_EXISTS: 409,
    K.ALREADY_SET_UP: 409,
    K.RULE_EXISTS: 409,
    K.VERSION_CHANGED: 409,
    K.FENCE_LOST: 409,
    K.ROW_CHANGED: 409,
    K.TOO_LATE: 400,
    K.MERGE_CONFLICT: 409,
    K.TOO_MANY_RETRIES: 429,
    K.TASK_COMPLETED: 409,
    K.GC_RUNNING: 409,
    K.RESTORE_INCOMPLETE: 409,
    K.OUTCOME_FORGOTTEN: 409,
    K.CONDITION_FAILED: 412,
    K.GC_UNSAFE: 412,
    K.UNAUTHENTICATED: 401,
    K.PERMISSION_DENIED: 401,
    K.PROTECTED_BRANCH: 403,
    K.READ_ONLY_REPO: 403,
    K.DEFAULT_BRANCH: 403,
    K.EXTERNAL_ADDRESS: 403,
    K.FOREIGN_PAGE: 403,
    K.STORE_UNAVAILABLE: 503,
    K.OUTCOME_UNKNOWN: 503,
    K.DISK_FULL: 503,
    K.IN_USE: 503,
    K.TOO_MANY_LAYERS: 429,
    K.CANCELLED: 503,
    K.SPARK_FAILED: 503,
    K.WORKER_BUSY: 503,
    K.TOO_MANY_LOGINS: 429,
    K.HELPER_DIED: 503,
    K.LEASE_LOST: 409,
    K.REPO_TAKEN_OVER: 409,
    K.CHECKSUM_MISMATCH: 500,
    K.KEYS_OUT_OF_ORDER: 500,
    K.UNREADABLE: 500,
    K.FILE_MISSING: 500,
    K.NEWER_VERSION: 500,
}

_BUG: Final = 500
_RETRY_AFTER: Final = ((b"retry-after", b"1"),)
# Clients of other servers look at status and message only; ours raises the very kind.
_KIND_HEADER: Final = b"x-lakebed-error-kind"


class ErrorBody(msgspec.Struct):
    """The one error body the API has."""

    message: str


def error_reply(error: LakebedError, *, headers: Headers = ()) -> Reply:
    """Return an error as its status and body, with more `headers` where its status wants some."""
    status = STATUS[error.kind]
    kind = ((_KIND_HEADER, error.kind.value.encode()),)
    retry_after = _RETRY_AFTER if status in (429, 503) else ()
    return json_reply(status, ErrorBody(str(error)), headers=(*kind, *retry_after, *headers))


def unexpected_reply(error: Exception, *, request_id: str) -> Reply:
    """Log a bug of ours, and return what the client is told of it: under which id to look for it."""
    log.error("request_failed", request_id=request_id, **failure_fields(error))
    return json_reply(
        _BUG, ErrorBody(f"internal error: the server's log has more about request {request_id}")
    )
