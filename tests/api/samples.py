"""A request for every operation, made from the table: what is required, with names that exist or are free."""

import re
from dataclasses import dataclass
from typing import Any, Literal, get_args, get_origin
from urllib.parse import quote

import msgspec
from msgspec import inspect
from msgspec.structs import fields

from lakebed.api.operation import Body, Operation
from lakebed.testing.asgi import Answer, AsgiClient

PATHS = {
    "repository": "lake",
    "branch": "main",
    "destinationBranch": "main",
    "ref": "main",
    "sourceRef": "feature",
    "leftRef": "main",
    "rightRef": "feature",
    "commitId": "main",
    "tag": "v1",
    "userId": "somebody",
    "groupId": "somegroup",
    "policyId": "somepolicy",
    "accessKeyId": "AKIANOBODY",
    "type": "range",
    "partNumber": "1",
}

VALUES = {
    "path": "a/b",
    "dest_path": "copied",
    "src_path": "a/b",
    "ref": "main",
    "source": "main",
    "message": "a message",
    "physical_address": "mem://elsewhere/x",
    "checksum": "abc",
    "effect": "allow",
    "resource": "*",
    "storage_namespace": "mem://fresh",
    "username": "first",
    "commit_id": "0" * 64,
    "destination": "into/",
    "repository": "lake",
}

BODIES: dict[str, dict[str, Any]] = {
    "createRepository": {"name": "fresh-repo"},
    "adoptStorage": {"name": "adopted"},
    "createBranch": {"name": "fresh"},
    "createTag": {"id": "fresh"},
    "createUser": {"id": "fresh"},
    "createGroup": {"id": "fresh"},
    "createPolicy": {"id": "fresh", "statement": [{"effect": "allow", "action": ["fs:*"], "resource": "*"}]},
    "updatePolicy": {"statement": [{"effect": "allow", "action": ["fs:*"], "resource": "*"}]},
    "resetBranch": {"type": "object", "path": "a/b"},
}


@dataclass(frozen=True, slots=True)
class Sample:
    """One request."""

    operation: Operation
    path: dict[str, str]
    query: dict[str, Any]
    body: Any

    @property
    def url(self) -> str:
        url = self.operation.path
        for name, value in self.path.items():
            url = url.replace(f"{{{name}}}", quote(value, safe=""))
        return url

    async def send(self, client: AsgiClient) -> Answer:
        if self.operation.body is Body.RAW:
            return await client(self.operation.method, self.url, query=self.query, body=b"bytes")
        if isinstance(self.operation.body, Body):
            return await client(self.operation.method, self.url, query=self.query)
        return await client(self.operation.method, self.url, query=self.query, json=self.body)

    def resource(self, template: str) -> str:
        """Fill an ARN of the table with what this request names."""

        def value(found: "re.Match[str]") -> str:
            name = found.group(1)
            if not name.startswith("body."):
                return self.path.get(name) or self.query.get(name, "")
            value = self.body
            for part in name.split(".")[1:]:
                value = value[0] if isinstance(value, list) else value
                value = value[part]
            return value[0] if isinstance(value, list) else value

        return re.sub(r"\{([\w.]+)\}", value, template)


def sample(operation: Operation) -> Sample:
    names = re.findall(r"\{(\w+)\}", operation.path)
    query = _struct(operation.query) if operation.query else {}
    body = None
    if not isinstance(operation.body, Body):
        body = _value(operation.body, "")
        if isinstance(body, dict):
            body |= BODIES.get(operation.id, {})
    return Sample(operation, {name: PATHS.get(name, "none") for name in names}, query, body)


def _struct(kind: Any) -> dict[str, Any]:
    return {each.encode_name: _value(each.type, each.encode_name) for each in fields(kind) if each.required}


def _value(kind: Any, name: str) -> Any:
    if hasattr(kind, "__metadata__"):
        kind = kind.__origin__
    origin = get_origin(kind)
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return _struct(kind)
    if origin is Literal:
        return get_args(kind)[0]
    if origin is dict:
        return {}
    if origin is not None and get_args(kind):
        return [_value(get_args(kind)[0], name)]
    match inspect.type_info(kind):
        case inspect.IntType():
            return 1
        case inspect.BoolType():
            return False
    return VALUES.get(name, "text")
