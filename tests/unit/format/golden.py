"""The rows that the golden range and metarange files hold, spelled out."""

from dataclasses import replace
from pathlib import Path

from lakebed.env.clock import Instant
from lakebed.format.metaranges import RangeInfo
from lakebed.model.entries import Entry
from lakebed.model.ids import Path as ObjectPath
from lakebed.model.ids import RangeId

FOLDER = Path(__file__).parents[2] / "golden"

PATHS = ["\x01", "a", "a/b", "a0", "tables/date=2024-01-01/part-0.parquet", "é", "\uffff", "\U0001f600"]

ENTRIES = [
    Entry(
        path=ObjectPath(path),
        address=f"data/gqk3l0v8n2c4tq8vb0e0/{number:020}" if number % 2 else f"s3://elsewhere/{path}",
        checksum=f"{number:032x}",
        size_bytes=number * 10**12,
        mtime=Instant(1_700_000_000_000_000 + number),
        content_type="application/octet-stream" if number else "",
        metadata={"owner": "ünïcode", "number": str(number)} if number % 3 == 0 else {},
    )
    for number, path in enumerate(PATHS)
]

RANGE_HASH = "01fbc066b643e3e812cea8a74b7534b9a73bd82be76e45a0702139ca419de157"

RANGES = [
    RangeInfo(
        id=RangeId(f"{number:064x}-00000000000000000000"),
        hash=f"{number:064x}",
        min_key=f"{letter}/first",
        max_key=f"{letter}/last" if number else f"{letter}/first",
        count=number * 1000 or 1,
        bytes=number * 12_345,
    )
    for number, letter in enumerate("abcé")
]

# Version 2: the last range is of an earlier version, as in a tree that shares ranges with an older one.
NEW_RANGES = [
    *(replace(info, id=RangeId(f"{info.hash[:28]}{number:036x}")) for number, info in enumerate(RANGES[:-1])),
    RANGES[-1],
]

NEW_METARANGE_HASH = "4b48eb59145ed9aad9311960e22c00776f42b1a743234714d37c9cce0923da8e"

METARANGE_HASH = "88e8894cc0fa4a4d96505e817dfdb3753735aeb5df2fad4ecc39f29f01156da8"
