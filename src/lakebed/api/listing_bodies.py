"""A page of a listing as JSON, written column by column.

A thousand objects as Python values take a millisecond to make and to encode, most of a
listing's time. Their text is the same but for seven columns, so it is joined from the
columns as they lie in the range, a few passes over memory for the whole page. What needs
escaping, which names hardly ever do, takes the way over values.
"""

from bisect import bisect_left
from collections.abc import Sequence
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.api.object_bodies import stats_page
from lakebed.api.pages import pagination_of
from lakebed.env.clock import SECOND
from lakebed.format.columns import text_buffers
from lakebed.model.entries import CONTENT_TYPE_DEFAULT
from lakebed.versioning.paging import BlockPage

_encode: Final = msgspec.json.Encoder().encode
_CONTROL_END, _QUOTE, _BACKSLASH = 0x20, 0x22, 0x5C


def listing_json(page: BlockPage, namespace: str, *, with_metadata: bool) -> bytes:
    """Return the body of a page, exactly as `stats_page` encodes."""
    if page.rows.num_rows == 0:
        return _document(page, [b"".join(map(_common_prefix, page.prefixes))[:-1]])
    columns = {name: page.rows.column(name).combine_chunks() for name in page.rows.column_names}
    if any(_needs_escapes(columns[name]) for name in ("key", "address", "checksum", "content_type")):
        return _encode(stats_page(page, namespace, with_metadata=with_metadata))
    objects = _objects(columns, namespace, with_metadata=with_metadata)
    return _document(page, _in_order(page, columns["key"], objects))


def _document(page: BlockPage, results: Sequence[bytes | memoryview]) -> bytes:
    count = page.rows.num_rows + len(page.prefixes)
    pagination = pagination_of(count, has_more=page.has_more, last=page.last)
    return b"".join((b'{"pagination":', _encode(pagination), b',"results":[', *results, b"]}"))


def _objects(columns: dict[str, Any], namespace: str, *, with_metadata: bool) -> pa.StringArray:
    """Return one JSON object a row, each with a comma behind it."""
    parts: list[Any] = [
        '{"path":"',
        columns["key"],
        '","path_type":"object","physical_address":"',
        *_full_addresses(columns["address"], namespace),
        '","checksum":"',
        columns["checksum"],
        '","mtime":',
        pc.cast(pc.divide(columns["mtime"], SECOND), pa.string()),
        ',"size_bytes":',
        pc.cast(columns["size"], pa.string()),
    ]
    if with_metadata:
        parts += [',"metadata":', *_metadata(columns["metadata"])]
    parts += [',"content_type":"', _content_types(columns["content_type"]), '"},']
    return pc.binary_join_element_wise(*_fused(parts), "")


def _fused(parts: list[Any]) -> list[Any]:
    """Return the parts with neighbouring texts in one: each part is a pass over all rows."""
    fused: list[Any] = []
    for part in parts:
        if fused and isinstance(part, str) and isinstance(fused[-1], str):
            fused[-1] += part
        else:
            fused.append(part)
    return fused


def _full_addresses(address: pa.StringArray, namespace: str) -> list[Any]:
    """Return what, joined, is the address as a URI: of an object inside, it is relative to the namespace."""
    outside = pc.match_substring(address, "://")
    count = outside.true_count
    before = _quoted(f"{namespace}/")[1:-1]
    if count == 0:
        return [before, address]
    return [address] if count == len(address) else [pc.if_else(outside, "", before), address]


def _content_types(content_type: pa.StringArray) -> pa.StringArray:
    """Return the types, with the default for those that are empty."""
    offsets, _ = text_buffers(content_type)
    if (offsets[1:] > offsets[:-1]).all():
        return content_type
    return pc.if_else(pc.equal(content_type, ""), CONTENT_TYPE_DEFAULT, content_type)


def _metadata(metadata: pa.StringArray) -> list[Any]:
    """Return metadata, which is JSON in the column already, but empty for none."""
    offsets, _ = text_buffers(metadata)
    if offsets[0] == offsets[-1]:
        return ["{}"]
    return [pc.if_else(pc.equal(metadata, ""), "{}", metadata)]


def _in_order(page: BlockPage, keys: pa.StringArray, objects: pa.StringArray) -> list[bytes | memoryview]:
    """Return the objects and the common prefixes in key order, the last without its comma."""
    offsets, data = text_buffers(objects)
    text = data.data
    if not page.prefixes:
        return [text[offsets[0] : int(offsets[-1]) - 1]]
    names = keys.to_pylist()
    pieces: list[bytes | memoryview] = []
    done = 0
    for prefix in page.prefixes:
        row = bisect_left(names, prefix, lo=done)
        pieces += [text[offsets[done] : offsets[row]], _common_prefix(prefix)]
        done = row
    pieces.append(text[offsets[done] : offsets[-1]])
    while not pieces[-1]:
        pieces.pop()
    pieces[-1] = pieces[-1][:-1]
    return pieces


def _common_prefix(name: str) -> bytes:
    return (
        b'{"path":%s,"path_type":"common_prefix","physical_address":"","checksum":"","mtime":0},'
        % _quoted(name).encode()
    )


def _quoted(text: str) -> str:
    return _encode(text).decode()


def _needs_escapes(column: pa.StringArray) -> bool:
    offsets, data = text_buffers(column)
    text = data[offsets[0] : offsets[-1]]
    return bool((text < _CONTROL_END).any() or (text == _QUOTE).any() or (text == _BACKSLASH).any())
