"""The requests shown in docs/binlog-integration.md work as printed, with the scopes named there."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.integration.interfaces.api.conftest import Ask

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
