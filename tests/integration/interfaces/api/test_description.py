"""The OpenAPI document has what generators of clients need; requests of docs/binlog-integration.md work as printed."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from fastapi import FastAPI

from sexton.interfaces.api.app import describe
from sexton.runtime import owner_operations
from tests.integration.interfaces.api.conftest import Ask
from tests.integration.interfaces.api.routes import OPEN

VAGUE = {"since", "until", "at", "now", "cutoff", "oldest", "first_seen", "next_due"}
"""Names that say neither that a value is an instant nor its unit."""


@pytest.fixture(scope="module")
def document(app: FastAPI) -> dict[str, Any]:
    return describe(app)


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


def test_only_open_routes_need_no_token(document: dict[str, Any]) -> None:
    free = {(method, path) for method, path, operation in operations(document) if operation.get("security") == []}
    refusals = {tuple(o["responses"][s]["content"]) for _, _, o in operations(document) for s in ("4XX", "5XX")}

    assert document["security"] == [{"token": []}]
    assert free == {(route.method, route.template) for route in OPEN}
    assert refusals == {("application/problem+json",)}


def test_numbers_have_64_bits_and_names_with_a_unit(document: dict[str, Any]) -> None:
    schemas = document["components"]["schemas"].items()
    integers = [part for part in parts(document) if part.get("type") == "integer"]
    numbers = {(cls, f) for cls, of in schemas for f, value in of.get("properties", {}).items() if is_number(value)}
    vague = {(cls, name) for cls, name in numbers if name in VAGUE or name.endswith("_since") or name == "id"}

    assert len(integers) > 100
    assert {part["format"] for part in integers} == {"int64"}
    assert [part for part in parts(document) if "prefixItems" in part] == []
    assert vague == {("Region", "until")}  # an entry id of a log


def is_number(schema: dict[str, Any]) -> bool:
    return "integer" in (schema.get("type"), *(kind.get("type") for kind in schema.get("anyOf", ())))


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


def test_every_operation_of_an_owner_is_described(document: dict[str, Any]) -> None:
    described = [o["description"] for _, path, o in operations(document) if "/catalog/" in path]

    assert len(described) == len(owner_operations.operations()["catalog"]) > 20
    assert all(text.endswith(".") and "`" not in text for text in described)


DOCUMENT = Path(__file__).parents[4] / "docs" / "binlog-integration.md"
FINAL = "DELETE"
"""What ends something comes last, whatever its place in the document."""
REMOVING = ("/v1/backends/8", "/v1/consumers/lisbon/remove")
"""What they name is unknown afterwards."""


class Shown(NamedTuple):
    """A call as it is shown, and what is shown to be answered."""

    method: str
    path: str
    body: object
    answer: object

    @property
    def scope(self) -> str:
        """The scope that the document's table names for who sends it."""
        if self.path.startswith("/v1/journal"):
            return "node:fe-2@shop"
        if self.path.startswith(("/v1/nodes/7", "/v1/backends/7")):
            return "node:7@shop"
        if self.method != "PUT" and self.path.startswith(("/v1/consumers/lisbon", "/v1/binlogs?")):
            return "sync:lisbon@shop"
        return "admin" if self.path.startswith("/v1/backends/") else "operate@shop"


def shown() -> Iterator[Shown]:
    """Yield the calls of the document, in its order."""
    for block in re.findall(r"```sh\n(.*?)```", DOCUMENT.read_text(), re.DOTALL):
        for call in re.split(r"(?m)^(?=curl )", block)[1:]:
            method = re.search(r"-X (\w+)", call)
            path = re.search(r"\$API(/[^\s\"]+)", call)
            body = re.search(r"-d '(.*?)'(?:\s|$)", call, re.DOTALL)
            answer = re.search(r"# (\{.*\})", call)
            assert path, call
            told = re.sub(r", \.\.\.|\.\.\.", "", answer[1]).replace('_at": }', '_at": 0}') if answer else "null"
            yield Shown(
                method[1] if method else "GET",
                path[1].replace("after=41", "after=0").replace("wait=20", "wait=0"),
                json.loads(body[1]) if body else None,
                json.loads(told),
            )


def within(told: object, real: object) -> bool:
    """Tell whether all fields that are shown are answered."""
    if isinstance(told, dict):
        return isinstance(real, dict) and all(key in real and within(told[key], real[key]) for key in told)
    if isinstance(told, list) and isinstance(real, list) and told and real:
        return within(told[0], real[0])
    return True


@pytest.mark.slow
def test_the_examples_of_the_document_can_be_sent_twice(ask: Ask) -> None:
    calls = sorted(shown(), key=lambda call: call.method == FINAL)

    wrong = []
    for call in calls:
        for is_again in (False, True):
            answer = ask(call.method, call.path, call.body, scope=call.scope)
            gone = is_again and call.path in REMOVING and answer.status_code == 404
            fits = gone or (answer.is_success and (call.answer is None or within(call.answer, answer.json())))
            wrong += [] if fits else [f"{call.method} {call.path}: {answer.status_code} {answer.text[:300]}"]

    assert wrong == []
    assert len(calls) == 16
