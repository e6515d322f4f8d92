"""Pages of users, groups, policies and keys, in order of their ids."""

from collections.abc import Callable, Iterable
from typing import TypeVar

from lakebed.auth.keys import AUTH_PARTITION
from lakebed.kv.port import KVStore
from lakebed.limits import SCAN_PAGE_ITEMS
from lakebed.model.auth import Gone
from lakebed.refs.listing import Listing
from lakebed.refs.scans import scan_records

T = TypeVar("T")


async def list_records(
    kv: KVStore,
    folder: bytes,
    decode: Callable[[bytes], T | Gone],
    *,
    prefix: str,
    after: str,
    amount: int,
    keep: Callable[[T], bool] | None = None,
) -> Listing[T]:
    """Return a page of the records in `folder` that exist and that `keep` keeps."""
    results: list[T] = []
    page = amount + 1 if keep is None else SCAN_PAGE_ITEMS
    async for items in scan_records(
        kv, AUTH_PARTITION, folder, prefix=prefix, after=after, page_items_max=page
    ):
        for item in items:
            record = decode(item.value)
            if isinstance(record, Gone) or (keep is not None and not keep(record)):
                continue
            if len(results) == amount:
                return Listing(results=tuple(results), has_more=True)
            results.append(record)
    return Listing(results=tuple(results), has_more=False)


def list_values(
    values: Iterable[T], name: Callable[[T], str], *, prefix: str, after: str, amount: int
) -> Listing[T]:
    """Return a page of values that are all at hand, in order of their names."""
    wanted = sorted((v for v in values if name(v).startswith(prefix) and name(v) > after), key=name)
    return Listing(results=tuple(wanted[:amount]), has_more=len(wanted) > amount)
