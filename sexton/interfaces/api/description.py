"""The OpenAPI document: what generators of clients need beside what FastAPI writes."""

import re
from typing import Any

from fastapi import FastAPI
from fastapi.routing import APIRoute

TOKEN = "token"
"""The security scheme of every request but those that need none."""
PUBLIC = frozenset({"/livez", "/readyz", "/healthz"})
PROBLEM = "application/problem+json"


def operation_id(route: APIRoute) -> str:
    """Return the name that a generated client gives a route: its subject and what it does, such as ``holds_place``."""
    name = re.sub(r"\W+", "_", route.name).strip("_")
    subject = route.endpoint.__module__.rpartition(".")[2]
    if subject == "operations":
        return name
    return f"{subject}_list" if name == subject else f"{subject}_{name}"


def describe(app: FastAPI) -> dict[str, Any]:
    """Return the document of an application: with tags, security, problem documents, and whole numbers of 64 bits."""
    document = app.openapi()
    schemes = document.setdefault("components", {}).setdefault("securitySchemes", {})
    schemes[TOKEN] = {"type": "http", "scheme": "bearer", "description": "a token of Sexton, or a JWT of your issuer"}
    document["security"] = [{TOKEN: []}]
    for path, operations in document["paths"].items():
        for operation in operations.values():
            operation["tags"] = [operation["operationId"].partition("_")[0]]
            if path in PUBLIC:
                operation["security"] = []
            for status in ("4XX", "5XX"):
                content = operation["responses"][status]["content"]
                if "application/json" in content:
                    content[PROBLEM] = content.pop("application/json")
    names = {operation["tags"][0] for operations in document["paths"].values() for operation in operations.values()}
    document["tags"] = [{"name": name} for name in sorted(names)]
    _refine(document)
    return document


def _refine(schema: Any) -> None:
    """Give every integer its size, and leave out what generators cannot write: tuples, and all but simple defaults."""
    if isinstance(schema, dict):
        if isinstance(schema.get("default"), dict | list) or "anyOf" in schema:
            schema.pop("default", None)
        if schema.get("type") == "integer":
            schema.setdefault("format", "int64")
        first = next(iter(schema.get("prefixItems", ())), None)
        if first is not None and all(item == first for item in schema["prefixItems"]):
            schema["items"] = schema.pop("prefixItems")[0]
        for value in schema.values():
            _refine(value)
    elif isinstance(schema, list):
        for value in schema:
            _refine(value)
