"""Golden bytes in tests/golden/uploads hold version 1 of uploads in parts for ever, one file a value."""

from pathlib import Path
from typing import Any

import pytest

from lakebed.env.clock import Instant
from lakebed.errors import CorruptError
from lakebed.format.part_uploads import (
    decode_part_upload,
    decode_uploaded_part,
    encode_part_upload,
    encode_uploaded_part,
)
from lakebed.model.ids import BranchName
from lakebed.model.ids import Path as ObjectPath
from lakebed.model.part_uploads import PartUpload, PartUploadState, UploadedPart

GOLDEN = Path(__file__).parents[2] / "golden" / "uploads"

UPLOAD: Any = (encode_part_upload, decode_part_upload)
PART: Any = (encode_uploaded_part, decode_uploaded_part)

VALUES: dict[str, tuple[Any, Any]] = {
    "upload-open": (
        UPLOAD,
        PartUpload(
            id="u1",
            branch=BranchName("main"),
            path=ObjectPath("a/é"),
            address="data/s/o",
            store_upload="store-1",
            initiator="ada",
            created_at=Instant(1 << 50),
            content_type="a/b",
            metadata={"k": "é"},
        ),
    ),
    "upload-completed": (
        UPLOAD,
        PartUpload(
            id="u1",
            branch=BranchName("main"),
            path=ObjectPath("a"),
            address="data/s/o",
            store_upload="store-1",
            initiator="ada",
            created_at=Instant(5),
            content_type="",
            state=PartUploadState.COMPLETED,
            checksum="abc-2",
        ),
    ),
    "upload-completing": (
        UPLOAD,
        PartUpload(
            id="u1",
            branch=BranchName("main"),
            path=ObjectPath("a"),
            address="data/s/o",
            store_upload="store-1",
            initiator="ada",
            created_at=Instant(5),
            content_type="",
            state=PartUploadState.COMPLETING,
            checksum="abc-2",
        ),
    ),
    "upload-staging": (
        UPLOAD,
        PartUpload(
            id="u1",
            branch=BranchName("main"),
            path=ObjectPath("a"),
            address="data/s/o",
            store_upload="store-1",
            initiator="ada",
            created_at=Instant(5),
            content_type="",
            state=PartUploadState.STAGING,
            checksum="abc-2",
            completed_at=Instant(6),
            claimed_by="n1",
        ),
    ),
    "part": (
        PART,
        UploadedPart(number=10_000, md5="0a", size_bytes=1 << 40, store_etag="e", uploaded_at=Instant(7)),
    ),
}


@pytest.mark.parametrize("name", VALUES)
def test_version_1_bytes_never_change(name: str) -> None:
    (encode, decode), value = VALUES[name]
    golden = bytes.fromhex((GOLDEN / f"{name}.v1.hex").read_text())
    assert encode(value) == golden
    assert decode(golden) == value


def test_every_golden_file_is_tested() -> None:
    assert {path.name for path in GOLDEN.glob("*.hex")} == {f"{name}.v1.hex" for name in VALUES}


@pytest.mark.parametrize("name", VALUES)
def test_other_bytes_are_corrupt(name: str) -> None:
    (encode, decode), value = VALUES[name]
    for damaged in (b"", b"\x02" + encode(value)[1:], encode(value)[:-1]):
        with pytest.raises(CorruptError):
            decode(damaged)
