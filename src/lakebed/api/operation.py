"""`Operation`: one row of the table that the REST edge is made of.

A module in `resources` declares its operations with the `Operations` it is given a
name for; `table.py` lists those modules. Router, decoding and validation, the
OpenAPI document, the route docs and the permission matrix test all read the same
rows, so that none of them can drift from what is served.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import msgspec

from lakebed.api.call import Call
from lakebed.http.reply import Reply

Handler = Callable[[Call], Awaitable[Reply]]


class Body(Enum):
    """Request bodies that are not JSON."""

    NONE = "none"
    RAW = "raw"
    """Bytes, streamed: the handler reads them itself."""


class Access(Enum):
    """Who may call, before the catalog looks at permissions."""

    ANYONE = "anyone"
    """No credentials are looked at: health, set-up, log-in."""
    USERS = "users"


@dataclass(frozen=True, slots=True, kw_only=True)
class Permission:
    """What the catalog will ask of the caller: for the docs, and for the matrix test to check."""

    action: str
    resource: str
    """An ARN with path and query parameters in braces: `arn:lakefs:fs:::repository/{repository}/branch/{branch}`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One operation of the API."""

    id: str
    method: str
    path: str
    tag: str
    summary: str
    handler: Handler
    query: type[msgspec.Struct] | None = None
    headers: type[msgspec.Struct] | None = None
    body: type[Any] | Body = Body.NONE
    body_required: bool = True
    replies: Mapping[int, Any] = field(default_factory=dict)
    """Statuses that are no plain errors, and the type of their JSON body: None for no body, `bytes` for raw ones,
    `str` for plain text."""
    permissions: tuple[Permission, ...] = ()
    access: Access = Access.USERS
    deprecated: bool = False


class Operations:
    """Collects the operations of one resource."""

    def __init__(self, tag: str) -> None:
        self._tag = tag
        self.rows: list[Operation] = []

    def add(
        self,
        method: str,
        path: str,
        operation_id: str,
        *,
        query: type[msgspec.Struct] | None = None,
        headers: type[msgspec.Struct] | None = None,
        body: type[Any] | Body = Body.NONE,
        body_required: bool = True,
        replies: Mapping[int, Any],
        permissions: tuple[Permission, ...] = (),
        access: Access = Access.USERS,
        tag: str | None = None,
        deprecated: bool = False,
    ) -> Callable[[Handler], Handler]:
        """Return a decorator that adds its handler to the table. The docstring's first line is the summary."""

        def register(handler: Handler) -> Handler:
            summary = (handler.__doc__ or "").strip().splitlines()
            assert summary, f"{operation_id} needs a docstring: its first line is the summary"
            self.rows.append(
                Operation(
                    id=operation_id,
                    method=method,
                    path=path,
                    tag=tag or self._tag,
                    summary=summary[0].rstrip("."),
                    handler=handler,
                    query=query,
                    headers=headers,
                    body=body,
                    body_required=body_required,
                    replies=replies,
                    permissions=permissions,
                    access=access,
                    deprecated=deprecated,
                )
            )
            return handler

        return register
