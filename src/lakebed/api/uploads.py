"""The body of an upload: raw bytes, or a form with a part named `content`.

Both are streamed: nothing of an object is kept in memory but the chunk that is
passing by. Raw bytes so few that the store would keep them together anyway are read
at once, which spares the machinery of a stream.
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from python_multipart.multipart import MultipartParser, parse_options_header

from lakebed.api.call import Call
from lakebed.errors import ErrorKind, InvalidInputError
from lakebed.limits import SMALL_OBJECT_BYTES_MAX
from lakebed.model.entries import CONTENT_TYPE_DEFAULT


@dataclass(frozen=True, slots=True)
class Upload:
    """An object's bytes and their type."""

    content_type: str
    data: bytes | AsyncIterator[bytes]


async def read_upload(call: Call) -> Upload:
    """Return what a client uploads.

    Raises:
        InvalidInputError: a form without a part named `content`, or a broken one.
    """
    header = call.raw_headers.get(b"content-type", b"").decode("latin-1")
    kind, options = parse_options_header(header)
    if kind != b"multipart/form-data":
        return Upload(header or CONTENT_TYPE_DEFAULT, await _raw(call))
    boundary = options.get(b"boundary")
    if not boundary:
        raise InvalidInputError(
            ErrorKind.INVALID_ARGUMENT, "header: a multipart Content-Type needs a boundary"
        )
    form = _form(boundary)
    chunks = form.content(call.chunks())
    first = await anext(chunks, b"")
    if not form.found:
        raise InvalidInputError(ErrorKind.INVALID_ARGUMENT, "body: the form has no part named `content`")
    return Upload(form.content_type, _from(first, chunks))


async def _raw(call: Call) -> bytes | AsyncIterator[bytes]:
    length = call.raw_headers.get(b"content-length", b"")
    # Whoever waits to hear whether the body is wanted is told so after more than its form was looked at.
    if length.isdigit() and int(length) <= SMALL_OBJECT_BYTES_MAX and b"expect" not in call.raw_headers:
        return await call.hold.whole(call.chunks())
    return call.chunks()


def _form(boundary: bytes) -> "_Form":
    try:
        return _Form(boundary)
    except ValueError as error:
        raise InvalidInputError(
            ErrorKind.INVALID_ARGUMENT, f"header: a multipart Content-Type with a bad boundary: {error}"
        ) from error


async def _from(first: bytes, rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield first
    async for chunk in rest:
        yield chunk


@dataclass(slots=True)
class _Part:
    headers: dict[bytes, bytes] = field(default_factory=dict)
    name: bytes = b""
    value: bytes = b""


class _Form:
    """Picks the first part named `content` out of a form as it arrives."""

    def __init__(self, boundary: bytes) -> None:
        self.found = False
        self.content_type = CONTENT_TYPE_DEFAULT
        self._part = _Part()
        self._inside = False
        self._ready: list[bytes] = []
        self._parser = MultipartParser(
            boundary,
            {
                "on_part_begin": self._begin,
                "on_header_field": self._header_field,
                "on_header_value": self._header_value,
                "on_header_end": self._header_end,
                "on_headers_finished": self._headers_finished,
                "on_part_data": self._data,
                "on_part_end": self._end,
            },
        )

    async def content(self, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        async for chunk in chunks:
            try:
                self._parser.write(chunk)
            except ValueError as error:
                raise InvalidInputError(ErrorKind.INVALID_ARGUMENT, f"body: broken form: {error}") from error
            ready, self._ready = self._ready, []
            if ready or (self.found and self._inside):
                yield b"".join(ready)
        if self._inside:
            raise InvalidInputError(ErrorKind.INVALID_ARGUMENT, "body: the form ends before its part does")

    def _begin(self) -> None:
        self._part = _Part()

    def _header_field(self, data: bytes, start: int, end: int) -> None:
        self._part.name += data[start:end]

    def _header_value(self, data: bytes, start: int, end: int) -> None:
        self._part.value += data[start:end]

    def _header_end(self) -> None:
        self._part.headers[self._part.name.lower()] = self._part.value
        self._part.name = self._part.value = b""

    def _headers_finished(self) -> None:
        _, options = parse_options_header(self._part.headers.get(b"content-disposition", b""))
        if self.found or options.get(b"name") != b"content":
            return
        self.found = self._inside = True
        given = self._part.headers.get(b"content-type")
        if given:
            self.content_type = given.decode("latin-1")

    def _data(self, data: bytes, start: int, end: int) -> None:
        if self._inside:
            self._ready.append(data[start:end])

    def _end(self) -> None:
        self._inside = False
