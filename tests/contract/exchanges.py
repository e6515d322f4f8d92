"""Recorded exchanges: a request of a public client, and what lakeFS 1.84 answered.

`recordings/README.md` explains the format.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

RECORDINGS: Final = Path(__file__).parent / "recordings"


class Request(msgspec.Struct, frozen=True):
    method: str
    auth: str
    headers: dict[str, str]
    body: dict[str, Any] | None
    path: str = ""
    query: str | None = None
    url: str = ""
    """In place of path and query, for a request to a presigned URL."""

    @property
    def target(self) -> str:
        """The path with its query, or the URL."""
        return self.url or self.path + ("" if self.query is None else f"?{self.query}")


class Response(msgspec.Struct, frozen=True):
    status: int
    headers: dict[str, str]
    body: dict[str, Any] | None
    body_not_kept: bool = False


class Exchange(msgspec.Struct, frozen=True):
    scenario: str
    step: int
    command: str
    request: Request
    response: Response
    poll: int = 0
    """Other than 0: repeat the request until the task has ended, then compare."""
    cleanup: bool = False
    """It removes what the scenario created: sent, not compared."""
    unstable: bool = False
    """The reference does not always answer so: sent, not compared."""

    @property
    def is_compared(self) -> bool:
        return not self.cleanup and not self.unstable


def read_recording(path: Path) -> Iterator[Exchange]:
    decoder = msgspec.json.Decoder(Exchange)
    for line in path.read_bytes().splitlines():
        yield decoder.decode(line)
