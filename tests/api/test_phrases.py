"""What `message` and `detail` of an error say, and how long they get."""

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from lakebed.api.malformed import bad_parameter
from lakebed.api.operation import Body, Operation
from lakebed.api.phrases import IMPORT_TASK, ROWS, Asked, message_and_detail, phrase_of, status_of
from lakebed.api.table import OPERATIONS
from lakebed.errors import ErrorKind, cut, quoted
from lakebed.limits import NAME_SHOWN_MAX
from lakebed.testing.asgi import AsgiClient

SITUATIONS = [
    msgspec.json.decode(line)
    for line in (Path(__file__).parents[1] / "golden/phrases/situations.jsonl").read_text().splitlines()
]
"""What the reference answers: status, message, operation, and which of our kinds that situation is."""

BY_ID = {operation.id: operation for operation in OPERATIONS}
PLACES = [
    (kind, place, phrase)
    for kind, row in ROWS.items()
    for place, phrase in {**row.on, **dict.fromkeys(row.statuses, "")}.items()
]

SCHEMA = "request body has an error: doesn't match schema"


def _label(situation: dict[str, Any]) -> str:
    return f"{situation['kind']}-{situation['operation']}-{situation['message'][:40]}"


@pytest.mark.parametrize("situation", SITUATIONS, ids=_label)
def test_the_phrase_of_a_situation_is_the_references(situation: dict[str, Any]) -> None:
    kind = ErrorKind(situation["kind"])
    asked = Asked(situation["operation"], situation.get("given", {}))

    assert phrase_of(kind, asked, about=situation.get("about", "")) == situation["message"]
    # A task that failed is shown with 200. The reference's 500s are slips of its own, where we answer 400.
    expected = 400 if situation["status"] == 500 else situation["status"]
    assert situation["status"] == 200 or status_of(kind, asked) == expected


def test_every_kind_has_a_row() -> None:
    assert set(ROWS) == set(ErrorKind)


@pytest.mark.parametrize(("kind", "place", "phrase"), PLACES, ids=lambda each: str(each)[:40])
def test_a_row_names_operations_and_parameters_that_exist(kind: ErrorKind, place: str, phrase: str) -> None:
    name, _, parameter = place.partition(":")
    if name == IMPORT_TASK:
        return
    known = _parameters(BY_ID[name])
    assert not parameter or parameter in known
    assert set(re.findall(r"(?<!\{)\{(\w[^:}]*)", phrase)) <= known, kind


def _parameters(operation: Operation) -> set[str]:
    structs = [operation.query, operation.headers]
    if not isinstance(operation.body, Body):
        structs.append(operation.body)
    named = {each.encode_name for struct in structs if struct for each in msgspec.structs.fields(struct)}
    return named | set(re.findall(r"\{(\w+)\}", operation.path))


def test_the_parameter_an_error_is_about_decides_and_the_first_of_two_equal_ones() -> None:
    asked = Asked("diffRefs", {"repository": "lake", "leftRef": "main", "rightRef": "gone"})
    both = Asked("diffRefs", {"repository": "lake", "leftRef": "gone", "rightRef": "gone"})

    assert phrase_of(ErrorKind.REF_NOT_FOUND, asked, about="gone") == "get commit by ref gone: not found"
    assert phrase_of(ErrorKind.REF_NOT_FOUND, both, about="gone") == "get commit by branch gone: not found"


def test_without_a_phrase_the_message_is_our_text_and_there_is_no_detail() -> None:
    assert message_and_detail(ErrorKind.DISK_FULL, "no space", Asked()) == ("no space", "")
    assert message_and_detail(ErrorKind.REPO_NOT_FOUND, "lake?", Asked()) == ("repository not found", "lake?")
    assert message_and_detail(ErrorKind.NO_CHANGES, "no changes", Asked()) == ("no changes", "")


def test_a_long_name_is_cut_in_phrases_and_in_texts() -> None:
    name = "n" * (NAME_SHOWN_MAX + 1)
    phrase = phrase_of(ErrorKind.BRANCH_NOT_FOUND, Asked("uploadObject", {"branch": name}))

    assert phrase == f"branch '{name[:-1]}…' not found"
    assert quoted(name) == f"'{name[:-1]}…'"
    assert cut(name[:-1]) == name[:-1]


@pytest.mark.parametrize(
    ("method", "path", "query", "said"),
    [
        ("GET", "/repositories/gone", {}, ("repository not found", "repository 'gone' not found")),
        (
            "GET",
            "/repositories/lake/refs/main/diff/gone",
            {},
            ("get commit by ref gone: not found", "ref 'gone' not found in lake"),
        ),
        (
            "GET",
            "/repositories/lake/refs/main/commits",
            {"stop_at": "gone"},
            ("stop_at: not found", "ref 'gone' not found in lake"),
        ),
        (
            "DELETE",
            "/repositories/lake/branches/main",
            {},
            (
                "cannot delete repository default branch",
                "'main' is the default branch of lake and cannot be deleted",
            ),
        ),
    ],
)
async def test_message_is_the_phrase_and_detail_our_text(
    admin: AsgiClient, method: str, path: str, query: dict[str, str], said: tuple[str, str]
) -> None:
    answer = await admin(method, path, query=query)

    assert (answer.json()["message"], answer.json()["detail"]) == said


@pytest.mark.parametrize(
    ("method", "path", "query", "body", "phrase"),
    [
        (
            "GET",
            "/objects/stat",
            "",
            None,
            'parameter "path" in query has an error: value is required but missing',
        ),
        (
            "GET",
            "/objects/ls",
            "amount=x",
            None,
            'parameter "amount" in query has an error: value x: an invalid integer: invalid syntax',
        ),
        (
            "GET",
            "/objects/ls",
            "amount=1001",
            None,
            'parameter "amount" in query has an error: number must be at most 1000',
        ),
        (
            "GET",
            "/objects/ls",
            "amount=-5",
            None,
            'parameter "amount" in query has an error: number must be at least -1',
        ),
        (
            "GET",
            "/objects/ls",
            "presign=maybe",
            None,
            'parameter "presign" in query has an error: value maybe: an invalid boolean: invalid syntax',
        ),
        (
            "GET",
            "/diff/main",
            "type=nosuch",
            None,
            'parameter "type" in query has an error: value is not one of the allowed values ["two_dot","three_dot"]',
        ),
        (
            "POST",
            "/merge/main",
            "",
            b'{"strategy": "nosuch"}',
            "argument strategy: invalid value: validation error",
        ),
        (
            "POST",
            "/merge/main",
            "",
            b'{"message": 1}',
            f'{SCHEMA} #/components/schemas/Merge: Error at "/message": value must be a string',
        ),
        ("POST", "/merge/main", "", b"x", "request body has an error: failed to decode request body"),
    ],
)
async def test_a_request_that_does_not_fit_its_schema_is_told_in_the_references_words(
    admin: AsgiClient, method: str, path: str, query: str, *, body: bytes | None, phrase: str
) -> None:
    headers = {"content-type": "application/json"}
    answer = await admin(
        method, f"/repositories/lake/refs/main{path}", query=query, body=body or b"", headers=headers
    )

    assert (answer.status, answer.message) == (400, phrase)
    assert answer.detail != phrase


@pytest.mark.parametrize(
    ("method", "path", "body", "phrase"),
    [
        (
            "POST",
            "/branches",
            b'{"source": "main"}',
            f'{SCHEMA} #/components/schemas/BranchCreation: Error at "/name": property "name" is missing',
        ),
        ("POST", "/branches", b"", "request body has an error: value is required but missing"),
        (
            "POST",
            "/branches",
            b"null",
            f"{SCHEMA} #/components/schemas/BranchCreation: Value is not nullable",
        ),
        (
            "PUT",
            "/settings/branch_protection",
            b'[{"pattern": "a"}, {}]',
            f'{SCHEMA}: Error at "/1/pattern": property "pattern" is missing',
        ),
        (
            "POST",
            "/branches/main/objects/delete",
            b'{"paths": [' + b",".join([b'"p"'] * 1001) + b"]}",
            "request size exceeded, max paths is set to 1000",
        ),
    ],
)
async def test_a_body_that_does_not_fit_is_told_in_the_references_words(
    admin: AsgiClient, method: str, path: str, body: bytes, phrase: str
) -> None:
    headers = {"content-type": "application/json"}
    answer = await admin(method, f"/repositories/lake{path}", body=body, headers=headers)

    assert (answer.status, answer.message) == (400, phrase)
    assert answer.detail != phrase


def test_a_parameter_that_is_given_empty_is_told_from_one_that_is_missing() -> None:
    missing = msgspec.ValidationError("Object missing required field `path`")

    assert bad_parameter(missing, "query", {"path": ""}, {}).phrase.endswith(": empty value is not allowed")
    assert bad_parameter(missing, "query", {}, {}).phrase.endswith(": value is required but missing")
