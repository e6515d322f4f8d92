"""Records of one kind, in order of their names, a page of the KV at a time."""

from collections.abc import AsyncIterator

from lakebed.kv.port import Item, KVStore, prefix_end
from lakebed.limits import SCAN_PAGE_ITEMS


async def scan_records(
    kv: KVStore,
    partition: str,
    folder: bytes,
    *,
    prefix: str = "",
    after: str = "",
    page_items_max: int = SCAN_PAGE_ITEMS,
) -> AsyncIterator[list[Item]]:
    """Yield pages of the records in `folder` whose name begins with `prefix` and is greater than `after`."""
    start = folder + prefix.encode()
    if after:
        start = max(start, folder + after.encode() + b"\0")
    end = prefix_end(folder + prefix.encode())
    async for page in kv.scan(partition, start=start, end=end, page_items_max=page_items_max):
        yield page.items()
