"""`Versioned`: a record as read, with the version to swap it by."""

from dataclasses import dataclass
from typing import Generic, TypeVar

from lakebed.kv.port import Version

T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Versioned(Generic[T_co]):
    """A decoded record and the version of the bytes it was decoded from."""

    value: T_co
    version: Version
