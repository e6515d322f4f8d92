"""The checksums that S3 clients send along with a body, and how each is computed.

CRC32 comes from zlib, CRC32C and CRC64NVME from Amazon's own library (30 GB/s on a machine
with AVX-512; a table in Python would do 5 MB/s), the others from hashlib.
"""

import binascii
import hashlib
import zlib
from base64 import b64decode, b64encode
from collections.abc import Callable
from enum import Enum
from typing import Protocol

from awscrt.checksums import crc32c, crc64nvme

from lakebed.s3.errors import Code, S3Error


class Algorithm(Enum):
    """A checksum by Amazon's name for it, and its size in bytes."""

    CRC32 = ("CRC32", 4)
    CRC32C = ("CRC32C", 4)
    CRC64NVME = ("CRC64NVME", 8)
    SHA1 = ("SHA1", 20)
    SHA256 = ("SHA256", 32)

    def __init__(self, text: str, size: int) -> None:
        self.text = text
        self.size = size
        self.header = f"x-amz-checksum-{text.lower()}"
        """The header or trailer that carries it, in Base64."""

    def start(self) -> "Running":
        """Return the checksum of nothing yet."""
        match self:
            case Algorithm.CRC32:
                return _Crc(zlib.crc32, self.size)
            case Algorithm.CRC32C:
                return _Crc(crc32c, self.size)
            case Algorithm.CRC64NVME:
                return _Crc(crc64nvme, self.size)
            case Algorithm.SHA1:
                return hashlib.sha1(usedforsecurity=False)
            case Algorithm.SHA256:
                return hashlib.sha256(usedforsecurity=False)

    def parse(self, text: str) -> bytes:
        """Return the checksum that a header or trailer carries.

        Raises:
            S3Error: it cannot be one of this kind.
        """
        value = parse_digest(text, self.size)
        if value is None:
            raise S3Error(Code.INVALID_REQUEST, f"Value for {self.header} header is invalid.")
        return value


BY_HEADER = {algorithm.header: algorithm for algorithm in Algorithm}


class Running(Protocol):
    """A checksum of what was seen so far."""

    def update(self, data: bytes, /) -> None:
        """Go on with `data`."""
        ...

    def digest(self) -> bytes:
        """Return the checksum up to here."""
        ...


class _Crc:
    def __init__(self, step: Callable[[bytes, int], int], size: int) -> None:
        self._step = step
        self._size = size
        self._value = 0

    def update(self, data: bytes, /) -> None:
        self._value = self._step(data, self._value)

    def digest(self) -> bytes:
        return self._value.to_bytes(self._size)


def parse_digest(text: str, size: int) -> bytes | None:
    """Return `size` bytes from their Base64; None if `text` is anything else."""
    try:
        value = b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None
    # Compared with its own encoding, so that there is one text for each value.
    return value if len(value) == size and show_digest(value) == text else None


def show_digest(value: bytes) -> str:
    """Return bytes as Base64."""
    return b64encode(value).decode()
