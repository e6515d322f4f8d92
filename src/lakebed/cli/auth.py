"""`lakebed auth`: users, groups, policies and access keys."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from lakebed.cli.output import (
    JsonOption,
    YesOption,
    confirm,
    moment,
    print_fields,
    print_json,
    print_json_list,
    print_table,
    say,
    say_done,
)
from lakebed.client.auth import Holder
from lakebed.client.client import Client
from lakebed.client.replies import Statement
from lakebed.errors import ErrorKind, InvalidInputError

app = typer.Typer(help="Users, groups, policies and access keys.", no_args_is_help=True)
user_app = typer.Typer(help="Users, and the groups and policies that they have.", no_args_is_help=True)
group_app = typer.Typer(help="Groups and their members.", no_args_is_help=True)
policy_app = typer.Typer(help="Policies, and whom they count for.", no_args_is_help=True)
key_app = typer.Typer(help="Access keys.", no_args_is_help=True)
app.add_typer(user_app, name="user")
app.add_typer(group_app, name="group")
app.add_typer(policy_app, name="policy")
app.add_typer(key_app, name="key")

UserArgument = Annotated[str, typer.Argument(metavar="USER", help="The user's name.", show_default=False)]
GroupArgument = Annotated[str, typer.Argument(metavar="GROUP", help="The group's name.", show_default=False)]
PolicyArgument = Annotated[
    str, typer.Argument(metavar="POLICY", help="The policy's name.", show_default=False)
]
HolderArgument = Annotated[
    str, typer.Argument(metavar="NAME", help="The name of that user or group.", show_default=False)
]


class Kind(StrEnum):
    """Whom a policy counts for."""

    USER = "user"
    GROUP = "group"


KindArgument = Annotated[
    Kind, typer.Argument(metavar="user|group", help="Whom it counts for.", show_default=False)
]
_HOLDERS: dict[Kind, Holder] = {Kind.USER: "users", Kind.GROUP: "groups"}


@app.command()
def whoami(*, json: JsonOption = False) -> None:
    """Show which user your access key belongs to."""
    with Client() as client:
        user = client.auth.whoami()
    print_json(user) if json else say("{}", user.id)


@user_app.command("list")
def list_users(*, json: JsonOption = False) -> None:
    """List users."""
    with Client() as client:
        found = client.auth.users()
        if json:
            print_json_list(found)
            return
        rows = ((each.id, moment(each.creation_date)) for each in found)
        print_table(("user", "created (UTC)"), rows, empty="No users.")


@user_app.command("create")
def create_user(user: UserArgument, *, json: JsonOption = False) -> None:
    """Create a user, who can do nothing yet."""
    with Client() as client:
        made = client.auth.create_user(user)
    if json:
        print_json(made)
    else:
        say(
            "user {}; next, `lakebed auth group add Developers {}` and `lakebed auth key create {}`",
            *[made.id] * 3,
        )


@user_app.command("show")
def show_user(user: UserArgument, *, json: JsonOption = False) -> None:
    """Show a user's groups, policies and access keys."""
    with Client() as client:
        auth = client.auth
        groups = [each.id for each in auth.groups_of(user)]
        policies = [each.id for each in auth.policies_of("users", user)]
        keys = [each.access_key_id for each in auth.keys(user)]
    if json:
        print_json({"id": user, "groups": groups, "policies": policies, "access_keys": keys})
        return
    named = (("groups", groups), ("policies", policies), ("access keys", keys))
    print_fields([("user", user), *((name, ", ".join(values) or "none") for name, values in named)])


@user_app.command("delete")
def delete_user(user: UserArgument, *, yes: YesOption = False, json: JsonOption = False) -> None:
    """Delete a user and all their access keys."""
    confirm(f"Delete user {user} and all their access keys?", yes=yes)
    with Client() as client:
        client.auth.delete_user(user)
    say_done("deleted {}", user, json=json, deleted=user)


@group_app.command("list")
def list_groups(*, json: JsonOption = False) -> None:
    """List groups."""
    with Client() as client:
        found = client.auth.groups()
        if json:
            print_json_list(found)
            return
        rows = ((each.id, each.description) for each in found)
        print_table(("group", "description"), rows, empty="No groups.")


@group_app.command("create")
def create_group(
    group: GroupArgument,
    *,
    description: Annotated[str, typer.Option(help="What it is for.")] = "",
    json: JsonOption = False,
) -> None:
    """Create a group without members."""
    with Client() as client:
        made = client.auth.create_group(group, description=description)
    print_json(made) if json else say("group {}", made.id)


@group_app.command("members")
def members(group: GroupArgument, *, json: JsonOption = False) -> None:
    """List the users in a group."""
    with Client() as client:
        found = client.auth.members(group)
        if json:
            print_json_list(found)
            return
        print_table(("user",), ((each.id,) for each in found), empty="No members.")


@group_app.command("add")
def add_member(group: GroupArgument, user: UserArgument, *, json: JsonOption = False) -> None:
    """Put a user into a group."""
    with Client() as client:
        client.auth.add_member(group, user)
    say_done("{} is in {}", user, group, json=json, user=user, group=group, member=True)


@group_app.command("remove")
def remove_member(group: GroupArgument, user: UserArgument, *, json: JsonOption = False) -> None:
    """Take a user out of a group."""
    with Client() as client:
        client.auth.remove_member(group, user)
    say_done("{} is no longer in {}", user, group, json=json, user=user, group=group, member=False)


@group_app.command("delete")
def delete_group(group: GroupArgument, *, yes: YesOption = False, json: JsonOption = False) -> None:
    """Delete a group. Its members stay."""
    confirm(f"Delete group {group}?", yes=yes)
    with Client() as client:
        client.auth.delete_group(group)
    say_done("deleted {}", group, json=json, deleted=group)


@policy_app.command("list")
def list_policies(*, json: JsonOption = False) -> None:
    """List policies."""
    with Client() as client:
        found = client.auth.policies()
        if json:
            print_json_list(found)
            return
        rows = ((each.id, str(len(each.statement))) for each in found)
        print_table(("policy", "statements"), rows, empty="No policies.")


@policy_app.command("show")
def show_policy(policy: PolicyArgument, *, json: JsonOption = False) -> None:
    """Show a policy; with --json, as `create` takes it."""
    with Client() as client:
        found = client.auth.policy(policy)
    if json:
        print_json(found)
        return
    rows = ((each.effect, ", ".join(each.action), each.resource) for each in found.statement)
    print_table(("effect", "action", "resource"), rows, empty="It says nothing.")


@policy_app.command("create")
def create_policy(
    policy: PolicyArgument,
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="A JSON file; - is standard input.",
            exists=True,
            dir_okay=False,
            allow_dash=True,
            show_default=False,
        ),
    ],
    *,
    json: JsonOption = False,
) -> None:
    r"""Create a policy from a JSON file with a list of statements.

    The file: {"statement": \[{"effect": "allow", "action": \["fs:ReadObject"], "resource": "*"}]}

    Example: lakebed auth policy create readers readers.json
    """
    with Client() as client:
        made = client.auth.create_policy(policy, _statements(file))
    print_json(made) if json else say("policy {}", made.id)


@policy_app.command("delete")
def delete_policy(policy: PolicyArgument, *, yes: YesOption = False, json: JsonOption = False) -> None:
    """Delete a policy. Whoever it counted for loses what it allowed."""
    confirm(f"Delete policy {policy}?", yes=yes)
    with Client() as client:
        client.auth.delete_policy(policy)
    say_done("deleted {}", policy, json=json, deleted=policy)


@policy_app.command("attach")
def attach(
    policy: PolicyArgument, kind: KindArgument, name: HolderArgument, *, json: JsonOption = False
) -> None:
    """Let a policy count for a user, or for the members of a group."""
    with Client() as client:
        client.auth.attach(_HOLDERS[kind], name, policy)
    say_done("{} counts for {}", policy, name, json=json, policy=policy, holder=name, attached=True)


@policy_app.command("detach")
def detach(
    policy: PolicyArgument, kind: KindArgument, name: HolderArgument, *, json: JsonOption = False
) -> None:
    """Let a policy no longer count for a user or a group."""
    with Client() as client:
        client.auth.detach(_HOLDERS[kind], name, policy)
    say_done(
        "{} no longer counts for {}", policy, name, json=json, policy=policy, holder=name, attached=False
    )


@key_app.command("list")
def list_keys(user: UserArgument, *, json: JsonOption = False) -> None:
    """List a user's access keys."""
    with Client() as client:
        found = client.auth.keys(user)
        if json:
            print_json_list(found)
            return
        rows = ((each.access_key_id, moment(each.creation_date)) for each in found)
        print_table(("access key", "created (UTC)"), rows, empty="No access keys.")


@key_app.command("create")
def create_key(user: UserArgument, *, json: JsonOption = False) -> None:
    """Give a user a new access key. Its secret is shown this once."""
    with Client() as client:
        made = client.auth.create_key(user)
    if json:
        print_json(made)
        return
    print_fields([("access key", made.access_key_id), ("secret", made.secret_access_key)])
    say("The secret is shown this once: keep it now.")


@key_app.command("delete")
def delete_key(
    user: UserArgument,
    key: Annotated[str, typer.Argument(metavar="KEY", help="Its id.", show_default=False)],
    *,
    yes: YesOption = False,
    json: JsonOption = False,
) -> None:
    """Revoke an access key: the next request with it is refused."""
    confirm(f"Revoke {key} of {user}?", yes=yes)
    with Client() as client:
        client.auth.delete_key(user, key)
    say_done("revoked {}", key, json=json, deleted=key)


class _PolicyFile(msgspec.Struct):
    statement: list[Statement]


def _statements(file: Path) -> list[Statement]:
    data = typer.get_binary_stream("stdin").read() if str(file) == "-" else file.read_bytes()
    try:
        return msgspec.json.decode(data, type=_PolicyFile).statement
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidInputError(ErrorKind.INVALID_POLICY, f"{file} is no policy: {error}") from error
