"""`Action`: everything that a policy can allow or deny, by the names that lakeFS policies use.

An operation asks for one of these. A policy may name others (of a newer version, of
features that we do not have): they match nothing that is ever asked for.
"""

import re
from enum import StrEnum

# A service, then a name in which wildcards are allowed; or everything.
_PATTERN = re.compile(r"(fs|auth|ci|retention|branches|pr|catalog|compaction):[A-Za-z*?]+|\*")


class Action(StrEnum):
    """What an operation does, as policies name it."""

    READ_REPOSITORY = "fs:ReadRepository"
    CREATE_REPOSITORY = "fs:CreateRepository"
    UPDATE_REPOSITORY = "fs:UpdateRepository"
    DELETE_REPOSITORY = "fs:DeleteRepository"
    LIST_REPOSITORIES = "fs:ListRepositories"
    ATTACH_STORAGE_NAMESPACE = "fs:AttachStorageNamespace"
    IMPORT_FROM_STORAGE = "fs:ImportFromStorage"
    IMPORT_CANCEL = "fs:ImportCancel"
    READ_OBJECT = "fs:ReadObject"
    WRITE_OBJECT = "fs:WriteObject"
    DELETE_OBJECT = "fs:DeleteObject"
    LIST_OBJECTS = "fs:ListObjects"
    CREATE_COMMIT = "fs:CreateCommit"
    CREATE_META_RANGE = "fs:CreateMetaRange"
    READ_COMMIT = "fs:ReadCommit"
    LIST_COMMITS = "fs:ListCommits"
    CREATE_BRANCH = "fs:CreateBranch"
    DELETE_BRANCH = "fs:DeleteBranch"
    READ_BRANCH = "fs:ReadBranch"
    REVERT_BRANCH = "fs:RevertBranch"
    LIST_BRANCHES = "fs:ListBranches"
    CREATE_TAG = "fs:CreateTag"
    DELETE_TAG = "fs:DeleteTag"
    READ_TAG = "fs:ReadTag"
    LIST_TAGS = "fs:ListTags"
    READ_CONFIG = "fs:ReadConfig"

    READ_USER = "auth:ReadUser"
    CREATE_USER = "auth:CreateUser"
    DELETE_USER = "auth:DeleteUser"
    LIST_USERS = "auth:ListUsers"
    READ_GROUP = "auth:ReadGroup"
    CREATE_GROUP = "auth:CreateGroup"
    DELETE_GROUP = "auth:DeleteGroup"
    LIST_GROUPS = "auth:ListGroups"
    ADD_GROUP_MEMBER = "auth:AddGroupMember"
    REMOVE_GROUP_MEMBER = "auth:RemoveGroupMember"
    READ_POLICY = "auth:ReadPolicy"
    CREATE_POLICY = "auth:CreatePolicy"
    UPDATE_POLICY = "auth:UpdatePolicy"
    DELETE_POLICY = "auth:DeletePolicy"
    LIST_POLICIES = "auth:ListPolicies"
    ATTACH_POLICY = "auth:AttachPolicy"
    DETACH_POLICY = "auth:DetachPolicy"
    READ_CREDENTIALS = "auth:ReadCredentials"
    CREATE_CREDENTIALS = "auth:CreateCredentials"
    DELETE_CREDENTIALS = "auth:DeleteCredentials"
    LIST_CREDENTIALS = "auth:ListCredentials"
    READ_EXTERNAL_PRINCIPAL = "auth:ReadExternalPrincipal"
    CREATE_USER_EXTERNAL_PRINCIPAL = "auth:CreateUserExternalPrincipal"
    DELETE_USER_EXTERNAL_PRINCIPAL = "auth:DeleteUserExternalPrincipal"

    READ_ACTION = "ci:ReadAction"

    GET_GC_RULES = "retention:GetGarbageCollectionRules"
    SET_GC_RULES = "retention:SetGarbageCollectionRules"
    PREPARE_GC_COMMITS = "retention:PrepareGarbageCollectionCommits"
    PREPARE_GC_UNCOMMITTED = "retention:PrepareGarbageCollectionUncommitted"
    RUN_GC = "retention:RunGarbageCollection"
    GET_GC_RUNS = "retention:GetGarbageCollectionRuns"
    ADOPT_REPOSITORY = "retention:AdoptRepository"

    GET_BRANCH_PROTECTION_RULES = "branches:GetBranchProtectionRules"
    SET_BRANCH_PROTECTION_RULES = "branches:SetBranchProtectionRules"

    READ_PULL_REQUEST = "pr:ReadPullRequest"
    WRITE_PULL_REQUEST = "pr:WritePullRequest"
    LIST_PULL_REQUESTS = "pr:ListPullRequests"

    READ_COMPACTION = "compaction:ReadCompaction"
    CONTROL_COMPACTION = "compaction:ControlCompaction"


def is_action_pattern(text: str) -> bool:
    """Return whether a statement may name `text` as an action: one of ours, one we do not know, or a pattern."""
    return _PATTERN.fullmatch(text) is not None
