"""The settings of a server, each declared once.

Parsing, its errors, the flags of the commands, `lakebed config` and the tables of
`docs/configuration.md` (a test compares them) all come from `SETTINGS`. A setting's
variable follows from its name, so there is no second list of names to keep.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from ipaddress import ip_network
from pathlib import Path
from typing import Any, Final

from lakebed.limits import (
    CACHE_BYTES_DEFAULT,
    COMPACTION_BYTES_MAX,
    COMPACTION_FAILURES_MAX,
    COMPACTION_HELD_SECONDS,
    COMPACTION_JOBS_MAX,
    COMPACTION_ROWS_MAX,
    FOLD_LAYERS,
    FOLD_LAYERS_MAX,
    FOLD_QUIET_SECONDS,
    GC_MIN_AGE_SECONDS,
    GRACE_SECONDS,
    GRACE_SECONDS_MAX,
    GRACE_SECONDS_MIN,
    KIB,
    L2_BYTES,
    L2_ENTRIES,
    L2_LAYERS,
    L2_QUIET_SECONDS,
    L2_REST_SECONDS,
    L2_TOMBSTONES,
    LEASE_SECONDS,
    LINK_LIFETIME_SECONDS,
    LINK_LIFETIME_SECONDS_MIN,
    MAINTENANCE_SECONDS,
    NAMESPACE_WATCH_SECONDS,
    REFS_DUMP_SECONDS,
    SEAL_ROWS,
    SEALED_LAYERS_SLOWDOWN,
    SLICE_OBJECTS,
    SLICE_OBJECTS_MAX,
    SLICE_SECONDS,
    SLICE_SECONDS_MAX,
    SLICE_SECONDS_MIN,
)

CONFIG_FILE_VARIABLE: Final = "LAKEBED_CONFIG"

_PREFIX: Final = "LAKEBED_"
_OTHER_VARIABLES: Final = (
    CONFIG_FILE_VARIABLE,
    "LAKEBED_ENDPOINT",
    "LAKEBED_ACCESS_KEY_ID",
    "LAKEBED_SECRET_ACCESS_KEY",
)
_FLAGS: Final = {
    **dict.fromkeys(("true", "1", "yes", "on"), True),
    **dict.fromkeys(("false", "0", "no", "off"), False),
}
_HOST_NAME: Final = re.compile(r"[A-Za-z0-9.-]+(:[0-9]{1,5})?")
_PASSWORD: Final = re.compile(r"(://[^:/@]*:|[?&]password=)[^@&]+")
_HIDDEN: Final = "***"


@dataclass(frozen=True, slots=True)
class Kind:
    """What a setting can be: in words, from text, and which values of TOML say it."""

    words: str
    of_text: Callable[[str], Any]
    """Raises `ValueError` for text that means nothing."""
    toml: type | tuple[type, ...] = str
    bounds: str = ""
    """The least and the greatest value, for the page of settings."""

    def of_toml(self, value: Any) -> Any:
        """Return the value that TOML's `value` means; `ValueError` if it means none."""
        if isinstance(value, self.toml):
            # A boolean is an integer to Python and to nobody else: as text it is no number.
            return self.of_text(str(value).lower() if isinstance(value, bool) else str(value))
        raise ValueError(value)


class _ListKind(Kind):
    def of_toml(self, value: Any) -> Any:
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            raise ValueError(value)
        return tuple(value)


class _CheckedListKind(_ListKind):
    """A list whose texts have a form, and no commas in them."""

    def of_toml(self, value: Any) -> Any:
        return self.of_text(",".join(super().of_toml(value)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One setting."""

    name: str
    """In TOML, sections before the dots."""
    kind: Kind
    meaning: str
    default: Any = None
    unset: str = ""
    """What is the case without it, where no default says so."""
    flag: str = ""
    secret: bool = False
    shared: bool = False
    """Whether all processes of an installation must have the same value (`refs/agreement.py`)."""
    others: tuple[str, ...] = ()
    """Variables that other tools know, read when this setting is not given."""
    others_unless: str = ""
    """A setting that, once given, keeps `others` out: halves of two key pairs make none."""

    @property
    def variable(self) -> str:
        """The environment variable."""
        return _PREFIX + self.name.upper().replace(".", "_")

    @property
    def described(self) -> str:
        """What the page of settings says of it."""
        bounds = f" {self.kind.bounds}." if self.kind.bounds else ""
        return self.meaning + bounds + (" The same in all processes." if self.shared else "")

    def shown(self, value: Any) -> str:
        """Return `value` for people, without what is secret."""
        if value is None:
            return self.unset
        if self.secret:
            return _HIDDEN
        if isinstance(value, bool):
            return str(value).lower()
        if isinstance(value, tuple):
            return ",".join(value) or "none"
        return hide_password(str(value))


def hide_password(url: str) -> str:
    """Return a URL without its password."""
    return _PASSWORD.sub(rf"\1{_HIDDEN}", url)


def _flag(text: str) -> bool:
    if text.lower() not in _FLAGS:
        raise ValueError(text)
    return _FLAGS[text.lower()]


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise ValueError(text)
    return int(text)


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0 <= seconds < float("inf"):
        raise ValueError(text)
    return seconds


def _seconds_between(least: float, most: float) -> Kind:
    def within(text: str) -> float:
        seconds = _seconds(text)
        if not least <= seconds <= most:
            raise ValueError(text)
        return seconds

    bounds = f"{least:,.0f} to {most:,.0f}"
    return Kind(f"a number of seconds from {bounds}", within, (int, float), bounds)


def _count_between(least: int, most: int) -> Kind:
    def within(text: str) -> int:
        count = _count(text)
        if not least <= count <= most:
            raise ValueError(text)
        return count

    bounds = f"{least:,} to {most:,}"
    return Kind(f"a whole number from {bounds}", within, int, bounds)


def _listen(text: str) -> str:
    _, separator, port = text.rpartition(":")
    if not separator or not port.isascii() or not port.isdigit() or not 0 < int(port) < 2**16:
        raise ValueError(text)
    return text


def _one_of(*choices: str) -> Kind:
    def chosen(text: str) -> str:
        if text not in choices:
            raise ValueError(text)
        return text

    return Kind(" or ".join(choices), chosen)


def _network(text: str) -> str:
    return str(ip_network(text, strict=False))


def _networks(text: str) -> tuple[str, ...]:
    return tuple(_network(part) for part in _parts(text))


def _host_names(text: str) -> tuple[str, ...]:
    names = _parts(text)
    if not all(_HOST_NAME.fullmatch(name) for name in names):
        raise ValueError(text)
    return names


def _folders(text: str) -> tuple[str, ...]:
    folders = _parts(text)
    if not all(folder.startswith("/") for folder in folders):
        raise ValueError(text)
    return folders


def _parts(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


_TEXT: Final = Kind("text", str)
_PATH: Final = Kind("a path", Path)
_FLAG: Final = Kind("true or false", _flag, bool)
_PROCESSES: Final = _count_between(1, 1_000)
# A shorter lease would run out between two heartbeats of a busy machine, a longer one keeps the jobs of a dead compactor.
_LEASE: Final = _seconds_between(1, 600)
_REFS_DUMP: Final = _seconds_between(0, 86_400)
_LISTEN: Final = Kind("HOST:PORT", _listen)
_LIST: Final = _ListKind("a list of texts (in a variable: with commas between them)", _parts, list)

_HOSTS: Final = _CheckedListKind("a list of host names, each with a port or without", _host_names, list)
_NETWORKS: Final = _CheckedListKind("a list of addresses and networks, as 10.0.0.0/8", _networks, list)

_FOLDERS: Final = _CheckedListKind(
    "a list of absolute folders (in a variable: with commas between them)", _folders, list
)

_S3_KEY: Final = "storage.s3.access_key_id"

SETTINGS: Final[dict[str, Setting]] = {
    setting.name: setting
    for setting in (
        Setting(
            name="data",
            kind=_PATH,
            default=Path("lakebed-data"),
            flag="--data",
            meaning="The data folder: the embedded database, `local://` objects, the cache, the installation's key.",
        ),
        Setting(
            name="listen",
            kind=_LISTEN,
            default="127.0.0.1:8000",
            flag="--listen",
            meaning="Where to listen: HOST:PORT.",
        ),
        Setting(
            name="workers",
            kind=_PROCESSES,
            default=2,
            flag="--workers",
            meaning="How many processes serve requests.",
        ),
        Setting(
            name="shutdown_seconds",
            kind=_count_between(1, 86_400),
            default=30,
            meaning="How long requests that have begun may take to end after SIGTERM; then they are cut off.",
        ),
        Setting(
            name="database",
            kind=_TEXT,
            unset="embedded, in the data folder",
            meaning="The key-value store for refs and staged changes, as a URL: `lmdb://FOLDER`, `postgresql://…`.",
        ),
        Setting(
            name="tls.cert",
            kind=_PATH,
            unset="no TLS",
            flag="--tls-cert",
            meaning="A PEM file with the certificate, and the chain up to its authority.",
        ),
        Setting(
            name="tls.key",
            kind=_PATH,
            unset="no TLS",
            flag="--tls-key",
            meaning="A PEM file with the certificate's private key, not encrypted.",
        ),
        Setting(
            name="http.hosts",
            kind=_HOSTS,
            default=(),
            meaning="Public names of the server; once set, requests that name another host are refused.",
        ),
        Setting(
            name="http.trusted_proxies",
            kind=_NETWORKS,
            default=(),
            meaning="Addresses and networks of proxies whose `X-Forwarded-For` and `X-Forwarded-Proto` count.",
        ),
        Setting(
            name="http.secure_cookies",
            kind=_one_of("auto", "always", "never"),
            default="auto",
            meaning="Whether browsers send the login cookie by HTTPS only: `auto` if the login came by HTTPS, here or to a trusted proxy.",
        ),
        Setting(
            name="installation.user_name",
            kind=_TEXT,
            default="admin",
            meaning="The first user; used at the first start only.",
        ),
        Setting(
            name="installation.access_key_id",
            kind=_TEXT,
            unset="not set up by itself",
            meaning="The first user's access key; with it, the first start sets the installation up.",
        ),
        Setting(
            name="installation.secret_access_key",
            kind=_TEXT,
            secret=True,
            unset="not set up by itself",
            meaning="The secret of that access key.",
        ),
        Setting(
            name="installation.key",
            kind=_TEXT,
            secret=True,
            unset="one of its own, in the data folder",
            meaning="What secrets are encrypted with at rest: at least 32 bytes, the same on every machine.",
        ),
        Setting(
            name="storage.default",
            kind=_one_of("local", "s3"),
            default="local",
            meaning="The storage that clients are told of: `local` or `s3`.",
        ),
        Setting(
            name="storage.local.roots",
            kind=_FOLDERS,
            default=(),
            meaning="Folders in or below which a repository may lie at `local:///folder`, absolute; without any, only `local://name` works.",
        ),
        Setting(
            name="storage.local.import_prefixes",
            kind=_LIST,
            default=(),
            meaning="Folders and addresses that objects may be imported from; none unless they are named here.",
        ),
        Setting(
            name="storage.local.fsync",
            kind=_FLAG,
            default=True,
            meaning="Whether an upload is on disk, safe from a power cut, before it is acknowledged.",
        ),
        Setting(
            name="storage.s3.endpoint",
            kind=_TEXT,
            unset="AWS",
            others=("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"),
            meaning="The address of an S3 server, as `http://host:port`.",
        ),
        Setting(
            name="storage.s3.region",
            kind=_TEXT,
            default="us-east-1",
            others=("AWS_REGION", "AWS_DEFAULT_REGION"),
            meaning="The region that requests to S3 are signed for.",
        ),
        Setting(
            name="storage.s3.path_style",
            kind=_FLAG,
            unset="true with an endpoint",
            meaning="Whether the bucket is in the path, not in the host's name.",
        ),
        Setting(
            name=_S3_KEY,
            kind=_TEXT,
            unset="no access to S3",
            others=("AWS_ACCESS_KEY_ID",),
            meaning="The access key for S3.",
        ),
        Setting(
            name="storage.s3.secret_access_key",
            kind=_TEXT,
            secret=True,
            unset="no access to S3",
            others=("AWS_SECRET_ACCESS_KEY",),
            others_unless=_S3_KEY,
            meaning="The secret of that access key.",
        ),
        Setting(
            name="storage.s3.session_token",
            kind=_TEXT,
            secret=True,
            unset="none",
            others=("AWS_SESSION_TOKEN",),
            others_unless=_S3_KEY,
            meaning="The session token of a temporary access key.",
        ),
        Setting(
            name="s3.domain",
            kind=_TEXT,
            unset="the bucket is in the path",
            meaning="The domain of the S3 endpoint: requests to hosts under it are S3's, and the host names the bucket.",
        ),
        Setting(
            name="s3.listen",
            kind=_LISTEN,
            unset="only where everything else is",
            meaning="Where the S3 endpoint listens beside `listen`, for nothing but S3: HOST:PORT.",
        ),
        Setting(
            name="s3.region",
            kind=_TEXT,
            unset="any; clients are told us-east-1",
            meaning="The region that clients of the S3 endpoint must sign for.",
        ),
        Setting(
            name="cache.bytes",
            kind=_count_between(1, 1 << 50),
            default=CACHE_BYTES_DEFAULT,
            meaning="How large the cache of decoded ranges in the data folder may become.",
        ),
        Setting(
            name="staging.segments",
            kind=_one_of("auto", "always"),
            default="auto",
            meaning="Which batches of staged changes are stored as files instead of database rows: large ones, or all.",
        ),
        Setting(
            name="staging.wait_seconds",
            kind=_seconds_between(0, 10),
            default=0.0,
            meaning="How long a staged change waits for others to share its round trip to a remote database.",
        ),
        Setting(
            name="compaction",
            kind=_FLAG,
            default=True,
            meaning="Whether `lakebed run` starts a compactor beside its workers.",
        ),
        Setting(
            name="compactor.jobs",
            kind=_PROCESSES,
            unset="as many as there are processors",
            meaning="Jobs that a compactor does at a time.",
        ),
        Setting(
            name="compactor.lease_seconds",
            kind=_LEASE,
            default=LEASE_SECONDS,
            shared=True,
            meaning="How long a compactor may be silent before another takes its jobs.",
        ),
        Setting(
            name="compactor.fold_layers",
            kind=_count_between(2, FOLD_LAYERS_MAX),
            default=FOLD_LAYERS,
            meaning="Adjacent layers that are merged at once while a branch is written to.",
        ),
        Setting(
            name="compactor.fold_quiet_seconds",
            kind=_seconds_between(1, 86_400),
            default=FOLD_QUIET_SECONDS,
            meaning="After so long without writes, two layers are enough.",
        ),
        Setting(
            name="compactor.tree_entries",
            kind=_count_between(100, COMPACTION_ROWS_MAX),
            default=L2_ENTRIES,
            meaning="Staged entries of a branch that are put into its compacted tree.",
        ),
        Setting(
            name="compactor.tree_tombstones",
            kind=_count_between(100, COMPACTION_ROWS_MAX),
            default=L2_TOMBSTONES,
            meaning="Staged deletions that are.",
        ),
        Setting(
            name="compactor.tree_bytes",
            kind=_count_between(64 * KIB, COMPACTION_BYTES_MAX),
            default=L2_BYTES,
            meaning="Bytes of staged changes that are.",
        ),
        Setting(
            name="compactor.tree_layers",
            kind=_count_between(2, SEALED_LAYERS_SLOWDOWN - 1),
            default=L2_LAYERS,
            meaning="Sealed layers that are; fewer than the number at which writers are told to wait (48).",
        ),
        Setting(
            name="compactor.tree_quiet_seconds",
            kind=_seconds_between(L2_REST_SECONDS, 86_400),
            default=L2_QUIET_SECONDS,
            meaning="After so long without writes, anything is.",
        ),
        Setting(
            name="compactor.seal_rows",
            kind=_count_between(1_000, COMPACTION_ROWS_MAX),
            default=SEAL_ROWS,
            meaning="Rows at which a compactor seals the layer that a branch's writers are writing to.",
        ),
        Setting(
            name="compactor.queue_max",
            kind=_count_between(10, 5_000),
            default=COMPACTION_JOBS_MAX,
            meaning="Jobs that one repository's queue holds; a kilobyte or four each, in one record.",
        ),
        Setting(
            name="compactor.failures_max",
            kind=_count_between(1, 100),
            default=COMPACTION_FAILURES_MAX,
            meaning="Failed attempts before a job is halved, or a job of one layer is parked.",
        ),
        Setting(
            name="compactor.held_seconds",
            kind=_seconds_between(60, 7 * 86_400),
            default=COMPACTION_HELD_SECONDS,
            meaning="How long the layers of a parked job that made room for others are left alone.",
        ),
        Setting(
            name="compactor.metrics",
            kind=_LISTEN,
            unset="not shown; those of the one that a server starts are the server's",
            meaning="Where `lakebed compactor` shows its metrics to Prometheus: HOST:PORT.",
        ),
        Setting(
            name="grace_seconds",
            kind=_seconds_between(GRACE_SECONDS_MIN, GRACE_SECONDS_MAX),
            default=GRACE_SECONDS,
            shared=True,
            meaning="How long what left a branch, a stash or the list of repositories is kept; listing what is uncommitted may take half of it.",
        ),
        Setting(
            name="links.lifetime_seconds",
            kind=_seconds_between(LINK_LIFETIME_SECONDS_MIN, GC_MIN_AGE_SECONDS),
            default=LINK_LIFETIME_SECONDS,
            shared=True,
            meaning="How long clients have to upload to an address that they were given, and link it.",
        ),
        Setting(
            name="slices.seconds",
            kind=_seconds_between(SLICE_SECONDS_MIN, SLICE_SECONDS_MAX),
            default=SLICE_SECONDS,
            shared=True,
            meaning="How long one process puts objects into one folder of `data/`.",
        ),
        Setting(
            name="slices.objects",
            kind=_count_between(100, SLICE_OBJECTS_MAX),
            default=SLICE_OBJECTS,
            meaning="Objects that it puts there at most.",
        ),
        Setting(
            name="maintenance.seconds",
            kind=_seconds_between(1, 3_600),
            default=MAINTENANCE_SECONDS,
            meaning="The pause between two rounds of maintenance: freeing what is over, ending what was given up.",
        ),
        Setting(
            name="refs.dump_seconds",
            kind=_REFS_DUMP,
            default=REFS_DUMP_SECONDS,
            meaning="How often refs that moved are dumped into their namespace: what a lost database loses. 0 turns it off.",
        ),
        Setting(
            name="refs.owner_seconds",
            kind=_seconds_between(1, 3_600),
            default=NAMESPACE_WATCH_SECONDS,
            meaning="How often a server looks whether another installation has adopted a repository's namespace.",
        ),
        Setting(
            name="metrics.repositories",
            kind=_FLAG,
            default=False,
            meaning="Whether metrics of garbage collection name repositories; anyone who reaches the server can read metrics.",
        ),
        Setting(
            name="threads",
            kind=_PROCESSES,
            default=4,
            meaning="Threads of each worker for merging and encoding, and as many again for local storage.",
        ),
        Setting(
            name="processes",
            kind=_PROCESSES,
            default=2,
            meaning="Processes of each worker for hashing files on import; started when needed.",
        ),
        Setting(
            name="log.format",
            kind=_one_of("text", "json"),
            default="text",
            meaning="How log lines look: `text` for people, `json` for programs.",
        ),
        Setting(
            name="log.level",
            kind=_one_of("debug", "info", "warning", "error"),
            default="info",
            meaning="The least important log lines to write: `debug`, `info` (each change), `warning` or `error`.",
        ),
    )
}


def nearest_setting(name: str) -> str | None:
    """Return the setting that somebody who wrote `name` may have meant."""
    return next(iter(get_close_matches(name, SETTINGS, n=1)), None)


def unknown_variables(names: list[str]) -> dict[str, str | None]:
    """Return the variables that look like ours and are not, each with one that may have been meant."""
    known = [*(setting.variable for setting in SETTINGS.values()), *_OTHER_VARIABLES]
    return {
        name: next(iter(get_close_matches(name, known, n=1)), None)
        for name in sorted(names)
        if name.startswith(_PREFIX) and name not in known
    }
