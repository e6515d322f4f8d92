"""URL to driver: the only place that knows them all."""

from lakebed.env.clock import Clock
from lakebed.env.ids import IdSource
from lakebed.env.work import Workers
from lakebed.objects.drivers.local import LocalObjects
from lakebed.objects.drivers.memory import MemoryObjects
from lakebed.objects.drivers.s3 import S3Objects
from lakebed.objects.namespaces import local_path, parse_place
from lakebed.objects.port import ObjectStore
from lakebed.objects.settings import StoreSettings as StoreSettings


def open_store(
    url: str,
    settings: StoreSettings,
    *,
    clock: Clock | None = None,
    ids: IdSource | None = None,
    workers: Workers | None = None,
) -> ObjectStore:
    """Return the store at `url`. Nothing is touched before its first call; the caller closes it.

    Every call of `mem://` is a new, empty store: whoever needs one twice keeps it.

    Raises:
        InvalidInputError: `INVALID_NAMESPACE`, `INVALID_CONFIG`.
    """
    place = parse_place(url)
    match place.scheme:
        case "mem":
            return MemoryObjects(clock=clock)
        case "local":
            root = local_path(place, settings.data_dir)
            return LocalObjects(root, fsync=settings.fsync, clock=clock, ids=ids, workers=workers)
        case _:
            return S3Objects(settings.s3_place(place.host, place.path), clock=clock, workers=workers)
