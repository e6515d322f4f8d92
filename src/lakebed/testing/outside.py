"""A place outside of every repository, in memory, from which everything under `OUTSIDE` may be imported."""

from lakebed.objects.external import ExternalAddresses
from lakebed.objects.port import ObjectStore

OUTSIDE = "s3://outside"


class OutsideMemory(ExternalAddresses):
    """The gate in front of one store."""

    def __init__(self, store: ObjectStore) -> None:
        super().__init__(import_prefixes=(OUTSIDE,), namespaces=lambda: ())
        self._outside = store

    def _store(self, url: str) -> ObjectStore:
        assert url == OUTSIDE, "nothing else is admitted"
        return self._outside
