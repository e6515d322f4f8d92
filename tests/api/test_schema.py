"""What is published at /openapi.json is what is served: schemathesis asks each operation for what it promises.

Requests are drawn from the document, right ones and spoilt ones, a few for each operation from a fixed seed, and
sent to a server of its own. What it found once is spelled out in `test_bad_input.py`.
"""

import base64
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from schemathesis import Case, GenerationMode
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from schemathesis.specs.openapi.schemas import OpenApiSchema

from lakebed.api.table import OPERATIONS
from lakebed.testing.server_process import ServerProcess, running_server

pytestmark = [pytest.mark.server, pytest.mark.xdist_group("schema")]

EXAMPLES = 3
CHECKS = [
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
    response_headers_conformance,
]
# They would take away what the others need.
LEFT_OUT = {"deleteRepository", "deleteUser"}
# Nothing that a client could spoil: no parameters, no body, no credentials.
UNSPOILABLE = {"getSetupState", "getAuthCapabilities", "oauthCallback", "healthCheck"}
# Names that exist: drawn ones hardly ever do.
KNOWN = {
    "repository": "lake",
    "branch": "main",
    "destinationBranch": "main",
    "ref": "kept",
    "sourceRef": "feature",
    "leftRef": "kept",
    "rightRef": "feature",
    "commitId": "main",
    "tag": "v1",
    "userId": "somebody",
    "groupId": "team",
    "policyId": "FSReadAll",
    "path": "a/b",
}


@pytest.fixture(scope="module")
def own_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server that nobody else uses, with something of each kind in it."""
    with running_server(tmp_path_factory.mktemp("schema")) as running:
        repo = "/repositories/lake"
        with httpx.Client(
            base_url=f"{running.endpoint}/api/v1", auth=(running.access_key, running.secret_key)
        ) as client:
            client.post("/repositories", json={"name": "lake", "storage_namespace": "local://lake"})
            client.post(f"{repo}/branches/main/objects", params={"path": "a/b"}, content=b"bytes")
            for path, body in (
                (f"{repo}/branches/main/commits", {"message": "first"}),
                (f"{repo}/branches", {"name": "feature", "source": "main"}),
                (f"{repo}/tags", {"id": "v1", "ref": "main"}),
                (f"{repo}/tags", {"id": "kept", "ref": "main"}),
                ("/auth/users", {"id": "somebody"}),
                ("/auth/groups", {"id": "team"}),
            ):
                assert client.post(path, json=body).status_code == 201
        yield running


@pytest.fixture(scope="module")
def schema(own_server: ServerProcess) -> OpenApiSchema:
    """The document as a client gets it."""
    return schemathesis.openapi.from_dict(httpx.get(f"{own_server.endpoint}/openapi.json").json())


@pytest.mark.parametrize("operation", sorted({row.id for row in OPERATIONS} - LEFT_OUT))
def test_an_operation_answers_as_it_is_published(
    own_server: ServerProcess, schema: OpenApiSchema, operation: str
) -> None:
    key = f"{own_server.access_key}:{own_server.secret_key}".encode()
    headers = {"Authorization": "Basic " + base64.b64encode(key).decode()}
    modes = [GenerationMode.POSITIVE] if operation in UNSPOILABLE else list(GenerationMode)
    for mode in modes:
        drawn = 0

        @seed(4)
        @settings(
            max_examples=EXAMPLES,
            database=None,
            deadline=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=schema.find_operation_by_id(operation).as_strategy(generation_mode=mode))
        def ask(case: Case[Any]) -> None:
            nonlocal drawn
            drawn += 1
            if drawn % EXAMPLES:
                for given in (case.path_parameters or {}, case.query or {}):
                    given.update({name: KNOWN[name] for name in given if name in KNOWN})
            answer = case.call(base_url=f"{own_server.endpoint}/api/v1", headers=headers)
            assert answer.status_code < 500 or answer.status_code in (501, 503), answer.content
            case.validate_response(answer, checks=CHECKS)

        ask()
