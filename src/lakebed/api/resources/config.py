"""What clients ask before anything else: health, version, storage."""

from typing import Final

import msgspec

from lakebed.api.call import Call
from lakebed.api.operation import Access, Operations, Permission
from lakebed.api.reply import empty_reply, json_reply
from lakebed.auth.actions import Action
from lakebed.http.reply import Reply

operations = Operations("config")

_READ_CONFIG = (Permission(action=Action.READ_CONFIG, resource="*"),)


# Clients compare it with the first lakeFS that had what they need.
_LAKEFS_VERSION: Final = "1.84.0"


class VersionConfig(msgspec.Struct):
    """`version_context` is what official clients look at to know that they speak to a server of their kind, and
    `version` is the lakeFS whose API this is.
    """

    lakebed_version: str
    version: str = _LAKEFS_VERSION
    version_context: str = "lakeFS"
    latest_version: str = ""
    upgrade_recommended: bool = False
    upgrade_url: str = ""


class StorageConfig(msgspec.Struct):
    """What the server's default storage can do."""

    blockstore_type: str
    blockstore_namespace_example: str
    blockstore_namespace_ValidityRegex: str  # noqa: N815  the wire's name
    default_namespace_prefix: str
    pre_sign_support: bool
    pre_sign_support_ui: bool
    import_support: bool
    import_validity_regex: str
    pre_sign_multipart_upload: bool = False
    blockstore_id: str = ""
    blockstore_description: str = ""


class Config(msgspec.Struct):
    """Everything a client needs to know to begin. There is one storage and nothing optional, so the rest is empty."""

    version_config: VersionConfig
    storage_config: StorageConfig
    storage_config_list: tuple[StorageConfig, ...] = ()
    capabilities_config: dict[str, bool] = msgspec.field(default_factory=dict)
    ui_config: dict[str, bool] = msgspec.field(default_factory=dict)


@operations.add(
    "GET", "/healthcheck", "healthCheck", replies={204: None}, access=Access.ANYONE, tag="healthCheck"
)
async def health_check(_call: Call) -> Reply:
    """Say that the server is up."""
    return empty_reply(204)


@operations.add("GET", "/config", "getConfig", replies={200: Config})
async def get_config(call: Call) -> Reply:
    """Get version and storage configuration."""
    return json_reply(200, Config(version_config=_version(call), storage_config=_storage(call)))


@operations.add(
    "GET",
    "/config/version",
    "getLakeFSVersion",
    replies={200: VersionConfig},
    tag="internal",
    deprecated=True,
)
async def get_version(call: Call) -> Reply:
    """Get the server's version."""
    return json_reply(200, _version(call))


@operations.add(
    "GET",
    "/config/storage",
    "getStorageConfig",
    replies={200: StorageConfig},
    permissions=_READ_CONFIG,
    tag="internal",
    deprecated=True,
)
async def get_storage_config(call: Call) -> Reply:
    """Get what the server's storage can do."""
    call.session.caller.require(Action.READ_CONFIG, "*")
    return json_reply(200, _storage(call))


def _version(call: Call) -> VersionConfig:
    return VersionConfig(lakebed_version=call.services.version)


def _storage(call: Call) -> StorageConfig:
    info = call.services.storage
    return StorageConfig(
        blockstore_type=info.blockstore_type,
        blockstore_namespace_example=info.namespace_example,
        blockstore_namespace_ValidityRegex=info.namespace_regex,
        default_namespace_prefix=info.namespace_prefix,
        pre_sign_support=info.pre_sign_support,
        pre_sign_support_ui=False,
        import_support=info.import_support,
        import_validity_regex=info.import_regex,
        pre_sign_multipart_upload=info.pre_sign_multipart,
    )
