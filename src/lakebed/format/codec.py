"""`Codec`: the version byte around every record in the KV.

    version (1) | msgpack array of the record's fields

A field is only ever added at the end, with a default, so that within a version an
older reader skips what it does not know and a newer one fills in what is missing.
Anything else is a new version, which an older lakebed refuses with the remedy in
its message.
"""

from typing import Any, Generic, TypeVar

import msgspec

from lakebed.errors import CorruptError, ErrorKind

S = TypeVar("S")

_encode = msgspec.msgpack.Encoder().encode


class Stored(msgspec.Struct, array_like=True, gc=False):
    """Base of everything stored as a record."""


class Codec(Generic[S]):
    """Seals and opens one kind of record."""

    def __init__(self, noun: str, version: int, stored: Any) -> None:
        self._noun = noun
        self._version = version
        self._prefix = bytes([version])
        self._decode: Any = msgspec.msgpack.Decoder(stored).decode

    def seal(self, struct: S) -> bytes:
        """Return `struct` as a KV value."""
        return self._prefix + _encode(struct)

    def open(self, data: bytes) -> S:
        """Return what `seal` was given.

        Raises:
            CorruptError: not bytes that it returned, or those of a newer version.
        """
        version = data[0] if data else 0
        if version > self._version:
            raise CorruptError(
                ErrorKind.NEWER_VERSION,
                f"{self._noun} record has version {version}, this lakebed reads up to {self._version}: upgrade lakebed",
            )
        if version < 1:
            raise CorruptError(ErrorKind.UNREADABLE, f"{self._noun} record has no version")
        try:
            struct: S = self._decode(memoryview(data)[1:])
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise CorruptError(
                ErrorKind.UNREADABLE, f"{self._noun} record does not parse: {error}"
            ) from error
        return struct
