import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.auth.actions import Action
from lakebed.auth.arns import object_arn, repository_arn, user_arn
from lakebed.auth.caller import DENIED_TEXT, SYSTEM, Caller
from lakebed.auth.decisions import Allowed, Denied, Permissions, decide
from lakebed.auth.wildcards import matches, may_begin
from lakebed.env.clock import Instant
from lakebed.errors import DeniedError, ErrorKind, InvalidInputError
from lakebed.model.auth import Effect, Incarnation, Policy, PolicyId, Statement
from tests.unit.auth.naive import naive_may


def policy(name: str, *statements: tuple[Effect, str, str]) -> Policy:
    return Policy(
        id=PolicyId(name),
        incarnation=Incarnation("i"),
        created_at=Instant(0),
        statements=tuple(
            Statement(effect=effect, actions=(action,), resource=resource)
            for effect, action, resource in statements
        ),
    )


READ_LAKE = policy("ReadLake", (Effect.ALLOW, "fs:Read*", "arn:lakefs:fs:::repository/lake*"))
NO_SECRETS = policy("NoSecrets", (Effect.DENY, "fs:*", "arn:lakefs:fs:::repository/*/object/secret/*"))
ALL = policy("All", (Effect.ALLOW, "fs:*", "*"))


def test_what_no_policy_allows_is_denied() -> None:
    assert decide([], Action.READ_OBJECT, object_arn("lake", "a"), user="ann") == Denied(
        "no policy allows fs:ReadObject on arn:lakefs:fs:::repository/lake/object/a"
    )
    assert isinstance(decide([READ_LAKE], Action.WRITE_OBJECT, object_arn("lake", "a"), user="ann"), Denied)
    assert isinstance(decide([READ_LAKE], Action.READ_OBJECT, object_arn("sea", "a"), user="ann"), Denied)


def test_what_a_policy_allows_is_allowed() -> None:
    assert decide([READ_LAKE], Action.READ_OBJECT, object_arn("lake", "a"), user="ann") == Allowed()


@pytest.mark.parametrize("policies", [[ALL, NO_SECRETS], [NO_SECRETS, ALL]])
def test_a_deny_counts_whatever_else_allows(policies: list[Policy]) -> None:
    assert decide(policies, Action.READ_OBJECT, object_arn("lake", "a"), user="ann") == Allowed()
    assert decide(policies, Action.READ_OBJECT, object_arn("lake", "secret/a"), user="ann") == Denied(
        "policy NoSecrets denies fs:ReadObject on arn:lakefs:fs:::repository/lake/object/secret/a"
    )


def test_a_deny_of_everything_leaves_nothing() -> None:
    policies = [ALL, policy("Suspended", (Effect.DENY, "*", "*"))]
    assert isinstance(decide(policies, Action.READ_OBJECT, object_arn("lake", "a"), user="ann"), Denied)


def test_an_operation_on_nothing_in_particular_needs_a_policy_on_everything() -> None:
    on_all_arns = policy("Arns", (Effect.ALLOW, "fs:*", "arn:lakefs:fs:::*"))
    assert isinstance(decide([on_all_arns], Action.READ_CONFIG, "*", user="ann"), Denied)
    assert decide([ALL], Action.READ_CONFIG, "*", user="ann") == Allowed()


def test_actions_that_nobody_asks_for_do_no_harm() -> None:
    odd = policy("Odd", (Effect.ALLOW, "catalog:ReadTable", "*"), (Effect.DENY, "iceberg", "nonsense"))
    assert decide([odd, ALL], Action.READ_OBJECT, object_arn("lake", "a"), user="ann") == Allowed()


def test_own_credentials_are_ones_own() -> None:
    own = policy("Own", (Effect.ALLOW, "auth:*Credentials", "arn:lakefs:auth:::user/${user}"))
    assert decide([own], Action.CREATE_CREDENTIALS, user_arn("ann"), user="ann") == Allowed()
    assert isinstance(decide([own], Action.CREATE_CREDENTIALS, user_arn("bob"), user="ann"), Denied)
    assert isinstance(decide([own], Action.DELETE_USER, user_arn("ann"), user="ann"), Denied)


def test_the_system_may_do_everything() -> None:
    for action in Action:
        SYSTEM.require(action, "*")
        SYSTEM.require(action, repository_arn("lake"))


def test_a_denied_caller_learns_nothing_about_policies() -> None:
    with pytest.raises(DeniedError) as caught:
        SYSTEM.__class__(id="ann", permissions=Permissions([], user="ann")).require("fs:ReadObject", "*")
    assert caught.value.kind is ErrorKind.PERMISSION_DENIED
    assert str(caught.value) == DENIED_TEXT == "insufficient permissions"


actions = st.sampled_from(["fs:ReadObject", "fs:ReadRepository", "fs:WriteObject", "auth:ReadUser"])
action_patterns = st.sampled_from(["fs:ReadObject", "fs:Read*", "fs:*", "*", "*:Read????", "auth:*", "ci:*"])
resources = st.sampled_from(
    ["*", repository_arn("a"), repository_arn("ab"), object_arn("a", "x/y"), user_arn("ann"), user_arn("bob")]
)
resource_patterns = st.sampled_from(
    [
        "*",
        repository_arn("a"),
        repository_arn("a*"),
        repository_arn("?"),
        repository_arn("*/y"),
        user_arn("${user}"),
        "arn:lakefs:auth:::*",
        f'["{repository_arn("ab")}", "{user_arn("bob")}"]',
        f"[{repository_arn('a')},*]",
        "nonsense",
    ]
)
statements = st.builds(
    lambda effect, acts, resource: Statement(effect=effect, actions=tuple(acts), resource=resource),
    st.sampled_from(Effect),
    st.lists(action_patterns, min_size=1, max_size=3),
    resource_patterns,
)
policies = st.lists(
    st.lists(statements, max_size=3).map(
        lambda many: Policy(
            id=PolicyId("p"),
            incarnation=Incarnation("i"),
            created_at=Instant(0),
            statements=tuple(many),
        )
    ),
    max_size=3,
)


@given(policies, st.lists(st.tuples(actions, resources), min_size=1, max_size=6))
def test_compiled_policies_decide_what_naive_ones_do(
    given_policies: list[Policy], questions: list[tuple[str, str]]
) -> None:
    permissions = Permissions(given_policies, user="ann")
    for action, resource in questions:
        expected = naive_may(given_policies, action, resource, "ann")
        assert permissions.may(action, resource) == expected
        assert isinstance(permissions.decide(action, resource), Allowed) == expected


OBJECTS = "arn:lakefs:fs:::repository/lake/object/"


@pytest.mark.parametrize(
    ("allowed", "denied", "prefix", "expected"),
    [
        ("*", None, "", True),
        (f"{OBJECTS}*", None, "", True),
        (f"{OBJECTS}*", None, "a/", True),
        (f"{OBJECTS}a/*", None, "a/", True),
        (f"{OBJECTS}a*", None, "a/b", True),
        (f"{OBJECTS}a/*", None, "a", False),
        (f"{OBJECTS}a/*", None, "", False),
        (f"{OBJECTS}?", None, "", False),
        (f"{OBJECTS}a", None, "a", False),
        (f"{OBJECTS}*.csv", None, "", False),
        ("arn:lakefs:fs:::repository/*/object/*", None, "", True),
        ("arn:lakefs:fs:::repository/other/object/*", None, "", False),
        ("*", f"{OBJECTS}a/secret", "", False),
        ("*", f"{OBJECTS}a/secret", "a/", False),
        ("*", f"{OBJECTS}a/secret", "a/secret", False),
        ("*", f"{OBJECTS}a/secret", "a/secrets", True),
        ("*", f"{OBJECTS}a/secret", "b/", True),
        ("*", f"{OBJECTS}*/secret", "b/", False),
        ("*", f"{OBJECTS}?/x", "ab", True),
        ("*", "*", "", False),
        ("*", "arn:lakefs:fs:::repository/other/*", "", True),
        ("*", "arn:lakefs:auth:::user/*", "", True),
    ],
)
def test_what_is_allowed_for_everything_that_begins_alike(allowed, denied, prefix, expected) -> None:
    policies = [policy("Allow", (Effect.ALLOW, "fs:*", allowed))]
    if denied is not None:
        policies.append(policy("Deny", (Effect.DENY, "fs:Write*", denied)))

    assert Permissions(policies, user="ada").may_all("fs:WriteObject", OBJECTS + prefix) is expected


@given(pattern=st.text("a*?", max_size=5), prefix=st.text("a", max_size=3), more=st.text("ab", max_size=4))
def test_what_matches_a_pattern_begins_as_it_may(pattern: str, prefix: str, more: str) -> None:
    if matches(pattern, prefix + more):
        assert may_begin(pattern, prefix)
    if pattern.endswith("*") and matches(pattern, prefix):
        assert matches(pattern, prefix + more)


def test_a_prefix_longer_than_any_path_or_address_is_refused_before_wildcards_are_tried() -> None:
    caller = Caller(id="u", permissions=Permissions([], user="u"))
    for ask in (caller.require_all, caller.require_none_denied):
        with pytest.raises(InvalidInputError) as raised:
            ask("fs:WriteObject", "arn:lakefs:fs:::repository/lake/object/" + "a" * 1_000_000)
        assert raised.value.kind is ErrorKind.TOO_LARGE
