"""Readiness follows the database."""

from types import SimpleNamespace
from typing import Any

import pytest

from lakebed.errors import ErrorKind, UnavailableError
from lakebed.server.plain_routes import PlainRequest, ready


class Database:
    def __init__(self, answer: bool | UnavailableError) -> None:
        self.answer = answer

    async def is_set_up(self) -> bool:
        if isinstance(self.answer, UnavailableError):
            raise self.answer
        return self.answer


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (True, (200, b"ready")),
        (False, (200, b"ready to be set up")),
        (UnavailableError(ErrorKind.STORE_UNAVAILABLE, "gone"), (503, b"not ready: gone")),
    ],
)
async def test_a_worker_is_ready_when_its_database_answers(answer: Any, expected: tuple[int, bytes]) -> None:
    services: Any = SimpleNamespace(auth=SimpleNamespace(setup=Database(answer)))
    reply = await ready(services, PlainRequest({}))
    assert (reply.status, reply.body) == expected
