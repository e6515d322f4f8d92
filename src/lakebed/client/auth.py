"""`Auth`: users, groups, policies and access keys, for whoever may administer them."""

from collections.abc import Iterator, Sequence
from typing import Literal

from lakebed.client.replies import AccessKey, CurrentUser, GroupInfo, PolicyInfo, Statement, UserInfo
from lakebed.client.transport import Transport, decode

Holder = Literal["users", "groups"]
"""Who a policy can be attached to."""


class Auth:
    """Users and what they may do."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def whoami(self) -> UserInfo:
        """Return the user that this client acts as."""
        return self._transport.get(CurrentUser, "user").user

    def users(self, *, limit: int | None = None) -> Iterator[UserInfo]:
        """Yield the users."""
        return self._transport.pages(UserInfo, "auth", "users", limit=limit)

    def create_user(self, user: str) -> UserInfo:
        """Create a user, who can do nothing before being given a policy or a group."""
        return decode(self._transport.post("auth", "users", body={"id": user}), UserInfo)

    def user(self, user: str) -> UserInfo:
        """Return a user."""
        return self._transport.get(UserInfo, "auth", "users", user)

    def delete_user(self, user: str) -> None:
        """Delete a user and all access keys of theirs."""
        self._transport.delete("auth", "users", user)

    def keys(self, user: str) -> Iterator[AccessKey]:
        """Yield a user's access keys, without secrets."""
        return self._transport.pages(AccessKey, "auth", "users", user, "credentials")

    def create_key(self, user: str) -> AccessKey:
        """Give a user a new access key. Its secret is in the reply and nowhere else."""
        return decode(self._transport.post("auth", "users", user, "credentials"), AccessKey)

    def delete_key(self, user: str, access_key_id: str) -> None:
        """Revoke an access key."""
        self._transport.delete("auth", "users", user, "credentials", access_key_id)

    def groups(self, *, limit: int | None = None) -> Iterator[GroupInfo]:
        """Yield the groups."""
        return self._transport.pages(GroupInfo, "auth", "groups", limit=limit)

    def create_group(self, group: str, *, description: str = "") -> GroupInfo:
        """Create a group without members."""
        body = {"id": group, "description": description}
        return decode(self._transport.post("auth", "groups", body=body), GroupInfo)

    def group(self, group: str) -> GroupInfo:
        """Return a group."""
        return self._transport.get(GroupInfo, "auth", "groups", group)

    def delete_group(self, group: str) -> None:
        """Delete a group; its members stay."""
        self._transport.delete("auth", "groups", group)

    def members(self, group: str) -> Iterator[UserInfo]:
        """Yield the users in a group."""
        return self._transport.pages(UserInfo, "auth", "groups", group, "members")

    def groups_of(self, user: str) -> Iterator[GroupInfo]:
        """Yield the groups that a user is in."""
        return self._transport.pages(GroupInfo, "auth", "users", user, "groups")

    def add_member(self, group: str, user: str) -> None:
        """Put a user into a group."""
        self._transport.put("auth", "groups", group, "members", user)

    def remove_member(self, group: str, user: str) -> None:
        """Take a user out of a group."""
        self._transport.delete("auth", "groups", group, "members", user)

    def policies(self, *, limit: int | None = None) -> Iterator[PolicyInfo]:
        """Yield the policies."""
        return self._transport.pages(PolicyInfo, "auth", "policies", limit=limit)

    def policy(self, policy: str) -> PolicyInfo:
        """Return a policy."""
        return self._transport.get(PolicyInfo, "auth", "policies", policy)

    def create_policy(self, policy: str, statements: Sequence[Statement]) -> PolicyInfo:
        """Create a policy."""
        body = {"id": policy, "statement": statements}
        return decode(self._transport.post("auth", "policies", body=body), PolicyInfo)

    def update_policy(self, policy: str, statements: Sequence[Statement]) -> PolicyInfo:
        """Replace what a policy says; it counts from the next request of whoever it is attached to."""
        body = {"id": policy, "statement": statements}
        return decode(self._transport.put("auth", "policies", policy, body=body), PolicyInfo)

    def delete_policy(self, policy: str) -> None:
        """Delete a policy; whoever it was attached to loses what it allowed."""
        self._transport.delete("auth", "policies", policy)

    def policies_of(self, kind: Holder, holder: str) -> Iterator[PolicyInfo]:
        """Yield the policies attached to a user or a group."""
        return self._transport.pages(PolicyInfo, "auth", kind, holder, "policies")

    def attach(self, kind: Holder, holder: str, policy: str) -> None:
        """Let a policy count for a user or for a group's members."""
        self._transport.put("auth", kind, holder, "policies", policy)

    def detach(self, kind: Holder, holder: str, policy: str) -> None:
        """Let a policy no longer count."""
        self._transport.delete("auth", kind, holder, "policies", policy)
