"""`Config`: what the parts of a server are told from outside, in their own types."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec

from lakebed.compaction.limits import CompactionLimits
from lakebed.errors import ErrorKind, InvalidInputError
from lakebed.http.front import SecureCookies
from lakebed.limits import (
    CACHE_BYTES_DEFAULT,
    MAINTENANCE_SECONDS,
    NAMESPACE_WATCH_SECONDS,
    REFS_DUMP_SECONDS,
    SLICE_OBJECTS,
)
from lakebed.model.auth import KeyPair
from lakebed.model.lifetimes import Lifetimes
from lakebed.objects.settings import StoreSettings
from lakebed.server.effective import LOOPBACK, Effective, effective, listen_address
from lakebed.server.tls import Tls
from lakebed.staging.appending import SegmentUse


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstUser:
    """Whom the first start creates. Without a pair it creates nobody."""

    name: str = "admin"
    pair: KeyPair | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Settings with their defaults. Only the data folder must be given."""

    data: Path
    kv_url: str | None = field(default=None, repr=False)
    """Where refs and staged rows live; None means the embedded store in the data folder."""
    storage: StoreSettings = field(default_factory=StoreSettings)
    import_prefixes: tuple[str, ...] = ()
    """Addresses under which objects may be staged or imported from outside; none by default."""
    cache_bytes: int = CACHE_BYTES_DEFAULT
    staging_wait_seconds: float = 0.0
    """How long a write waits for others to share its round trip."""
    staging_segments: SegmentUse = SegmentUse.AUTO
    default_storage: str = "local"
    """`local` or `s3`: what clients are told when they ask."""
    installation_key: str | None = field(default=None, repr=False)
    """Encrypts secrets at rest; None means a key of its own in the data folder."""
    first_user: FirstUser = field(default_factory=FirstUser)
    s3_domain: str | None = None
    """Hosts under it are the S3 endpoint's, and name a bucket."""
    s3_listen: tuple[str, int] | None = None
    """Host and port for nothing but S3, beside those for everything."""
    s3_region: str | None = None
    """The region that requests to the S3 endpoint are signed for; None means any."""
    threads: int = 4
    processes: int = 2
    host: str = LOOPBACK
    port: int = 8000
    tls: Tls | None = None
    hosts: tuple[str, ...] = ()
    """Public names; none means that any is accepted."""
    loopback_hosts_only: bool = False
    """Whether requests must name this machine: the quickstart's key is published."""
    trusted_proxies: tuple[str, ...] = ()
    secure_cookies: SecureCookies = SecureCookies.AUTO
    workers: int = 2
    compaction: bool = True
    """Whether `lakebed run` starts a compactor beside its workers."""
    compactor_jobs: int | None = None
    """Jobs that a compactor does at a time; None means as many as there are processors."""
    compaction_limits: CompactionLimits = field(default_factory=CompactionLimits)
    """When compaction begins and gives up."""
    compactor_metrics: tuple[str, int] | None = None
    """Where a compactor that no server has started shows its metrics."""
    lifetimes: Lifetimes = field(default_factory=Lifetimes)
    """What all processes of an installation keep for as long as each other."""
    slice_objects: int = SLICE_OBJECTS
    maintenance_seconds: float = MAINTENANCE_SECONDS
    refs_dump_seconds: float = REFS_DUMP_SECONDS
    refs_owner_seconds: float = NAMESPACE_WATCH_SECONDS
    shutdown_seconds: int = 30
    metrics_repositories: bool = False
    """Whether metrics name repositories: anyone who reaches the server can read them."""
    ignored_variables: tuple[str, ...] = ()
    """Variables of AWS's tools that name this server: they are for its clients."""
    log_level: int = logging.INFO
    log_json: bool = False

    @property
    def shared(self) -> dict[str, float]:
        """What must be the same in all processes of an installation, by the names of the settings."""
        return {
            "grace_seconds": self.lifetimes.grace_seconds,
            "links.lifetime_seconds": self.lifetimes.link_seconds,
            "slices.seconds": self.lifetimes.slice_seconds,
            "compactor.lease_seconds": self.compaction_limits.lease_seconds,
        }

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """Where the server listens: for everything, and then for nothing but S3 if that has an address."""
        return [(self.host, self.port), *([self.s3_listen] if self.s3_listen else [])]

    @property
    def endpoint(self) -> str:
        """The address that clients on this machine use."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.tls else 'http'}://{host}:{self.port}"


def load_config(
    *, flags: Mapping[str, str | None], environment: Mapping[str, str], file: Path | None = None
) -> Config:
    """Return the configuration that flags, variables and the file make.

    Raises:
        InvalidInputError: `INVALID_CONFIG`: with the name of what is wrong, and what it can be.
    """
    given = effective(flags=flags, environment=environment, file=file)
    host, port = listen_address(given["listen"])
    return Config(
        data=given["data"],
        kv_url=given["database"],
        storage=StoreSettings(
            fsync=given["storage.local.fsync"],
            local_roots=tuple(Path(each) for each in given["storage.local.roots"]),
            s3_endpoint=given["storage.s3.endpoint"],
            s3_region=given["storage.s3.region"],
            s3_access_key_id=given["storage.s3.access_key_id"],
            s3_secret_access_key=given["storage.s3.secret_access_key"],
            s3_session_token=given["storage.s3.session_token"],
            s3_path_style=given["storage.s3.path_style"],
        ),
        import_prefixes=tuple(_address(each) for each in given["storage.local.import_prefixes"]),
        cache_bytes=given["cache.bytes"],
        staging_wait_seconds=given["staging.wait_seconds"],
        staging_segments=SegmentUse(given["staging.segments"]),
        default_storage=given["storage.default"],
        installation_key=given["installation.key"],
        first_user=FirstUser(name=given["installation.user_name"], pair=_first_pair(given)),
        s3_domain=given["s3.domain"],
        s3_listen=listen_address(given["s3.listen"]) if given["s3.listen"] else None,
        s3_region=given["s3.region"],
        threads=given["threads"],
        processes=given["processes"],
        host=host,
        port=port,
        tls=_tls(given),
        hosts=given["http.hosts"],
        trusted_proxies=given["http.trusted_proxies"],
        secure_cookies=SecureCookies(given["http.secure_cookies"]),
        workers=given["workers"],
        compaction=given["compaction"],
        compactor_jobs=given["compactor.jobs"],
        compaction_limits=_compaction_limits(given),
        compactor_metrics=listen_address(given["compactor.metrics"]) if given["compactor.metrics"] else None,
        lifetimes=Lifetimes(
            grace_seconds=given["grace_seconds"],
            link_seconds=given["links.lifetime_seconds"],
            slice_seconds=given["slices.seconds"],
        ),
        slice_objects=given["slices.objects"],
        maintenance_seconds=given["maintenance.seconds"],
        refs_dump_seconds=given["refs.dump_seconds"],
        refs_owner_seconds=given["refs.owner_seconds"],
        shutdown_seconds=given["shutdown_seconds"],
        metrics_repositories=given["metrics.repositories"],
        ignored_variables=given.ignored,
        log_level=logging.getLevelNamesMapping()[given["log.level"].upper()],
        log_json=given["log.format"] == "json",
    )


def encode_config(config: Config) -> str:
    """Return a configuration as text for a process that this one starts. It holds secrets."""
    # Workers set nothing up: what opens the door at the first start is not theirs to carry.
    return msgspec.json.encode(replace(config, first_user=FirstUser()), enc_hook=str).decode()


def decode_config(text: str) -> Config:
    """Return what `encode_config` was given, but for the first user."""
    return msgspec.json.decode(text, type=Config, dec_hook=_load)


def _load(kind: type[Any], value: Any) -> Any:
    assert kind is Path, f"only paths need help, not {kind}"
    return Path(value)


def _first_pair(given: Effective) -> KeyPair | None:
    access_key, secret = given["installation.access_key_id"], given["installation.secret_access_key"]
    _require_both(given, "installation.access_key_id", "installation.secret_access_key")
    return KeyPair(access_key_id=access_key, secret_access_key=secret) if access_key else None


def _compaction_limits(given: Effective) -> CompactionLimits:
    return CompactionLimits(
        lease_seconds=given["compactor.lease_seconds"],
        fold_layers=given["compactor.fold_layers"],
        fold_quiet_seconds=given["compactor.fold_quiet_seconds"],
        l2_entries=given["compactor.tree_entries"],
        l2_tombstones=given["compactor.tree_tombstones"],
        l2_bytes=given["compactor.tree_bytes"],
        l2_layers=given["compactor.tree_layers"],
        l2_quiet_seconds=given["compactor.tree_quiet_seconds"],
        seal_rows=given["compactor.seal_rows"],
        jobs_max=given["compactor.queue_max"],
        failures_max=given["compactor.failures_max"],
        held_seconds=given["compactor.held_seconds"],
    )


def _tls(given: Effective) -> Tls | None:
    _require_both(given, "tls.cert", "tls.key")
    return Tls(cert=given["tls.cert"], key=given["tls.key"]) if given["tls.cert"] else None


def _require_both(given: Effective, first: str, second: str) -> None:
    for name, other in ((first, second), (second, first)):
        if given[name] and not given[other]:
            raise InvalidInputError(
                ErrorKind.INVALID_CONFIG,
                f"{name} is set (in {given.given[name].source}) and {other} is not: they belong together",
            )


def _address(prefix: str) -> str:
    """A folder may be given as it is."""
    return f"local://{prefix}" if prefix.startswith("/") else prefix
