"""Every operation that takes metadata refuses more than an object or a commit may carry."""

from typing import Any, get_args, get_origin

import msgspec
import pytest
from msgspec.structs import fields

from lakebed.api.operation import Body, Operation
from lakebed.api.table import OPERATIONS
from lakebed.limits import METADATA_BYTES_MAX
from lakebed.testing.asgi import AsgiClient
from tests.api.samples import sample

NAMES = {"metadata", "user_metadata", "set"}
TOO_MUCH = {"k": "v" * METADATA_BYTES_MAX}

# Where a request would end before its metadata is looked at, with the sample's other fields.
NEEDS: dict[str, dict[str, Any]] = {
    "CreateCommitRecord": {"generation": 1, "parents": []},
}


def places(kind: Any, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """Where a body has metadata: the names that lead to it."""
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        found = []
        for each in fields(kind):
            here = (*path, each.encode_name)
            is_dict = any(get_origin(part) is dict for part in (each.type, *get_args(each.type)))
            if each.encode_name in NAMES and is_dict:
                found.append(here)
            else:
                found += places(each.type, here)
        return found
    return [place for part in get_args(kind) for place in places(part, path)]


TAKERS = [
    (operation, place)
    for operation in OPERATIONS
    if not isinstance(operation.body, Body)
    for place in places(operation.body)
]


def with_metadata(body: dict[str, Any], place: tuple[str, ...]) -> dict[str, Any]:
    target: Any = body
    for name in place[:-1]:
        target = target.setdefault(name, {})
        target = target[0] if isinstance(target, list) else target
    target[place[-1]] = TOO_MUCH
    return body


@pytest.mark.parametrize(
    ("operation", "place"), TAKERS, ids=[f"{each.id}-{'.'.join(place)}" for each, place in TAKERS]
)
async def test_too_much_metadata_is_refused(
    admin: AsgiClient, operation: Operation, place: tuple[str, ...]
) -> None:
    request = sample(operation)
    with_metadata(request.body, place)
    request.body.update(NEEDS.get(operation.id, {}))
    answer = await request.send(admin)
    assert answer.status in {400, 413}, answer.message
    assert "metadata" in answer.detail
    assert str(METADATA_BYTES_MAX) in answer.detail


def test_the_operations_that_take_metadata_are_found() -> None:
    assert {operation.id for operation, _ in TAKERS} >= {
        "commit",
        "mergeIntoBranch",
        "stageObject",
        "stageObjects",
        "linkPhysicalAddress",
        "completePresignMultipartUpload",
        "setRepositoryMetadata",
        "updateObjectUserMetadata",
        "importStart",
        "CreateCommitRecord",
    }
