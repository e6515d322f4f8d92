"""A worker whose database does not answer yet."""

from pathlib import Path

import pytest

from lakebed.errors import CorruptError, ErrorKind, UnavailableError
from lakebed.server import worker
from lakebed.server.asgi import WorkerApp
from lakebed.server.config import Config
from lakebed.testing.asgi import AsgiClient


async def test_until_the_database_answers_a_worker_is_alive_and_not_ready(tmp_path: Path) -> None:
    app = WorkerApp(Config(data=tmp_path / "data"))
    for edge in (app, app.s3):
        ask = AsgiClient(edge, root="")
        assert (await ask("GET", "/_health")).body == b"alive!"
        for path in ("/_ready", "/api/v1/user", "/lake/main/object"):
            answer = await ask("GET", path)
            assert (answer.status, answer.message) == (503, "not ready: the database does not answer yet")


async def test_a_start_that_may_succeed_later_is_tried_again_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = WorkerApp(Config(data=tmp_path / "data"))

    async def down() -> None:
        raise UnavailableError(ErrorKind.STORE_UNAVAILABLE, "nobody is there")

    async def broken() -> None:
        raise CorruptError(ErrorKind.UNREADABLE, "it is broken")

    monkeypatch.setattr(app, "start", down)
    assert not await worker._started(app)
    monkeypatch.setattr(app, "start", broken)
    with pytest.raises(CorruptError):
        await worker._started(app)
    monkeypatch.undo()
    assert await worker._started(app)
    assert (await AsgiClient(app, root="")("GET", "/_ready")).body == b"ready to be set up"
    await app.stop()
