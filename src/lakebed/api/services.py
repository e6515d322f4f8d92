"""`Services`: what handlers need beside the session of their caller."""

from dataclasses import dataclass, field
from pathlib import Path

from lakebed.auth.auth import Auth
from lakebed.catalog.session import Sessions
from lakebed.env.clock import Clock
from lakebed.env.ids import IdSource
from lakebed.http.front import Front
from lakebed.http.held import HeldBodies
from lakebed.model.lifetimes import Lifetimes


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
    s3_endpoint: str = ""
    s3_region: str = ""
    s3_path_style: bool | None = None
    data_dir: Path | None = None
    """Where `local://name` lies."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """Parts of the server that are the same for every request."""

    sessions: Sessions
    auth: Auth
    storage: StorageInfo
    clock: Clock
    ids: IdSource
    version: str
    lifetimes: Lifetimes = field(default_factory=Lifetimes)
    front: Front = field(default_factory=Front)
    held: HeldBodies = field(default_factory=HeldBodies)
