"""Policies."""

from collections.abc import Sequence

import msgspec

from lakebed.api.arns import EVERYTHING, POLICY, on
from lakebed.api.auth_bodies import PolicyBody, StatementBody, auth_page, policy_body
from lakebed.api.call import Call
from lakebed.api.operation import Operations
from lakebed.api.pages import PageOf, PageQuery, wanted
from lakebed.api.reply import empty_reply, json_reply
from lakebed.auth.actions import Action
from lakebed.auth.statements import StatementDocument
from lakebed.errors import ErrorKind, InvalidInputError, quoted
from lakebed.http.reply import Reply

operations = Operations("auth")


class PolicyUpdate(msgspec.Struct):
    """The statements that replace the present ones. The path names the policy, and `id` can only repeat it."""

    statement: list[StatementBody]
    id: str = ""


@operations.add(
    "GET",
    "/auth/policies",
    "listPolicies",
    query=PageQuery,
    replies={200: PageOf[PolicyBody]},
    permissions=on(EVERYTHING, Action.LIST_POLICIES),
)
async def list_policies(call: Call) -> Reply:
    """List policies."""
    query = call.query(PageQuery)
    found = await call.session.policies.list(
        prefix=query.prefix, after=query.after, amount=wanted(query.amount)
    )
    return json_reply(200, auth_page(found, policy_body, lambda policy: policy.id))


@operations.add(
    "POST",
    "/auth/policies",
    "createPolicy",
    body=PolicyBody,
    replies={201: PolicyBody},
    permissions=on("arn:lakefs:auth:::policy/{body.id}", Action.CREATE_POLICY),
)
async def create_policy(call: Call) -> Reply:
    """Create a policy."""
    body = call.body(PolicyBody)
    created = await call.session.policies.create(body.id, _documents(body.statement))
    return json_reply(201, policy_body(created))


@operations.add(
    "GET",
    "/auth/policies/{policyId}",
    "getPolicy",
    replies={200: PolicyBody},
    permissions=on(POLICY, Action.READ_POLICY),
)
async def get_policy(call: Call) -> Reply:
    """Get a policy."""
    return json_reply(200, policy_body(await call.session.policies.get(call.path["policyId"])))


@operations.add(
    "PUT",
    "/auth/policies/{policyId}",
    "updatePolicy",
    body=PolicyUpdate,
    replies={200: PolicyBody},
    permissions=on(POLICY, Action.UPDATE_POLICY),
)
async def update_policy(call: Call) -> Reply:
    """Replace the statements of a policy."""
    body, policy = call.body(PolicyUpdate), call.path["policyId"]
    if body.id not in ("", policy):
        raise InvalidInputError(
            ErrorKind.INVALID_ARGUMENT,
            f"policy {quoted(policy)} cannot be renamed to {quoted(body.id)}: create that one and delete this one",
        )
    changed = await call.session.policies.update(policy, _documents(body.statement))
    return json_reply(200, policy_body(changed))


@operations.add(
    "DELETE",
    "/auth/policies/{policyId}",
    "deletePolicy",
    replies={204: None},
    permissions=on(POLICY, Action.DELETE_POLICY),
)
async def delete_policy(call: Call) -> Reply:
    """Delete a policy: it counts for nobody any more."""
    await call.session.policies.delete(call.path["policyId"])
    return empty_reply(204)


def _documents(statements: Sequence[StatementBody]) -> list[StatementDocument]:
    return [
        StatementDocument(
            effect=each.effect, action=each.action, resource=each.resource, condition=each.condition
        )
        for each in statements
    ]
