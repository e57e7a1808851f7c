"""A storage node, and an API that answers its worker."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.integration.replication.agent.node import Node
from tests.servers.http import Asked, answering

TOKEN = "sxt_0123456789ab_secret"


class Api:
    """Answers each request with the next of ``answers``, the last one for ever; keeps what was asked."""

    url: str

    def __init__(self) -> None:
        self.answers: list[Any] = []
        self.asked: list[tuple[str, str, dict[str, list[str]], Any, str]] = []

    def answer(self, asked: Asked) -> tuple[int, bytes] | None:
        at, body = urlsplit(asked.path), json.loads(asked.body) if asked.body else None
        self.asked.append((asked.method, at.path, parse_qs(at.query), body, asked.headers["authorization"]))
        told = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if told is None:
            return None
        status, said = told if isinstance(told, tuple) else (200, told)
        return status, said if isinstance(said, bytes) else json.dumps(said).encode()


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path / "node")


@pytest.fixture
def api() -> Iterator[Api]:
    its = Api()
    with answering(its.answer) as its.url:
        yield its
