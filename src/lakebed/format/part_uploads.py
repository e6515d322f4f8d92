"""Uploads in parts, and their parts, as KV values."""

from typing import Final

from lakebed.env.clock import Instant
from lakebed.format.codec import Codec, Stored
from lakebed.model.ids import BranchName, Path
from lakebed.model.part_uploads import PartUpload, PartUploadState, UploadedPart


class _PartUpload(Stored):
    id: str
    branch: BranchName
    path: Path
    address: str
    store_upload: str
    initiator: str
    created_at: Instant
    content_type: str
    metadata: dict[str, str]
    state: PartUploadState
    checksum: str


class _CompletedUpload(_PartUpload):
    completed_at: Instant = Instant(0)


class _ClaimedUpload(_CompletedUpload):
    claimed_by: str = ""


class _UploadedPart(Stored):
    number: int
    md5: str
    size_bytes: int
    store_etag: str
    uploaded_at: Instant


# The last reads all three. An encoder leaves trailing fields out while they are empty, as older versions wrote them.
_UPLOAD: Final = Codec[_PartUpload]("part upload", 1, _PartUpload)
_COMPLETED: Final = Codec[_CompletedUpload]("part upload", 1, _CompletedUpload)
_CLAIMED: Final = Codec[_ClaimedUpload]("part upload", 1, _ClaimedUpload)
_PART: Final = Codec[_UploadedPart]("uploaded part", 1, _UploadedPart)


def encode_part_upload(upload: PartUpload) -> bytes:
    """Return an upload as its KV value."""
    fields = (
        upload.id,
        upload.branch,
        upload.path,
        upload.address,
        upload.store_upload,
        upload.initiator,
        upload.created_at,
        upload.content_type,
        dict(upload.metadata),
        upload.state,
        upload.checksum,
    )
    if upload.claimed_by:
        return _CLAIMED.seal(_ClaimedUpload(*fields, upload.completed_at, upload.claimed_by))
    if upload.completed_at:
        return _COMPLETED.seal(_CompletedUpload(*fields, upload.completed_at))
    return _UPLOAD.seal(_PartUpload(*fields))


def decode_part_upload(data: bytes) -> PartUpload:
    """Return what `encode_part_upload` was given, or raise `CorruptError`."""
    s = _CLAIMED.open(data)
    return PartUpload(
        id=s.id,
        branch=s.branch,
        path=s.path,
        address=s.address,
        store_upload=s.store_upload,
        initiator=s.initiator,
        created_at=s.created_at,
        content_type=s.content_type,
        metadata=s.metadata,
        state=s.state,
        checksum=s.checksum,
        completed_at=s.completed_at,
        claimed_by=s.claimed_by,
    )


def encode_uploaded_part(part: UploadedPart) -> bytes:
    """Return a part as its KV value."""
    return _PART.seal(
        _UploadedPart(part.number, part.md5, part.size_bytes, part.store_etag, part.uploaded_at)
    )


def decode_uploaded_part(data: bytes) -> UploadedPart:
    """Return what `encode_uploaded_part` was given, or raise `CorruptError`."""
    s = _PART.open(data)
    return UploadedPart(
        number=s.number,
        md5=s.md5,
        size_bytes=s.size_bytes,
        store_etag=s.store_etag,
        uploaded_at=s.uploaded_at,
    )
