"""A segment whose check ends the helper process is refused, by that request alone."""

from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any

import pytest

from lakebed.auth.caller import SYSTEM
from lakebed.catalog.session import Sessions
from lakebed.errors import ErrorKind, InvalidInputError, UnavailableError
from lakebed.testing.lake import open_lake
from tests.api.test_segments import deletions


class Dying:
    """Helpers of which the first dies at its work, twice, as one does that takes too much memory or time."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    async def run(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        self.calls.append(function.__name__)
        if len(self.calls) == 1:
            raise UnavailableError(ErrorKind.HELPER_DIED, "a helper process died twice")
        return function(*args, **kwargs)


async def _chunks(data: bytes) -> AsyncIterator[bytes]:
    yield data


async def test_a_check_that_ends_its_process_refuses_the_segment_and_no_other() -> None:
    async with open_lake() as lake:
        await lake.commit("main", a="1", b="2")
        helpers = Dying()
        engine = replace(lake.engine, parts=replace(lake.engine.parts, processes=helpers))
        segments = Sessions(engine).of(SYSTEM).segments
        with pytest.raises(InvalidInputError, match="hand in less at a time") as refused:
            await segments.stage("lake", "main", _chunks(deletions("a")))
        assert refused.value.kind is ErrorKind.TOO_LARGE
        assert await lake.show("main") == {"a": "1", "b": "2"}
        await segments.stage("lake", "main", _chunks(deletions("a")))
        assert await lake.show("main") == {"b": "2"}
        # However small the file.
        assert helpers.calls == ["check_file", "check_file"]
