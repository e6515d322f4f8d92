"""Hypothesis strategies for paths, entries and changes that meet each other often."""

from hypothesis import strategies as st

from lakebed.env.clock import Instant
from lakebed.model.entries import Entry, Tombstone
from lakebed.model.ids import Path

# Few letters make paths collide and share prefixes; the odd ones differ in how many bytes and UTF-16 units they take.
paths = st.one_of(
    st.text("ab/", min_size=1, max_size=4),
    st.text(["a", "\x00", "\x7f", "é", "\u07ff", "\uffff", "\U0001f600"], min_size=1, max_size=3),
    st.integers(0, 40).map(lambda n: f"table/date=2024-01-{n:02d}/part.parquet"),
)


def entry(path: str, content: int, place: int) -> Entry:
    """Return an entry; `content` decides its identity, `place` only its address and time.

    Places 3 and 4 are outside the namespace: one address, at two times. Content 4 has no checksum.
    """
    return Entry(
        path=Path(path),
        address=f"data/slice/{content}-{place}" if place < 3 else f"s3://elsewhere/{content}",
        checksum=f"{content:032x}" if content != 4 else "",
        size_bytes=content,
        mtime=Instant(1_700_000_000_000_000 + place),
        content_type="text/plain" if content % 2 else "",
        metadata={"k": "v" * content} if content % 3 == 0 else {},
    )


fields = st.tuples(st.integers(0, 4), st.integers(0, 4))
trees = st.dictionaries(paths, fields, max_size=30).map(
    lambda chosen: {path: entry(path, *chosen[path]) for path in sorted(chosen)}
)
changes = st.dictionaries(paths, st.none() | fields, max_size=20).map(
    lambda chosen: {
        path: Tombstone(path=Path(path)) if values is None else entry(path, *values)
        for path, values in sorted(chosen.items())
    }
)
