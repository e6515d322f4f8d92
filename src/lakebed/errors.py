"""Every error lakebed raises on purpose, grouped by what the caller should do next.

    LakebedError
    ├── InvalidInputError      fix the request; a retry will fail the same way
    ├── NotFoundError          the named thing does not exist
    ├── AlreadyExistsError     choose another name, or use what is there
    ├── ConflictError          someone else won; read again, then decide again
    ├── PreconditionError      the caller's own condition does not hold
    ├── DeniedError            the caller may not do this
    ├── UnavailableError       try again later, with backoff
    ├── FencedError            this process lost its lease; stop this work now
    └── CorruptError           stored bytes broke an invariant; wake a human

The class says what to do. `kind` says exactly what happened, and is part of
the public API: kinds are only ever added. The message is for people, names the
next step where there is one, and may change in any release. The REST edge sends it
as `detail`, beside the reference's phrase for the kind (`lakebed.api.phrases`).

A text that came from outside is quoted with `quoted`, which bounds its length.
"""

from enum import StrEnum
from typing import Self

from lakebed.limits import NAME_SHOWN_MAX


class ErrorKind(StrEnum):
    """What went wrong, as a code that programs may rely on. Append only."""

    INVALID_REPO_NAME = "invalid-repo-name"
    INVALID_BRANCH_NAME = "invalid-branch-name"
    INVALID_TAG_NAME = "invalid-tag-name"
    INVALID_REF = "invalid-ref"
    INVALID_PATH = "invalid-path"
    INVALID_NAMESPACE = "invalid-namespace"
    INVALID_ADDRESS = "invalid-address"
    INVALID_ARGUMENT = "invalid-argument"
    INVALID_CONFIG = "invalid-config"
    INVALID_KEY = "invalid-key"
    INVALID_AUTH_ID = "invalid-auth-id"
    INVALID_POLICY = "invalid-policy"
    INVALID_ACL = "invalid-acl"
    UNSUPPORTED = "unsupported"
    NAMESPACE_IN_USE = "namespace-in-use"
    DIRTY_BRANCH = "dirty-branch"
    NO_CHANGES = "no-changes"
    PARENT_OUT_OF_RANGE = "parent-out-of-range"
    PARENT_NEEDED = "parent-needed"
    NOT_A_COMMIT = "not-a-commit"
    RANGE_NOT_SATISFIABLE = "range-not-satisfiable"
    TOO_LARGE = "too-large"
    LINK_REFUSED = "link-refused"
    INVALID_PART = "invalid-part"
    PART_ORDER = "part-order"
    PART_TOO_SMALL = "part-too-small"
    NO_PARTS = "no-parts"
    NOT_BARE = "not-bare"
    NO_PRESIGNED_URLS = "no-presigned-urls"

    REPO_NOT_FOUND = "repo-not-found"
    BRANCH_NOT_FOUND = "branch-not-found"
    TAG_NOT_FOUND = "tag-not-found"
    COMMIT_NOT_FOUND = "commit-not-found"
    REF_NOT_FOUND = "ref-not-found"
    OBJECT_NOT_FOUND = "object-not-found"
    KEY_NOT_FOUND = "key-not-found"
    UPLOAD_NOT_FOUND = "upload-not-found"
    STASH_NOT_FOUND = "stash-not-found"
    TASK_NOT_FOUND = "task-not-found"
    JOB_NOT_FOUND = "job-not-found"
    MERGE_BASE_NOT_FOUND = "merge-base-not-found"
    USER_NOT_FOUND = "user-not-found"
    GROUP_NOT_FOUND = "group-not-found"
    POLICY_NOT_FOUND = "policy-not-found"
    ACCESS_KEY_NOT_FOUND = "access-key-not-found"
    MEMBERSHIP_NOT_FOUND = "membership-not-found"
    ATTACHMENT_NOT_FOUND = "attachment-not-found"
    ACL_NOT_FOUND = "acl-not-found"
    GC_RULES_NOT_FOUND = "gc-rules-not-found"
    RULE_NOT_FOUND = "rule-not-found"
    GC_RUN_NOT_FOUND = "gc-run-not-found"
    REPO_IN_DELETION = "repo-in-deletion"
    DATA_MISSING = "data-missing"

    REPO_EXISTS = "repo-exists"
    BRANCH_EXISTS = "branch-exists"
    TAG_EXISTS = "tag-exists"
    COMMIT_EXISTS = "commit-exists"
    KEY_EXISTS = "key-exists"
    USER_EXISTS = "user-exists"
    GROUP_EXISTS = "group-exists"
    POLICY_EXISTS = "policy-exists"
    ACCESS_KEY_EXISTS = "access-key-exists"
    MEMBERSHIP_EXISTS = "membership-exists"
    ATTACHMENT_EXISTS = "attachment-exists"
    ALREADY_SET_UP = "already-set-up"
    RULE_EXISTS = "rule-exists"

    VERSION_CHANGED = "version-changed"
    FENCE_LOST = "fence-lost"
    ROW_CHANGED = "row-changed"
    TOO_LATE = "too-late"
    MERGE_CONFLICT = "merge-conflict"
    TOO_MANY_RETRIES = "too-many-retries"
    TASK_COMPLETED = "task-completed"
    GC_RUNNING = "gc-running"
    RESTORE_INCOMPLETE = "restore-incomplete"
    OUTCOME_FORGOTTEN = "outcome-forgotten"

    CONDITION_FAILED = "condition-failed"
    GC_UNSAFE = "gc-unsafe"

    UNAUTHENTICATED = "unauthenticated"
    PERMISSION_DENIED = "permission-denied"
    PROTECTED_BRANCH = "protected-branch"
    READ_ONLY_REPO = "read-only-repo"
    DEFAULT_BRANCH = "default-branch"
    EXTERNAL_ADDRESS = "external-address"
    FOREIGN_PAGE = "foreign-page"

    STORE_UNAVAILABLE = "store-unavailable"
    OUTCOME_UNKNOWN = "outcome-unknown"
    DISK_FULL = "disk-full"
    IN_USE = "in-use"
    TOO_MANY_LAYERS = "too-many-layers"
    CANCELLED = "cancelled"
    SPARK_FAILED = "spark-failed"
    WORKER_BUSY = "worker-busy"
    TOO_MANY_LOGINS = "too-many-logins"
    HELPER_DIED = "helper-died"

    LEASE_LOST = "lease-lost"
    REPO_TAKEN_OVER = "repo-taken-over"

    CHECKSUM_MISMATCH = "checksum-mismatch"
    KEYS_OUT_OF_ORDER = "keys-out-of-order"
    UNREADABLE = "unreadable"
    FILE_MISSING = "file-missing"
    NEWER_VERSION = "newer-version"


class LakebedError(Exception):
    """Base of everything below; catch it only at the edge of the process.

    `about` is the text of the request that the error is about, where a request has more than one such text (two refs,
    two conditions): the phrase depends on which one it is.
    """

    def __init__(self, kind: ErrorKind, message: str, *, about: str = "") -> None:
        super().__init__(message)
        self.kind = kind
        self.about = about

    def __reduce__(self) -> tuple[type[Self], tuple[ErrorKind, str], dict[str, str]]:
        # A worker process hands its errors over by pickling them.
        return type(self), (self.kind, str(self)), {"about": self.about}


class InvalidInputError(LakebedError, ValueError):
    """The request can never succeed as written."""


class NotFoundError(LakebedError, LookupError):
    """The named thing does not exist, or no longer does."""


class AlreadyExistsError(LakebedError):
    """The name is taken."""


class ConflictError(LakebedError):
    """Someone else changed the thing first; nothing was written."""


class PreconditionError(LakebedError):
    """The caller asked for a condition that does not hold; nothing was written."""


class DeniedError(LakebedError):
    """The caller may not do this."""


class UnavailableError(LakebedError):
    """A dependency did not answer. With `OUTCOME_UNKNOWN`, a write may have been applied."""


class FencedError(LakebedError):
    """This process lost the right to go on with what it was doing."""


class CorruptError(LakebedError):
    """Stored bytes broke an invariant."""


def is_unknown(error: LakebedError) -> bool:
    """Return whether the write that failed with `error` may have been applied."""
    return error.kind is ErrorKind.OUTCOME_UNKNOWN


def quoted(text: str) -> str:
    """Return a text that came from outside, in quotes, for an error's message; a long one is cut.

    Requests may carry names of any length. An error that repeated them whole would fill logs and terminals.
    """
    return repr(cut(text))


def cut(text: str) -> str:
    """Return the beginning of a long text, with a mark where it was cut, and a short one as it is."""
    return text if len(text) <= NAME_SHOWN_MAX else f"{text[:NAME_SHOWN_MAX]}…"
