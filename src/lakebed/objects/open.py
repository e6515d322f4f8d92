"""URL to driver: the only place that knows them all."""

from lakebed.env.clock import Clock
from lakebed.env.ids import IdSource
from lakebed.env.work import Workers
from lakebed.objects.drivers.local import LocalObjects
from lakebed.objects.drivers.memory import MemoryBucket, MemoryObjects
from lakebed.objects.drivers.s3 import S3Objects
from lakebed.objects.namespaces import parse_place
from lakebed.objects.port import ObjectStore
from lakebed.objects.settings import StoreSettings as StoreSettings


def open_store(
    url: str,
    settings: StoreSettings,
    *,
    clock: Clock | None = None,
    ids: IdSource | None = None,
    workers: Workers | None = None,
    buckets: dict[str, MemoryBucket] | None = None,
) -> ObjectStore:
    """Return the store at `url`. Nothing is touched before its first call; the caller closes it.

    What `mem://` stores hold is kept in `buckets`; without it every call returns a new, empty store.

    Raises:
        InvalidInputError: `INVALID_NAMESPACE`, `INVALID_CONFIG`.
        UnavailableError: `STORE_UNAVAILABLE`: a local folder that the configuration does not admit.
    """
    place = parse_place(url)
    match place.scheme:
        case "mem":
            bucket = buckets.setdefault(str(place), MemoryBucket()) if buckets is not None else None
            return MemoryObjects(clock=clock, bucket=bucket)
        case "local":
            folder = settings.places.folder(place)
            return LocalObjects(
                folder.path, top=folder.top, fsync=settings.fsync, clock=clock, ids=ids, workers=workers
            )
        case _:
            return S3Objects(settings.s3_place(place.host, place.path), clock=clock, workers=workers)
