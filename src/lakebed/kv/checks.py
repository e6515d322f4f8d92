"""Refuse what no driver may send: the same words for the same mistake in every driver."""

from collections.abc import Sequence

from lakebed.errors import ConflictError, ErrorKind, InvalidInputError
from lakebed.kv.port import Capabilities, Expect, Fence, Row, Version
from lakebed.limits import KV_PARTITION_BYTES_MAX


def check_partition(partition: str) -> None:
    """Raise `InvalidInputError` unless `partition` can name one."""
    # A character is at most four bytes, so nearly every name is known to fit without encoding it.
    if not partition or len(partition) * 4 > KV_PARTITION_BYTES_MAX:
        _check_long_partition(partition)


def check_key(key: bytes, capabilities: Capabilities) -> None:
    """Raise `InvalidInputError` unless the driver can hold `key`."""
    if not 0 < len(key) <= capabilities.key_bytes_max:
        raise InvalidInputError(
            ErrorKind.INVALID_KEY,
            f"a key has 1 to {capabilities.key_bytes_max} bytes, this one has {len(key)}",
        )


def check_value(value: bytes, capabilities: Capabilities) -> None:
    """Raise `InvalidInputError` unless the driver can hold `value`."""
    if len(value) > capabilities.value_bytes_max:
        raise InvalidInputError(
            ErrorKind.TOO_LARGE,
            f"a value has at most {capabilities.value_bytes_max} bytes, this one has {len(value)}",
        )


def check_keys(keys: Sequence[bytes], capabilities: Capabilities) -> None:
    """Raise `InvalidInputError` unless the driver can hold every key."""
    if not keys:
        return
    check_key(min(keys, key=len), capabilities)
    check_key(max(keys, key=len), capabilities)


def check_rows(rows: Sequence[Row], capabilities: Capabilities) -> None:
    """Raise `InvalidInputError` unless the driver can hold every row."""
    if not rows:
        return
    check_keys([row.key for row in rows], capabilities)
    check_value(max([row.value for row in rows], key=len), capabilities)


def check_fence_supported(fence: Fence | None, capabilities: Capabilities) -> None:
    """Raise `InvalidInputError` if the driver cannot honour `fence`; check its record's name too."""
    if fence is None:
        return
    if not capabilities.fences:
        raise InvalidInputError(ErrorKind.UNSUPPORTED, "this store has no fences")
    check_partition(fence.partition)
    check_key(fence.key, capabilities)


def version_changed(key: bytes, expected: Version | Expect) -> ConflictError:
    """Return what `swap` and `remove` raise if the record is not at the expected version."""
    return ConflictError(ErrorKind.VERSION_CHANGED, f"{key!r} is no longer at version {expected}")


def _check_long_partition(partition: str) -> None:
    if not partition:
        raise InvalidInputError(ErrorKind.INVALID_KEY, "a partition needs a name")
    size = len(partition.encode())
    if size > KV_PARTITION_BYTES_MAX:
        raise InvalidInputError(
            ErrorKind.INVALID_KEY,
            f"the name of a partition has at most {KV_PARTITION_BYTES_MAX} bytes, this one has {size}",
        )
