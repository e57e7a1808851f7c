"""Large bodies are parsed within bounds."""

import gc
import json

import pytest
from fastapi.exceptions import RequestValidationError

from sexton.interfaces.api import parsing
from sexton.kernel.errors import BadInput
from sexton.protocol.protections import Items
from sexton.protocol.topics import MAX_REGIONS, Heartbeat, RegionMap

ITEMS = parsing.BodyValidator(Items)


def test_commas_in_names_are_no_values() -> None:
    name = "v/" + "," * (parsing.MAX_SEPARATORS + 1) + '\\"'
    body = json.dumps({"objects": ["v/a", name]}).encode()

    with pytest.raises(RequestValidationError, match="objects"):  # too long, not too many
        parsing.parse(body, ITEMS)


@pytest.mark.parametrize(("value", "separators"), [(b"{},", 2), (b"[],", 2), (b'"":0,', 2), (b"1,", 1)])
def test_too_many_values_are_refused_before_parsing(value: bytes, separators: int) -> None:
    with pytest.raises(BadInput, match="too many values"):
        parsing.parse(b'{"objects":[' + value * (parsing.MAX_SEPARATORS // separators + 1), ITEMS)


def test_too_many_quotes_are_refused_before_parsing() -> None:
    name = ("," + '"' * 2) * (parsing.MAX_SEPARATORS + 1)

    with pytest.raises(BadInput, match="too many values"):
        parsing.parse(json.dumps({"objects": [name]}).encode(), ITEMS)


def test_largest_heartbeat_needs_no_search_for_cycles() -> None:
    streams = [{"flushed": 2**53, "idle": 2**53}] * 2
    report = {"topic": "t", "region": "r", "epoch": 1, "streams": streams, "leader": True}
    body = json.dumps({"reports": [report] * MAX_REGIONS}).encode()

    validator, before = parsing.BodyValidator(Heartbeat), [each["collections"] for each in gc.get_stats()]
    heartbeat = parsing.parse(body, validator)
    searches = [each["collections"] for each in gc.get_stats()]

    assert len(heartbeat.reports) == MAX_REGIONS
    assert (searches[2] - before[2], gc.isenabled()) == (0, True)


def test_long_lists_are_validated_in_slices() -> None:
    regions: list[dict[str, object]] = [{"region": f"r{n}"} for n in range(5_000)]
    regions[2_345] = regions[3_456] = {"region": ""}
    body = json.dumps({"generation": 1, "regions": regions}).encode()

    with pytest.raises(RequestValidationError) as refused:
        parsing.parse(body, parsing.BodyValidator(RegionMap))
    assert [mistake["loc"] for mistake in refused.value.errors()] == [("body", "regions", 2_345, "region")]


def test_too_many_mistakes_are_counted_not_listed() -> None:
    body = json.dumps({f"field{n}": 1 for n in range(parsing.MAX_MISTAKES + 1)}).encode()

    with pytest.raises(BadInput, match="1001 mistakes"):
        parsing.parse(body, ITEMS)


@pytest.mark.parametrize("body", [b'{"objects":', b"\xff" * 9, b"[" * 100_000], ids=["cut off", "no UTF-8", "nested"])
def test_a_body_that_is_not_json_is_refused(body: bytes) -> None:
    with pytest.raises((BadInput, RequestValidationError)):
        parsing.parse(body, ITEMS)
