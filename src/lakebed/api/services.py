"""`Services`: what handlers need beside the session of their caller."""

from collections.abc import Mapping
from dataclasses import dataclass

from lakebed.auth.auth import Auth
from lakebed.catalog.session import Sessions
from lakebed.env.clock import Clock
from lakebed.env.ids import IdSource

_REQUEST_ID_MAX = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageInfo:
    """What `GET /config` tells clients about storage."""

    blockstore_type: str
    namespace_example: str
    namespace_prefix: str
    namespace_regex: str
    pre_sign_support: bool
    pre_sign_multipart: bool
    import_support: bool
    import_regex: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """Parts of the server that are the same for every request."""

    sessions: Sessions
    auth: Auth
    storage: StorageInfo
    clock: Clock
    ids: IdSource
    version: str

    def request_id(self, headers: Mapping[bytes, bytes]) -> str:
        """Return the id under which a request is logged: the client's own, or a new one."""
        given = headers.get(b"x-request-id")
        if given and len(given) <= _REQUEST_ID_MAX and given.isascii() and given.decode().isprintable():
            return given.decode()
        return self.ids.token()
