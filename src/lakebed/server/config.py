"""`Config`: what an installation is told from outside."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec

from lakebed.errors import ErrorKind, InvalidInputError
from lakebed.limits import CACHE_BYTES_DEFAULT
from lakebed.objects.settings import StoreSettings, with_environment


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Settings with their defaults. Only the data folder must be given."""

    data: Path
    kv_url: str | None = None
    """Where refs and staged rows live; None means the embedded store in the data folder."""
    storage: StoreSettings = field(default_factory=StoreSettings)
    import_prefixes: tuple[str, ...] = ()
    """Addresses under which objects may be staged or imported from outside; none by default."""
    cache_bytes: int = CACHE_BYTES_DEFAULT
    staging_wait_seconds: float = 0.0
    """How long a write waits for others to share its round trip."""
    default_storage: str = "local"
    """`local` or `s3`: what clients are told when they ask."""
    installation_key: str | None = field(default=None, repr=False)
    """Encrypts secrets at rest; None means a key of its own in the data folder."""
    threads: int = 4
    processes: int = 2


def from_environment(config: Config, environment: Mapping[str, str]) -> Config:
    """Return `config` with what `LAKEBED_…` and AWS's own variables say.

    Raises:
        InvalidInputError: `INVALID_CONFIG`: a variable has a value that means nothing.
    """
    storage = with_environment(
        StoreSettings(
            data_dir=config.storage.data_dir,
            fsync=_flag(environment, "LAKEBED_STORAGE_LOCAL_FSYNC", default=config.storage.fsync),
            s3_endpoint=environment.get("LAKEBED_STORAGE_S3_ENDPOINT"),
            s3_region=environment.get("LAKEBED_STORAGE_S3_REGION", config.storage.s3_region),
            s3_access_key_id=environment.get("LAKEBED_STORAGE_S3_ACCESS_KEY_ID"),
            s3_secret_access_key=environment.get("LAKEBED_STORAGE_S3_SECRET_ACCESS_KEY"),
            s3_path_style=_flag(environment, "LAKEBED_STORAGE_S3_PATH_STYLE", default=None),
        ),
        environment,
    )
    prefixes = environment.get("LAKEBED_STORAGE_LOCAL_IMPORT_PREFIXES", "")
    default_storage = environment.get("LAKEBED_STORAGE_DEFAULT", config.default_storage)
    if default_storage not in ("local", "s3"):
        raise InvalidInputError(
            ErrorKind.INVALID_CONFIG, f"LAKEBED_STORAGE_DEFAULT is {default_storage!r}: it can be local or s3"
        )
    return replace(
        config,
        kv_url=environment.get("LAKEBED_DATABASE") or config.kv_url,
        storage=storage,
        import_prefixes=tuple(_address(each.strip()) for each in prefixes.split(",") if each.strip())
        or config.import_prefixes,
        default_storage=default_storage,
    )


def encode_config(config: Config) -> str:
    """Return a configuration as text for a process that this one starts. It holds secrets."""
    return msgspec.json.encode(config, enc_hook=str).decode()


def decode_config(text: str) -> Config:
    """Return what `encode_config` was given."""
    return msgspec.json.decode(text, type=Config, dec_hook=_load)


def _load(kind: type[Any], value: Any) -> Any:
    assert kind is Path, f"only paths need help, not {kind}"
    return Path(value)


def _flag(environment: Mapping[str, str], name: str, *, default: Any) -> Any:
    text = environment.get(name)
    if text is None:
        return default
    flag = {
        "true": True,
        "1": True,
        "yes": True,
        "on": True,
        "false": False,
        "0": False,
        "no": False,
        "off": False,
    }
    if text.lower() not in flag:
        raise InvalidInputError(ErrorKind.INVALID_CONFIG, f"{name} is {text!r}: it can be true or false")
    return flag[text.lower()]


def _address(prefix: str) -> str:
    """A folder may be given as it is."""
    return f"local://{prefix}" if prefix.startswith("/") else prefix
