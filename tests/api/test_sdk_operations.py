"""Every operation of the generated client, called once: it understands what comes back."""

import inspect
import re
from collections.abc import Iterator
from typing import Any

import lakefs_sdk
import lakefs_sdk.api
import pytest
from lakefs_sdk.exceptions import ApiException

from lakebed.api.operation import Body
from lakebed.api.table import OPERATIONS
from lakebed.testing.server_process import ServerProcess
from tests.api.clients import low_level
from tests.api.samples import VALUES, Sample, sample

pytestmark = [
    pytest.mark.server,
    pytest.mark.xdist_group("server"),
    # The client warns of what the peer calls deprecated; we serve it all the same.
    pytest.mark.filterwarnings("ignore:.*is deprecated:DeprecationWarning"),
]

BY_NAME = {each.id.lower(): each for each in OPERATIONS}

REFUSED = {
    "createpullrequest",
    "updatepullrequest",
    "mergepullrequest",
    "createuserexternalprincipal",
    "deleteuserexternalprincipal",
    "getexternalprincipal",
    "listuserexternalprincipals",
    "externalprincipallogin",
    "stslogin",
    "createpresignmultipartupload",
    "completepresignmultipartupload",
    "abortpresignmultipartupload",
    "uploadpart",
    "uploadpartcopy",
}
"""What this version does not do, or not on a folder of this machine, and says so with 501."""


def _methods() -> list[tuple[type, str]]:
    found = {}
    for _, kind in inspect.getmembers(lakefs_sdk.api, inspect.isclass):
        for name, _ in inspect.getmembers(kind, inspect.isfunction):
            # The fixture ends with that one.
            if name.endswith("_with_http_info") and not name.startswith("delete_repository_with"):
                found[name.removesuffix("_with_http_info")] = kind
    return sorted(((kind, name) for name, kind in found.items()), key=lambda each: each[1])


@pytest.fixture(scope="module")
def client(server: ServerProcess) -> Iterator[lakefs_sdk.ApiClient]:
    """A client of a server with a repository `lake` that has something of everything."""
    with low_level(server) as opened:
        repositories = lakefs_sdk.RepositoriesApi(opened)
        repositories.create_repository(
            lakefs_sdk.RepositoryCreation(name="lake", storage_namespace="local://lake")
        )
        content = server.folder / "content"
        content.write_bytes(b"content")
        lakefs_sdk.ObjectsApi(opened).upload_object("lake", "main", "a/b", content=str(content))
        lakefs_sdk.CommitsApi(opened).commit("lake", "main", lakefs_sdk.CommitCreation(message="first"))
        lakefs_sdk.BranchesApi(opened).create_branch(
            "lake", lakefs_sdk.BranchCreation(name="feature", source="main")
        )
        lakefs_sdk.TagsApi(opened).create_tag("lake", lakefs_sdk.TagCreation(id="v1", ref="main"))
        auth = lakefs_sdk.AuthApi(opened)
        auth.create_user(lakefs_sdk.UserCreation(id="somebody"))
        auth.create_group(lakefs_sdk.GroupCreation(id="somegroup"))
        yield opened
        repositories.delete_repository("lake")


def _call(method: Any, sent: Sample) -> int:
    """Return the status; 200 for all that the client took as success."""
    try:
        method(**_arguments(method, sent))
    except ApiException as error:
        return int(error.status)
    return 200


def _arguments(method: Any, sent: Sample) -> dict[str, Any]:
    given = {_snake(name): value for name, value in {**sent.path, **sent.query}.items()}
    arguments: dict[str, Any] = {}
    for name, parameter in inspect.signature(method).parameters.items():
        if name in ("self", "kwargs"):
            continue
        if name in given:
            arguments[name] = int(given[name]) if name == "part_number" else given[name]
        elif parameter.default is inspect.Parameter.empty or name == _snake(_body_name(parameter)):
            arguments[name] = _body(sent, parameter)
    return arguments


def _body_name(parameter: inspect.Parameter) -> str:
    found = re.search(r"lakefs_sdk\.models\.\w+\.(\w+)", str(parameter.annotation))
    return found.group(1) if found else ""


def _body(sent: Sample, parameter: inspect.Parameter) -> Any:
    kind = _body_name(parameter)
    if isinstance(sent.body, list):
        return sent.body
    if not kind or sent.operation.body is Body.RAW:
        return VALUES.get(parameter.name, "text")
    model = getattr(lakefs_sdk, kind)
    extra = {
        "physical_address": "x",
        "parts": [],
        "copy_source": {"repository": "lake", "ref": "main", "path": "a/b"},
    }
    if "setup" in sent.operation.id.lower():
        extra = {"featureUpdates": False, "securityUpdates": False}
    if sent.operation.id == "CreateCommitRecord":
        extra = {"version": 1}
    if sent.operation.id == "updatePolicy":
        extra = {"id": "somepolicy"}
    return model(**{**extra, **sent.body})


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z])([A-Z])", r"_\1", name).lower()


@pytest.mark.parametrize(("api", "name"), _methods(), ids=[name for _, name in _methods()])
def test_the_client_gets_what_it_expects(client: lakefs_sdk.ApiClient, api: type, name: str) -> None:
    operation = BY_NAME[name.replace("_", "")]
    status = _call(getattr(api(client), name), sample(operation))
    if operation.id.lower() in REFUSED:
        assert status == 501
    elif operation.id == "login":
        assert status == 401, "the sample is nobody's key"
    else:
        assert status < 500
        assert status not in (401, 405)
