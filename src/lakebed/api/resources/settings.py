"""A repository's settings: retention rules and branch protection, each under an old path too."""

from typing import Annotated

import msgspec

from lakebed.api.arns import OBJECT, on, on_repository
from lakebed.api.call import Call
from lakebed.api.numbers import Days
from lakebed.api.operation import Operations
from lakebed.api.reply import empty_reply, json_reply
from lakebed.api.resources.objects import PathQuery
from lakebed.auth.actions import Action
from lakebed.catalog.settings import BLOCKED
from lakebed.http.reply import Reply
from lakebed.model.gc_rules import GcRules
from lakebed.model.repository import BranchProtection

operations = Operations("repositories")


class GarbageCollectionRule(msgspec.Struct):
    """How long what a branch no longer shows is kept."""

    branch_id: str
    retention_days: Days


class GarbageCollectionRules(msgspec.Struct):
    """How long what no branch shows any more is kept."""

    default_retention_days: Days
    branches: list[GarbageCollectionRule]


class BranchProtectionRule(msgspec.Struct):
    """Branches that only merges may change: a glob of their names."""

    pattern: Annotated[str, msgspec.Meta(min_length=1)]


class IfMatchHeader(msgspec.Struct, rename={"if_match": "If-Match"}):
    """The ETag of the rules that are replaced; empty if there must be none."""

    if_match: str | None = None


_READ_GC = on_repository(Action.GET_GC_RULES)
_SET_GC = on_repository(Action.SET_GC_RULES)
_READ_PROTECTION = on_repository(Action.GET_BRANCH_PROTECTION_RULES)
_SET_PROTECTION = on_repository(Action.SET_BRANCH_PROTECTION_RULES)


@operations.add(
    "GET",
    "/repositories/{repository}/gc/rules",
    "internalGetGarbageCollectionRules",
    replies={200: GarbageCollectionRules},
    permissions=_READ_GC,
    tag="internal",
    deprecated=True,
)
@operations.add(
    "GET",
    "/repositories/{repository}/settings/gc_rules",
    "getGCRules",
    replies={200: GarbageCollectionRules},
    permissions=_READ_GC,
)
async def get_gc_rules(call: Call) -> Reply:
    """Get the retention rules."""
    rules = await call.session.settings.gc_rules(call.path["repository"])
    branches = [GarbageCollectionRule(name, days) for name, days in rules.branches.items()]
    return json_reply(200, GarbageCollectionRules(rules.default_days, branches))


@operations.add(
    "POST",
    "/repositories/{repository}/gc/rules",
    "internalSetGarbageCollectionRules",
    body=GarbageCollectionRules,
    replies={204: None},
    permissions=_SET_GC,
    tag="internal",
    deprecated=True,
)
@operations.add(
    "PUT",
    "/repositories/{repository}/settings/gc_rules",
    "setGCRules",
    body=GarbageCollectionRules,
    replies={204: None},
    permissions=_SET_GC,
)
async def set_gc_rules(call: Call) -> Reply:
    """Replace the retention rules."""
    body = call.body(GarbageCollectionRules)
    branches = {each.branch_id: each.retention_days for each in body.branches}
    await call.session.settings.set_gc_rules(
        call.path["repository"], GcRules(default_days=body.default_retention_days, branches=branches)
    )
    return empty_reply(204)


@operations.add(
    "DELETE",
    "/repositories/{repository}/gc/rules",
    "internalDeleteGarbageCollectionRules",
    replies={204: None},
    permissions=_SET_GC,
    tag="internal",
    deprecated=True,
)
@operations.add(
    "DELETE",
    "/repositories/{repository}/settings/gc_rules",
    "deleteGCRules",
    replies={204: None},
    permissions=_SET_GC,
)
async def delete_gc_rules(call: Call) -> Reply:
    """Remove the retention rules."""
    await call.session.settings.delete_gc_rules(call.path["repository"])
    return empty_reply(204)


@operations.add(
    "GET",
    "/repositories/{repository}/gc/rules/set_allowed",
    "setGarbageCollectionRulesPreflight",
    replies={204: None},
    permissions=_SET_GC,
    tag="internal",
)
async def may_set_gc_rules(call: Call) -> Reply:
    """Say whether the caller may set the retention rules."""
    await call.session.settings.may_set_gc_rules(call.path["repository"])
    return empty_reply(204)


@operations.add(
    "GET",
    "/repositories/{repository}/branch_protection",
    "internalGetBranchProtectionRules",
    replies={200: list[BranchProtectionRule]},
    permissions=_READ_PROTECTION,
    tag="internal",
    deprecated=True,
)
@operations.add(
    "GET",
    "/repositories/{repository}/settings/branch_protection",
    "getBranchProtectionRules",
    replies={200: list[BranchProtectionRule]},
    permissions=_READ_PROTECTION,
)
async def get_protection(call: Call) -> Reply:
    """Get the branch protection rules, with an ETag to replace them by."""
    found, etag = await call.session.repositories.branch_protection(call.path["repository"])
    rules = [BranchProtectionRule(pattern) for pattern in found.rules]
    return json_reply(200, rules, headers=((b"etag", etag.encode()),))


@operations.add(
    "PUT",
    "/repositories/{repository}/settings/branch_protection",
    "setBranchProtectionRules",
    headers=IfMatchHeader,
    body=list[BranchProtectionRule],
    replies={204: None},
    permissions=_SET_PROTECTION,
)
async def set_protection(call: Call) -> Reply:
    """Replace the branch protection rules."""
    rules = {rule.pattern: BLOCKED for rule in call.body(list[BranchProtectionRule])}
    await call.session.repositories.set_branch_protection(
        call.path["repository"],
        BranchProtection(rules=rules),
        if_match=call.headers(IfMatchHeader).if_match,
    )
    return empty_reply(204)


@operations.add(
    "POST",
    "/repositories/{repository}/branch_protection",
    "internalCreateBranchProtectionRule",
    body=BranchProtectionRule,
    replies={204: None},
    permissions=_SET_PROTECTION,
    tag="internal",
    deprecated=True,
)
async def add_protection(call: Call) -> Reply:
    """Protect the branches that match one more pattern."""
    await call.session.settings.add_protection(
        call.path["repository"], call.body(BranchProtectionRule).pattern
    )
    return empty_reply(204)


@operations.add(
    "DELETE",
    "/repositories/{repository}/branch_protection",
    "internalDeleteBranchProtectionRule",
    body=BranchProtectionRule,
    replies={204: None},
    permissions=_SET_PROTECTION,
    tag="internal",
    deprecated=True,
)
async def remove_protection(call: Call) -> Reply:
    """No longer protect the branches that match a pattern."""
    await call.session.settings.remove_protection(
        call.path["repository"], call.body(BranchProtectionRule).pattern
    )
    return empty_reply(204)


@operations.add(
    "GET",
    "/repositories/{repository}/branch_protection/set_allowed",
    "createBranchProtectionRulePreflight",
    replies={204: None},
    permissions=_SET_PROTECTION,
    tag="internal",
)
async def may_protect(call: Call) -> Reply:
    """Say whether the caller may set branch protection rules."""
    await call.session.settings.may_protect_branches(call.path["repository"])
    return empty_reply(204)


@operations.add(
    "GET",
    "/repositories/{repository}/branches/{branch}/objects/stage_allowed",
    "uploadObjectPreflight",
    query=PathQuery,
    replies={204: None},
    permissions=on(OBJECT, Action.WRITE_OBJECT),
    tag="internal",
)
async def may_write(call: Call) -> Reply:
    """Say whether the caller may write an object to a branch."""
    await call.session.settings.may_write(
        call.path["repository"], call.path["branch"], call.query(PathQuery).path
    )
    return empty_reply(204)
