"""The HTTP reference, from the service's OpenAPI document."""

from __future__ import annotations

import json
from collections.abc import Mapping
from inspect import getclosurevars, isfunction
from typing import Any

from scripts.docs.markdown import table

HEAD = """# HTTP API

Every route of the service, generated from its OpenAPI document, which a running service shows at `/docs` and
serves at `/openapi.json`. Bodies are JSON. If a scope is named, the call needs `Authorization: Bearer KEY` with a
key that has this scope (`admin` has them all). Errors are problem details, all listed under
[refusals](../service.md#refusals).
"""
TAGS = {
    "visitors": "For visitors",
    "shop": "For the shop",
    "read": "To read",
    "devices": "For visitors' devices",
    "admin": "For admins",
    "about": "About the process",
}
Schema = Mapping[str, Any]


def routes_page() -> str:
    """Every route by purpose, then the bodies."""
    document, scopes = openapi(), _scopes()
    routes = [
        (path, method.upper(), route)
        for path, methods in document["paths"].items()
        for method, route in methods.items()
    ]
    parts = [HEAD]
    for tag, heading in TAGS.items():
        parts.append(f"## {heading}")
        parts += [
            _route(path, method, route, scopes.get((method, path)))
            for path, method, route in routes
            if tag in route["tags"]
        ]
    parts.append("## Bodies")
    parts += [_body(name, schema) for name, schema in document["components"]["schemas"].items()]
    return "\n\n".join(parts) + "\n"


def openapi() -> Schema:
    """The OpenAPI document of the routes, without a database."""
    from fastapi import FastAPI

    from quietshelf import __version__

    bare = FastAPI(title="Quietshelf", version=__version__)
    for router in _routers():
        bare.include_router(router)
    found: Schema = bare.openapi()
    return found


def _routers() -> list[Any]:
    """Every router of the service except its pages."""
    from quietshelf.serving.service.http import admin, app, device_routes

    return [app.routes, app.public, device_routes.routes, admin.routes]


def _scopes() -> dict[tuple[str, str], str]:
    """The scope each route requires: the argument of its dependency `may`."""
    from fastapi.routing import APIRoute

    found: dict[tuple[str, str], str] = {}
    for route in (route for router in _routers() for route in router.routes):
        if isinstance(route, APIRoute):
            for each in route.dependant.dependencies:
                scope = getclosurevars(each.call).nonlocals.get("scope") if isfunction(each.call) else None
                found |= {(method, route.path): str(scope) for method in route.methods or () if scope}
    return found


def _route(path: str, method: str, route: Schema, scope: str | None) -> str:
    parts = [f"### `{method} {path}`", route.get("description", route.get("summary", ""))]
    if scope:
        parts[-1] += f" Scope `{scope}`."
    parameters = [
        (f"`{one['name']}`", one["in"], one.get("description", ""))
        for one in route.get("parameters", [])
        if one["in"] != "path"
    ]
    if parameters:
        parts.append(table(("optional parameter", "in", "meaning"), parameters))
    body = route.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
    sent = [f"Body: {_kind(body)}."] if body else []
    replies = [_reply(status, reply) for status, reply in sorted(route["responses"].items()) if status < "300"]
    parts.append(" ".join([*sent, f"Reply: {', or '.join(replies)}."]))
    return "\n\n".join(parts)


def _reply(status: str, reply: Schema) -> str:
    schema = reply.get("content", {}).get("application/json", {}).get("schema", {})
    if "$ref" in schema:
        return f"{status} with {_kind(schema)}"
    said = reply["description"].replace("Successful Response", "")
    return f"{status} {said}".strip()


def _body(name: str, schema: Schema) -> str:
    parts = [f"### {name}", schema.get("description", "")]
    needed = schema.get("required", [])
    rows = [
        (f"`{field}`", _kind(one), _default(one, field in needed), one.get("description", ""))
        for field, one in schema.get("properties", {}).items()
    ]
    parts.append(table(("field", "kind", "default", "meaning"), rows))
    parts += [f"```json\n{json.dumps(example)}\n```" for example in schema.get("examples", []) if example]
    return "\n\n".join(part for part in parts if part)


def _default(schema: Schema, needed: bool) -> str:
    if needed:
        return "required"
    return f"`{json.dumps(schema['default'])}`" if schema.get("default") is not None else ""


def _kind(schema: Schema) -> str:
    """A schema in words, with its bounds."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(_kind(one) for one in schema["anyOf"]))
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    if schema.get("type") == "array":
        return f"list of {_kind(schema['items'])}" if "items" in schema else "list"
    if schema.get("type") == "object":
        inner = schema.get("additionalProperties")
        return f"object of {_kind(inner)}" if isinstance(inner, Mapping) else "object"
    return f"{schema.get('type', 'anything')}{_bounds(schema)}"


def _bounds(schema: Schema) -> str:
    if "maxLength" in schema:
        return f" ({schema.get('minLength', 0)} to {schema['maxLength']:,} characters)"
    words = {
        "minimum": "at least",
        "exclusiveMinimum": "above",
        "maximum": "at most",
        "exclusiveMaximum": "below",
    }
    found = [f"{said} {schema[key]:,g}" for key, said in words.items() if key in schema]
    return f" ({', '.join(found)})" if found else ""
