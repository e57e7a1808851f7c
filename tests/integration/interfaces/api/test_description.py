"""The OpenAPI document has what generators of clients need; requests of docs/binlog-integration.md work as printed."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

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
@pytest.mark.parametrize("when", [False, True], ids=["once", "again"])
def test_the_examples_of_the_document_can_be_sent(ask: Ask, when: bool) -> None:
    calls = sorted(shown(), key=lambda call: call.method == FINAL)
    times = 2 if when else 1

    told = []
    for call in (c for c in calls for _ in range(times)):
        answer = ask(call.method, call.path, call.body, scope=call.scope)
        gone = when and call.path in REMOVING and answer.status_code == 404
        fits = gone or (answer.is_success and (call.answer is None or within(call.answer, answer.json())))
        told += [] if fits else [f"{call.method} {call.path}: {answer.status_code} {answer.text[:300]}"]

    assert told == []
    assert len(calls) == 16
