"""Large bodies are parsed within bounds."""

import json

import pytest
from fastapi.exceptions import RequestValidationError
from pydantic import TypeAdapter

from sexton.interfaces.api import parsing
from sexton.kernel.errors import BadInput
from sexton.protocol.protections import Items

ITEMS = TypeAdapter(Items)


def test_commas_in_names_are_no_values() -> None:
    name = "v/" + "," * (parsing.MAX_SEPARATORS + 1) + '\\"'
    body = json.dumps({"objects": ["v/a", name]}).encode()

    with pytest.raises(RequestValidationError, match="objects"):  # too long, not too many
        parsing.parse(body, ITEMS)


@pytest.mark.parametrize("value", [b"{},", b'"":0,', b"1,"])
def test_too_many_values_are_refused_before_parsing(value: bytes) -> None:
    with pytest.raises(BadInput, match="too many values"):
        parsing.parse(b'{"objects":[' + value * (parsing.MAX_SEPARATORS + 1), ITEMS)


def test_too_many_mistakes_are_counted_not_listed() -> None:
    body = json.dumps({f"field{n}": 1 for n in range(parsing.MAX_MISTAKES + 1)}).encode()

    with pytest.raises(BadInput, match="1001 mistakes"):
        parsing.parse(body, ITEMS)


@pytest.mark.parametrize("body", [b'{"objects":', b"\xff" * 9, b"[" * 100_000], ids=["cut off", "no UTF-8", "nested"])
def test_a_body_that_is_not_json_is_refused(body: bytes) -> None:
    with pytest.raises((BadInput, RequestValidationError)):
        parsing.parse(body, ITEMS)
