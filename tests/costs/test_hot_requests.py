"""What a frequent request costs where it can be counted: calls to the stores, and steps of Python.

Rates are for the benchmarks. What makes them worse is mostly one more call for each request, and that shows here.
"""

import sys
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from types import FrameType
from typing import Any

import pytest

from lakebed.objects.open_stores import LeasedObjects
from lakebed.testing.asgi import Answer
from lakebed.testing.rest import Rest, open_rest

MAIN = "/repositories/lake/refs/main/objects"
BRANCH = "/repositories/lake/branches/main/objects"

Ask = Callable[[Rest, int], Awaitable[Answer]]


async def stat(rest: Rest, number: int) -> Answer:
    return await rest.admin("GET", f"{MAIN}/stat", query={"path": "a"})


async def get(rest: Rest, number: int) -> Answer:
    return await rest.admin("GET", MAIN, query={"path": "a"})


async def upload(rest: Rest, number: int) -> Answer:
    headers = {"content-type": "application/octet-stream", "content-length": "1"}
    return await rest.admin("POST", BRANCH, query={"path": f"u/{number}"}, body=b"x", headers=headers)


async def branch(rest: Rest, number: int) -> Answer:
    return await rest.admin(
        "POST", "/repositories/lake/branches", json={"name": f"b{number}", "source": "main"}
    )


@pytest.fixture
async def rest() -> AsyncIterator[Rest]:
    async with open_rest() as opened:
        await opened.lake.commit("main", a="content")
        yield opened


# One `get` of each is for the generation of users and policies.
STORES: dict[Ask, dict[str, int]] = {
    stat: {"get": 1, "get_many": 1},
    get: {"get": 1, "get_many": 1, "object get": 1},
    upload: {"get": 3, "get_many": 1, "set_rows": 1, "object put": 1},
    branch: {"get": 6, "swap": 1},
}
# What was counted when this was written, and one in twenty more.
STEPS: dict[Ask, int] = {stat: 98, get: 118, upload: 343, branch: 242}


@pytest.mark.parametrize("ask", STORES, ids=lambda ask: ask.__name__)
async def test_a_request_calls_the_stores_no_more_than_it_needs(
    rest: Rest, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        assert (await ask(rest, number)).status < 300
    calls: Counter[str] = Counter()

    def count(kind: type, name: str, label: str) -> None:
        inner = getattr(kind, name)

        def counted(self: Any, *args: Any, **kwargs: Any) -> Any:
            calls[label] += 1
            return inner(self, *args, **kwargs)

        monkeypatch.setattr(kind, name, counted)

    for name in ("get", "get_many", "swap", "set_rows", "remove", "delete_rows", "scan"):
        count(type(rest.lake.kv), name, name)
    for name in ("put", "put_stream", "get", "stream", "head", "delete", "list", "copy"):
        count(LeasedObjects, name, f"object {name}")

    await ask(rest, 3)

    assert calls == STORES[ask]


@pytest.mark.parametrize("ask", STEPS, ids=lambda ask: ask.__name__)
async def test_a_request_takes_a_bounded_number_of_steps(rest: Rest, ask: Ask) -> None:
    for number in range(3):
        await ask(rest, number)
    steps = 0

    def step(frame: FrameType, event: str, arg: object) -> None:
        nonlocal steps
        steps += event == "call"

    sys.setprofile(step)
    try:
        await ask(rest, 3)
    finally:
        sys.setprofile(None)

    assert steps <= STEPS[ask], f"{steps} calls of functions in Python"
