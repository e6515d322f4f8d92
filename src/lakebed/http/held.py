"""`HeldBodies`: how many bytes of request bodies one worker holds whole in memory.

JSON and XML documents and small uploads are read whole before they are used, so each request adds its bytes here
while it has them. A request that would exceed the total is refused with 503, before its next bytes are read, and the
client may try again. Large bodies are refused earlier than small ones: three quarters of the total are theirs.
"""

from collections.abc import AsyncIterable
from typing import Final

from lakebed.errors import ErrorKind, UnavailableError
from lakebed.limits import BODIES_HELD_BYTES_MAX, SMALL_BODY_BYTES_MAX

_LARGE_SHARE: Final = 0.75


class HeldBodies:
    """The total of one worker."""

    __slots__ = ("bytes", "bytes_max", "large_bytes_max")

    def __init__(self, bytes_max: int = BODIES_HELD_BYTES_MAX) -> None:
        self.bytes = 0
        self.bytes_max = bytes_max
        self.large_bytes_max = int(bytes_max * _LARGE_SHARE)


class Hold:
    """What one request holds, from its first `take` to `release`."""

    __slots__ = ("_bodies", "bytes")

    def __init__(self, bodies: HeldBodies) -> None:
        self._bodies = bodies
        self.bytes = 0

    def take(self, size: int) -> None:
        """Hold so many bytes more.

        Raises:
            UnavailableError: `WORKER_BUSY`: the worker holds as much as it may.
        """
        bodies = self._bodies
        total = bodies.bytes + size
        held = self.bytes + size
        if total > bodies.large_bytes_max and (held > SMALL_BODY_BYTES_MAX or total > bodies.bytes_max):
            raise UnavailableError(
                ErrorKind.WORKER_BUSY,
                f"this worker holds {bodies.bytes} bytes of request bodies, which is all it may: try again later",
            )
        bodies.bytes = total
        self.bytes = held

    async def whole(self, pieces: AsyncIterable[bytes]) -> bytes:
        """Return all of a small body.

        Raises:
            UnavailableError: `WORKER_BUSY`, as for `take`.
        """
        parts: list[bytes] = []
        async for piece in pieces:
            self.take(len(piece))
            parts.append(piece)
        return b"".join(parts)

    def release(self) -> None:
        """Hold nothing any more."""
        self._bodies.bytes -= self.bytes
        self.bytes = 0
