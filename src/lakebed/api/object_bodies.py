"""Objects on the wire."""

from collections.abc import Mapping

import msgspec

from lakebed.api.pages import PageOf, page_of
from lakebed.env.clock import SECOND
from lakebed.format.identity import decode_metadata
from lakebed.model.entries import CONTENT_TYPE_DEFAULT, Entry
from lakebed.versioning.paging import BlockPage


class ObjectStats(msgspec.Struct, omit_defaults=True):
    """What is known of an object, or of a common prefix."""

    path: str
    path_type: str
    physical_address: str
    checksum: str
    mtime: int
    size_bytes: int | None = None
    metadata: Mapping[str, str] | None = None
    content_type: str | None = None
    physical_address_expiry: int | None = None


def full_address(namespace: str, address: str) -> str:
    """Return an entry's address as a URI."""
    return address if "://" in address else f"{namespace}/{address}"


def object_stats(entry: Entry, namespace: str, *, with_metadata: bool = True) -> ObjectStats:
    """Return an entry as clients see it."""
    return ObjectStats(
        path=entry.path,
        path_type="object",
        physical_address=full_address(namespace, entry.address),
        checksum=entry.checksum,
        mtime=entry.mtime // SECOND,
        size_bytes=entry.size_bytes,
        metadata=entry.metadata if with_metadata else {},
        content_type=entry.content_type or CONTENT_TYPE_DEFAULT,
    )


def stats_page(page: BlockPage, namespace: str, *, with_metadata: bool) -> PageOf[ObjectStats]:
    """Return a page of entries and common prefixes, in key order."""
    names = ("key", "address", "checksum", "size", "mtime", "content_type", "metadata")
    columns = [page.rows.column(name).to_pylist() for name in names]
    results = [
        ObjectStats(
            key,
            "object",
            address if "://" in address else f"{namespace}/{address}",
            checksum,
            mtime // SECOND,
            size,
            decode_metadata(metadata) if with_metadata else None,
            content_type or CONTENT_TYPE_DEFAULT,
        )
        for key, address, checksum, size, mtime, content_type, metadata in zip(*columns, strict=True)
    ]
    if page.prefixes:
        results += [ObjectStats(name, "common_prefix", "", "", 0) for name in page.prefixes]
        results.sort(key=lambda each: each.path)
    return page_of(results, has_more=page.has_more, last=page.last)
