"""What is published is what is served, and what the official clients expect."""

import re
from pathlib import Path

import lakefs_sdk.api
import msgspec
import pytest

from lakebed.api.openapi import document
from lakebed.api.phrases import ROWS
from lakebed.api.table import OPERATIONS
from lakebed.errors import ErrorKind

DOCUMENT = msgspec.json.decode(document(OPERATIONS, version="0", root="/api/v1"))


def sdk_operations() -> dict[str, tuple[str, str]]:
    """Every operation of the official client: name without case and underscores, to method and path."""
    found: dict[str, tuple[str, str]] = {}
    for module in sorted(Path(lakefs_sdk.api.__file__).parent.glob("*_api.py")):
        for part in module.read_text().split("def ")[1:]:
            name = re.match(r"(\w+)_with_http_info\(", part)
            called = re.search(r"call_api\(\s*'([^']+)', '(\w+)'", part)
            if name and called:
                found[name.group(1).replace("_", "")] = (called.group(2), called.group(1))
    return found


def test_every_operation_of_the_official_client_is_served_at_its_place() -> None:
    ours = {each.id.lower(): (each.method, each.path) for each in OPERATIONS}
    theirs = sdk_operations()
    assert len(theirs) > 120
    for name, place in theirs.items():
        assert ours.get(name) == place, name


def test_operation_ids_are_distinct() -> None:
    assert len({each.id for each in OPERATIONS}) == len(OPERATIONS)


def test_the_document_names_every_operation_with_its_parameters() -> None:
    described = {
        (method.upper(), path): operation
        for path, methods in DOCUMENT["paths"].items()
        for method, operation in methods.items()
    }
    assert set(described) == {(each.method, each.path) for each in OPERATIONS}
    stat = described["GET", "/repositories/{repository}/refs/{ref}/objects/stat"]
    assert [(each["name"], each["in"], each["required"]) for each in stat["parameters"]] == [
        ("repository", "path", True),
        ("ref", "path", True),
        ("path", "query", True),
        ("presign", "query", False),
        ("user_metadata", "query", False),
    ]


def test_every_reference_in_the_document_leads_somewhere() -> None:
    text = msgspec.json.encode(DOCUMENT).decode()
    names = set(re.findall(r"#/components/schemas/([^\"]+)\"", text))
    assert names
    assert names <= set(DOCUMENT["components"]["schemas"])


@pytest.mark.parametrize("kind", ErrorKind)
def test_every_kind_of_error_has_a_status(kind: ErrorKind) -> None:
    assert 400 <= ROWS[kind].status < 600
