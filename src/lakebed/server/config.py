"""`Config`: what an installation is told from outside."""

from dataclasses import dataclass, field
from pathlib import Path

from lakebed.limits import CACHE_BYTES_DEFAULT
from lakebed.objects.settings import StoreSettings


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
    threads: int = 4
    processes: int = 2
