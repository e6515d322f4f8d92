"""Refuse what no driver may be asked, and say the usual failures: the same words in every driver."""

from collections.abc import Sequence
from itertools import pairwise

from lakebed.errors import (
    AlreadyExistsError,
    ErrorKind,
    InvalidInputError,
    NotFoundError,
    PreconditionError,
    quoted,
)
from lakebed.limits import PARTS_MAX, PATH_BYTES_MAX
from lakebed.objects.port import ByteRange, Part


def check_key(key: str) -> bytes:
    """Return `key` as bytes, or raise `InvalidInputError` if no store can hold it."""
    try:
        encoded = key.encode()
    except UnicodeEncodeError as error:
        raise InvalidInputError(
            ErrorKind.INVALID_KEY, f"key {key!r} is not Unicode text: it has a lone surrogate"
        ) from error
    if not 1 <= len(encoded) <= PATH_BYTES_MAX:
        raise InvalidInputError(
            ErrorKind.INVALID_KEY,
            f"a key has 1 to {PATH_BYTES_MAX} bytes of UTF-8, this one has {len(encoded)}",
        )
    return encoded


def check_range(byte_range: ByteRange | None) -> None:
    """Raise `InvalidInputError` unless `byte_range` names at least one byte."""
    if byte_range is None:
        return
    start, end = byte_range.start, byte_range.end
    if start < 0 or (end is not None and end <= start):
        raise InvalidInputError(ErrorKind.INVALID_ARGUMENT, f"bytes {start} to {end} are no range")


def cut_range(byte_range: ByteRange | None, size_bytes: int) -> tuple[int, int]:
    """Return start and end of the wanted bytes in an object of `size_bytes`, cut to what is there."""
    if byte_range is None:
        return 0, size_bytes
    if byte_range.start >= size_bytes:
        raise InvalidInputError(
            ErrorKind.RANGE_NOT_SATISFIABLE,
            f"the range starts at byte {byte_range.start}, the object has {size_bytes}",
        )
    end = size_bytes if byte_range.end is None else min(byte_range.end, size_bytes)
    return byte_range.start, end


def check_part_number(number: int) -> None:
    """Raise `InvalidInputError` unless `number` can name a part."""
    if not 1 <= number <= PARTS_MAX:
        raise InvalidInputError(
            ErrorKind.INVALID_ARGUMENT, f"a part number is 1 to {PARTS_MAX}, this one is {number}"
        )


def check_parts(parts: Sequence[Part]) -> None:
    """Raise `InvalidInputError` unless `parts` can make an object: some, with rising numbers."""
    numbers = [part.number for part in parts]
    if not numbers:
        raise InvalidInputError(ErrorKind.NO_PARTS, "an upload is completed with at least one part")
    if any(a >= b for a, b in pairwise(numbers)):
        raise InvalidInputError(
            ErrorKind.INVALID_ARGUMENT, "parts are completed in the order of their numbers"
        )


def key_exists(key: str) -> AlreadyExistsError:
    """The error of a create-only put that lost."""
    return AlreadyExistsError(ErrorKind.KEY_EXISTS, f"object {key!r} exists")


def key_missing(key: str) -> NotFoundError:
    """The error of reading what is not there."""
    return NotFoundError(ErrorKind.KEY_NOT_FOUND, f"there is no object {key!r}")


def condition_failed(key: str) -> PreconditionError:
    """The error of a put whose ETag does not match."""
    return PreconditionError(ErrorKind.CONDITION_FAILED, f"object {key!r} has changed or is gone")


def upload_missing(upload: str) -> NotFoundError:
    """The error of a part without its upload."""
    return NotFoundError(
        ErrorKind.UPLOAD_NOT_FOUND,
        f"there is no upload {quoted(upload)}: it was completed, aborted or never begun",
    )


def part_missing(number: int) -> InvalidInputError:
    """The error of completing an upload with a part that is not there, or has been replaced."""
    return InvalidInputError(
        ErrorKind.INVALID_ARGUMENT, f"part {number} is not there as given: upload it again, then complete"
    )


def wrong_size(number: int, size_bytes: int) -> InvalidInputError:
    """The error of a streamed part that has not the size that was announced."""
    return InvalidInputError(
        ErrorKind.INVALID_ARGUMENT, f"part {number} has more or less than the {size_bytes} bytes announced"
    )


def cannot_sign(scheme: str) -> InvalidInputError:
    """The error of a store without URLs."""
    return InvalidInputError(
        ErrorKind.UNSUPPORTED, f"a {scheme} store has no presigned URLs: read and write through the server"
    )
