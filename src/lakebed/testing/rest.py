"""A whole REST API in memory, for tests: `async with open_rest() as rest: …`.

The engine of `testing.lake`, users and policies on the same store, and a client for
an administrator. Other callers are made with `user`.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from lakebed.api.app import RestApp
from lakebed.api.services import Services, StorageInfo
from lakebed.api.table import OPERATIONS
from lakebed.auth.auth import Auth, build_auth
from lakebed.catalog.session import Sessions
from lakebed.env.clock import Clock, SystemClock
from lakebed.env.ids import IdSource, SystemIds
from lakebed.kv.drivers.memory import MemoryKV
from lakebed.testing.asgi import AsgiClient, basic
from lakebed.testing.lake import Lake, open_lake

KEY = b"a key of an installation that exists only in tests"

STORAGE = StorageInfo(
    blockstore_type="mem",
    namespace_example="mem://example/",
    namespace_prefix="mem://",
    namespace_regex="^mem://.*$",
    pre_sign_support=False,
    pre_sign_multipart=False,
    import_support=False,
    import_regex="^mem://.*$",
)


@dataclass(frozen=True, slots=True)
class Rest:
    """The API over one lake. `admin` may do everything, `anonymous` is nobody."""

    lake: Lake
    auth: Auth
    app: RestApp
    admin: AsgiClient
    anonymous: AsgiClient

    async def user(self, name: str, *groups: str) -> AsgiClient:
        """Return a client for a new user in these groups."""
        await self.auth.users.create(name)
        for group in groups:
            await self.auth.groups.add_member(group, name)
        key = await self.auth.credentials.create(name)
        return self.admin.as_user(basic(key.id, key.secret_access_key))


@asynccontextmanager
async def open_rest(
    *, clock: Clock | None = None, ids: IdSource | None = None, set_up: bool = True
) -> AsyncIterator[Rest]:
    """Yield the API over an empty repository `lake`, with an administrator `admin` if it is set up."""
    clock, ids = clock or SystemClock(), ids or SystemIds()
    async with open_lake(MemoryKV(clock=clock), clock=clock, ids=ids) as lake:
        auth = build_auth(lake.kv, key=KEY, clock=clock, ids=ids)
        sessions = Sessions(lake.engine).with_auth(auth)
        services = Services(
            sessions=sessions, auth=auth, storage=STORAGE, clock=clock, ids=ids, version="0.0-test"
        )
        app = RestApp(OPERATIONS, services)
        authorization = None
        if set_up:
            key = await auth.setup.set_up("admin")
            authorization = basic(key.id, key.secret_access_key)
        yield Rest(lake, auth, app, AsgiClient(app, authorization), AsgiClient(app))
        await sessions.tasks.drain()
