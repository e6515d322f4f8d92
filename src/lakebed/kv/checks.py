"""Refuse what no driver may send: the same words for the same mistake in every driver."""

from collections.abc import Sequence

from lakebed.errors import ErrorKind, InvalidInputError
from lakebed.kv.port import Capabilities, Row


def check_partition(partition: str) -> None:
    """Raise `InvalidInputError` unless `partition` can name one."""
    if not partition:
        raise InvalidInputError(ErrorKind.INVALID_KEY, "a partition needs a name")


def check_key(key: bytes, capabilities: Capabilities) -> None:
    """Raise `InvalidInputError` unless the driver can hold `key`."""
    if not key or len(key) > capabilities.key_bytes_max:
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


def check_rows(rows: Sequence[Row], capabilities: Capabilities) -> None:
    """Raise `InvalidInputError` unless the driver can hold every row."""
    for row in rows:
        check_key(row.key, capabilities)
        check_value(row.value, capabilities)
