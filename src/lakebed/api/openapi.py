"""The table of operations as an OpenAPI document, so that what is published is what is served."""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec
from msgspec.structs import FieldInfo, fields

from lakebed.api.cookies import LOGIN_COOKIE
from lakebed.api.errors import ErrorBody
from lakebed.api.operation import Access, Body, Operation

_REFS: Final = "#/components/schemas/{name}"
_SECURITY: Final[list[dict[str, list[str]]]] = [{"basic_auth": []}, {"jwt_token": []}, {"cookie_auth": []}]
_SCHEMES: Final = {
    "basic_auth": {"type": "http", "scheme": "basic"},
    "jwt_token": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"},
    "cookie_auth": {"type": "apiKey", "in": "cookie", "name": LOGIN_COOKIE},
}
_REASONS: Final = {
    200: "done",
    201: "created",
    202: "begun",
    204: "done",
    206: "the part that was asked for",
    302: "elsewhere",
    304: "unchanged",
    409: "in conflict",
}
_ERRORS: Final = {
    400: "the request can never succeed as written",
    401: "nobody, or not allowed",
    404: "not there",
}


def document(operations: Iterable[Operation], *, version: str, root: str) -> bytes:
    """Return the document as JSON."""
    rows = list(operations)
    kinds: list[Any] = [ErrorBody]
    for row in rows:
        kinds += [kind for kind in row.replies.values() if _is_json(kind)]
        if not isinstance(row.body, Body):
            kinds.append(row.body)
    schemas, components = msgspec.json.schema_components(_distinct(kinds), ref_template=_REFS)
    known = dict(zip(map(repr, _distinct(kinds)), schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for row in rows:
        paths.setdefault(row.path, {})[row.method.lower()] = _operation(row, known)
    return msgspec.json.encode(
        {
            "openapi": "3.1.0",
            "info": {"title": "Lakebed", "version": version},
            "servers": [{"url": root}],
            "security": _SECURITY,
            "components": {"schemas": components, "securitySchemes": _SCHEMES},
            "paths": paths,
        }
    )


def _operation(row: Operation, known: Mapping[str, Any]) -> dict[str, Any]:
    described: dict[str, Any] = {
        "operationId": row.id,
        "tags": [row.tag],
        "summary": row.summary,
        "parameters": [
            *_path_parameters(row),
            *_parameters(row.query, "query"),
            *_parameters(row.headers, "header"),
        ],
        "responses": _responses(row, known),
    }
    if row.deprecated:
        described["deprecated"] = True
    if row.access is Access.ANYONE:
        described["security"] = []
    if row.permissions:
        described["x-permissions"] = [
            {"action": each.action, "resource": each.resource} for each in row.permissions
        ]
    if row.body is Body.RAW:
        raw = {"schema": {"type": "string", "format": "binary"}}
        form = {
            "schema": {
                "type": "object",
                "properties": {"content": {"type": "string", "format": "binary"}},
                "required": ["content"],
            }
        }
        described["requestBody"] = {"content": {"application/octet-stream": raw, "multipart/form-data": form}}
    elif not isinstance(row.body, Body):
        described["requestBody"] = {
            "required": row.body_required,
            "content": {"application/json": {"schema": known[repr(row.body)]}},
        }
    return described


def _responses(row: Operation, known: Mapping[str, Any]) -> dict[str, Any]:
    responses: dict[str, Any] = {}
    for status, kind in row.replies.items():
        response: dict[str, Any] = {"description": _REASONS[status]}
        if kind is bytes:
            response["content"] = {"*/*": {"schema": {"type": "string", "format": "binary"}}}
        elif kind is str:
            response["content"] = {"text/plain": {"schema": {"type": "string"}}}
        elif kind is not None:
            response["content"] = {"application/json": {"schema": known[repr(kind)]}}
        responses[str(status)] = response
    error = {"application/json": {"schema": known[repr(ErrorBody)]}}
    for status, reason in _ERRORS.items():
        responses[str(status)] = {"description": reason, "content": error}
    responses["default"] = {"description": "any other error", "content": error}
    return responses


def _path_parameters(row: Operation) -> list[dict[str, Any]]:
    return [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in re.findall(r"\{(\w+)\}", row.path)
    ]


def _parameters(kind: type[msgspec.Struct] | None, where: str) -> list[dict[str, Any]]:
    return [_parameter(each, where) for each in fields(kind)] if kind is not None else []


def _parameter(field: FieldInfo, where: str) -> dict[str, Any]:
    schema = msgspec.json.schema(field.type)
    if not field.required and field.default is not msgspec.NODEFAULT:
        schema["default"] = field.default
    return {"name": field.encode_name, "in": where, "required": field.required, "schema": schema}


def _is_json(kind: Any) -> bool:
    return kind is not None and kind is not bytes and kind is not str


def _distinct(kinds: Iterable[Any]) -> list[Any]:
    """Return each type once: by how it is written, because generic ones need not hash alike."""
    return list({repr(kind): kind for kind in kinds}.values())
