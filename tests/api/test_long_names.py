"""No error repeats a long text of its request: every parameter of every operation is sent with one."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from msgspec.structs import fields

from lakebed.api.table import OPERATIONS
from lakebed.testing.rest import Rest
from tests.api.samples import Sample, sample

LONG = "é" + "n" * 6000
ANSWER_BYTES_MAX = 2048
"""A phrase and a detail with a name or two, each cut to 256 characters."""


def _long_ones(sent: Sample) -> Iterator[tuple[str, Sample]]:
    for name in sent.path:
        yield f"path {name}", replace(sent, path=sent.path | {name: LONG})
    for each in fields(sent.operation.query) if sent.operation.query else ():
        yield f"query {each.encode_name}", replace(sent, query=sent.query | {each.encode_name: LONG})
    for place, body in _long_values(sent.body):
        yield f"body {place}", replace(sent, body=body)


def _long_values(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield a JSON value once for each of its texts, with that one long."""
    match value:
        case str():
            yield "", LONG
        case dict():
            for name, below in value.items():
                for place, changed in _long_values(below):
                    yield f"{name}{place}", value | {name: changed}
        case list():
            for place, changed in _long_values(value[0]) if value else ():
                yield f"[]{place}", [changed]


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda each: each.id)
async def test_an_error_stays_short(rest: Rest, operation: Any) -> None:
    for place, sent in _long_ones(sample(operation)):
        answer = await sent.send(rest.admin)
        # A success may store what it was given, and show it.
        assert answer.status < 400 or len(answer.body) <= ANSWER_BYTES_MAX, (place, answer.body[:300])
        assert answer.status != 500, (place, answer.body)
