"""Which bytes of an object a read asks for: the `Range` header, or a part by its number."""

from typing import Final

from lakebed.http.numbers import whole_number
from lakebed.http.ranges import requested_range
from lakebed.limits import PARTS_MAX
from lakebed.objects.port import ByteRange
from lakebed.s3.errors import Code, S3Error

# Of a text that is no number, in the answer.
_SHOWN_CHARACTERS: Final = 100


def parse_range(header: str, size_bytes: int) -> ByteRange | None:
    """Return the bytes that a header asks for; None for one that is no range of bytes, which is ignored.

    Raises:
        S3Error: `InvalidRange`: they lie past the end of the object.
    """
    asked = requested_range(header)
    if asked is None or asked.is_backwards:
        return None
    start, end = asked.within(size_bytes)
    if start >= end:
        raise unsatisfiable(header, size_bytes)
    return ByteRange(start, end)


def parse_part_number(text: str) -> int:
    """Return the number of a part.

    Raises:
        S3Error: `InvalidArgument`: it is none from 1 to 10,000.
    """
    number = whole_number(text, most=PARTS_MAX)
    if not number:
        raise S3Error(
            Code.INVALID_ARGUMENT,
            f"Part number must be an integer between 1 and {PARTS_MAX}, inclusive",
            ArgumentName="partNumber",
            ArgumentValue=text[:_SHOWN_CHARACTERS],
        )
    return number


def part_range(number: str, sizes: list[int], size_bytes: int) -> ByteRange:
    """Return the bytes of one part; an object that was not sent in parts is one part.

    Raises:
        S3Error: `InvalidPartNumber`: there is no such part.
    """
    wanted, sizes = parse_part_number(number), sizes or [size_bytes]
    if wanted > len(sizes):
        raise S3Error(
            Code.INVALID_PART_NUMBER,
            "The requested partnumber is not satisfiable",
            PartNumberRequested=number,
            ActualPartCount=str(len(sizes)),
        )
    start = sum(sizes[: wanted - 1])
    return ByteRange(start, start + sizes[wanted - 1])


def unsatisfiable(header: str, size_bytes: int) -> S3Error:
    """The error for a range that an object does not have."""
    return S3Error(
        Code.INVALID_RANGE,
        "The requested range is not satisfiable",
        RangeRequested=header,
        ActualObjectSize=str(size_bytes),
    )
