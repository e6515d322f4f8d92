"""Differences on the wire."""

import msgspec

from lakebed.api.pages import PageOf, PageQuery, page_of
from lakebed.env.clock import SECOND
from lakebed.format.identity import decode_metadata
from lakebed.model.diffs import DiffType
from lakebed.model.entries import CONTENT_TYPE_DEFAULT
from lakebed.versioning.paging import BlockPage


class DiffPageQuery(PageQuery):
    """With a delimiter, everything below a common prefix becomes one result."""

    delimiter: str = ""


class RightSide(msgspec.Struct):
    """What the right side of a difference has."""

    checksum: str
    mtime: int
    content_type: str
    metadata: dict[str, str]


class DiffBody(msgspec.Struct, omit_defaults=True):
    """One difference."""

    type: str
    path: str
    path_type: str
    size_bytes: int | None = None
    right: RightSide | None = None


def diff_page(
    page: BlockPage, *, with_right: bool = False, with_removed_size: bool = True
) -> PageOf[DiffBody]:
    """Return a page of diff rows and folded prefixes, in key order.

    `with_removed_size` gives removed objects the size that they had: between two refs, not on a branch.
    """
    names = ("type", "key", "size", "checksum", "mtime", "content_type", "metadata")
    columns = [page.rows.column(name).to_pylist() for name in names]
    results = [
        DiffBody(
            type=kind,
            path=key,
            path_type="object",
            size_bytes=size if with_removed_size or kind != DiffType.REMOVED else 0,
            right=RightSide(
                checksum, mtime // SECOND, content_type or CONTENT_TYPE_DEFAULT, decode_metadata(metadata)
            )
            if with_right
            else None,
        )
        for kind, key, size, checksum, mtime, content_type, metadata in zip(*columns, strict=True)
    ]
    if page.prefixes:
        results += [DiffBody(DiffType.PREFIX_CHANGED.value, name, "common_prefix") for name in page.prefixes]
        results.sort(key=lambda each: each.path)
    return page_of(results, has_more=page.has_more, last=page.last)
