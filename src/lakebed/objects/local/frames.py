"""The bytes of a journal file. Pure.

    file    magic "LKBJ" (4) | version (1) | nonce (8) | boot id (36, padded with spaces)
    frame   nonce (8) | crc32 of what follows, without the end (4) | kind (1) | mtime (8)
            | key length (2) | data length (4) | key | data | end 0xff (1)

Numbers are big-endian, `mtime` in nanoseconds. The nonce is ASCII, random for
each file, and opens each frame, so that a reader finds the next frame after a
torn one, which a killed process leaves behind and others then write past. The
end is no ASCII: the nonce of the next frame cannot complete a torn one.

The last whole frame of a key says what the key is:

    PUT     exactly these bytes
    GONE    nothing
    DIRECT  what the disk has; it was made safe there before this frame was written
"""

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from lakebed.errors import CorruptError, ErrorKind

MAGIC: Final = b"LKBJ"
VERSION: Final = 1

_FILE: Final = struct.Struct(">4sB8s36s")
_FRAME: Final = struct.Struct(">8sIBQHI")
_END: Final = b"\xff"
_SEALED_FROM: Final = 12  # the checksum covers what follows nonce and checksum

FILE_HEADER_BYTES: Final = _FILE.size

assert _FRAME.size == 27


class Kind(IntEnum):
    """See the module's docstring."""

    PUT = 1
    GONE = 2
    DIRECT = 3


@dataclass(frozen=True, slots=True)
class Frame:
    """One change of one key."""

    kind: Kind
    key: str
    mtime_ns: int = 0
    data: bytes = b""


@dataclass(frozen=True, slots=True)
class Header:
    """The start of a journal file."""

    nonce: bytes
    boot_id: str


def encode_header(header: Header) -> bytes:
    """Return the first bytes of a journal file."""
    return _FILE.pack(MAGIC, VERSION, header.nonce, header.boot_id.encode("ascii").ljust(36))


def decode_header(data: bytes) -> Header | None:
    """Return the header, or None for a file that was never finished, and so never held a promise.

    Raises:
        CorruptError: `NEWER_VERSION`.
    """
    if len(data) < _FILE.size:
        return None
    magic, version, nonce, boot_id = _FILE.unpack_from(data)
    if magic != MAGIC:
        return None
    if version > VERSION:
        raise CorruptError(
            ErrorKind.NEWER_VERSION,
            f"the journal has version {version}, this lakebed reads up to {VERSION}: open the folder with the newer one",
        )
    return Header(nonce, boot_id.decode("ascii").rstrip())


def encode_frame(frame: Frame, nonce: bytes) -> bytes:
    """Return `frame` as bytes of the file with this nonce."""
    key = frame.key.encode()
    head = _FRAME.pack(nonce, 0, frame.kind, frame.mtime_ns, len(key), len(frame.data))
    checksum = zlib.crc32(frame.data, zlib.crc32(key, zlib.crc32(head[_SEALED_FROM:])))
    return b"".join((head[:8], checksum.to_bytes(4), head[_SEALED_FROM:], key, frame.data, _END))


def decode_frames(data: bytes, nonce: bytes) -> Iterator[Frame]:
    """Yield the whole frames of a journal file in order; what is torn is passed over."""
    position = data.find(nonce, FILE_HEADER_BYTES)
    while position >= 0:
        frame, size = _decode(data, position)
        if frame is not None:
            yield frame
        position = data.find(nonce, position + size)


def _decode(data: bytes, position: int) -> tuple[Frame | None, int]:
    if position + _FRAME.size > len(data):
        return None, 1
    _, checksum, kind, mtime_ns, key_size, data_size = _FRAME.unpack_from(data, position)
    end = position + _FRAME.size + key_size + data_size
    if data[end : end + 1] != _END:
        return None, 1
    if zlib.crc32(memoryview(data)[position + _SEALED_FROM : end]) != checksum:
        return None, 1
    key_start = position + _FRAME.size
    key = data[key_start : key_start + key_size].decode()
    return Frame(Kind(kind), key, mtime_ns, data[key_start + key_size : end]), end + 1 - position
