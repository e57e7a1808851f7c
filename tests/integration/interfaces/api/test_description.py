"""The OpenAPI document names every operation once, and has what generators of clients need."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.integration.interfaces.api.conftest import Ask
from tests.integration.interfaces.api.routes import OPEN


@pytest.fixture
def document(ask: Ask) -> dict[str, Any]:
    described: dict[str, Any] = ask("GET", "/v1/openapi.json").json()
    return described


def operations(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield method.upper(), path, operation


def parts(value: object) -> Iterator[dict[str, Any]]:
    """Yield every object inside a value."""
    if isinstance(value, dict):
        yield value
        for inner in value.values():
            yield from parts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from parts(inner)


def test_every_operation_has_a_short_name_of_its_own(document: dict[str, Any]) -> None:
    names = [operation["operationId"] for _, _, operation in operations(document)]

    assert len(names) > 100
    assert len(set(names)) == len(names)
    assert {"hold_add", "round_pause", "apply", "catalog_create_table"} <= set(names)
    assert max(map(len, names)) <= 40


def test_every_operation_has_a_tag_that_is_declared(document: dict[str, Any]) -> None:
    declared = {tag["name"] for tag in document["tags"]}
    used = {tag for _, _, operation in operations(document) for tag in operation["tags"]}

    assert used == declared


def test_only_open_routes_need_no_token(document: dict[str, Any]) -> None:
    free = {(method, path) for method, path, operation in operations(document) if operation.get("security") == []}

    assert document["security"] == [{"token": []}]
    assert free == {(route.method, route.template) for route in OPEN}


def test_refusals_are_problem_documents(document: dict[str, Any]) -> None:
    kinds = {tuple(o["responses"][status]["content"]) for _, _, o in operations(document) for status in ("4XX", "5XX")}

    assert kinds == {("application/problem+json",)}


def test_numbers_have_64_bits_and_no_list_is_a_tuple(document: dict[str, Any]) -> None:
    integers = [part for part in parts(document) if part.get("type") == "integer"]

    assert len(integers) > 100
    assert {part["format"] for part in integers} == {"int64"}
    assert [part for part in parts(document) if "prefixItems" in part] == []


def test_every_body_refuses_unknown_fields_at_every_depth(document: dict[str, Any]) -> None:
    schemas = document["components"]["schemas"]
    sent = [o["requestBody"]["content"] for _, _, o in operations(document) if "requestBody" in o]
    names, seen = set(re.findall(r"schemas/(\w+)", json.dumps(sent))), set[str]()
    while names - seen:
        seen |= (fresh := names - seen)
        names |= set(re.findall(r"schemas/(\w+)", json.dumps([schemas[name] for name in fresh])))

    objects = {name: schemas[name] for name in names if schemas[name].get("type") == "object"}
    assert len(objects) > 50
    assert [name for name, schema in objects.items() if schema.get("additionalProperties") is not False] == []
