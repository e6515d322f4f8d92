"""`Versioned`: a record as read, with the version to swap it by."""

from typing import Generic, TypeVar

import msgspec

from lakebed.kv.port import Version

T_co = TypeVar("T_co", covariant=True)


class Versioned(msgspec.Struct, Generic[T_co], frozen=True):
    """A decoded record and the version of the bytes it was decoded from."""

    value: T_co
    version: Version
