"""The schema of the chart's values accepts what works, and refuses typing errors and secrets."""

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.chart import CHART, MINIMAL, VALUES, defaults, merged

if TYPE_CHECKING:
    from jsonschema import Draft7Validator

SCHEMA = json.loads((CHART / "values.schema.json").read_text())


@pytest.fixture(scope="module")
def validator() -> "Draft7Validator":
    """Import what takes seconds, which every process of a run would wait, only here."""
    from jsonschema import Draft7Validator

    Draft7Validator.check_schema(SCHEMA)
    return Draft7Validator(SCHEMA)


def test_defaults_and_examples_are_accepted(validator: "Draft7Validator") -> None:
    for values in ({}, *VALUES.values()):
        assert [error.message for error in validator.iter_errors(merged(defaults(), values))] == []


@pytest.mark.parametrize(
    "change",
    [
        {"deployment": "Shop"},
        {"worker": {"replica": 3}},
        {"worker": {"replicas": "three"}},
        {"worker": {"terminationGracePeriodSeconds": 30}},
        {"api": {"port": 443}},
        {"spark": {"image": "sexton-spark:1"}},
        {"image": {"repository": "sexton:0.1.0"}},
        {"database": {"url": "postgresql://sexton:secret@db/sexton"}},
        {"database": {"existingSecret": "postgresql://sexton@db/sexton"}},
        {"temporal": {"address": "temporal"}},
        {"temporal": {"apiKey": {"key": ""}}},
        {"temporal": {"tls": {"existingSecret": "temporal-tls"}}},
        {"env": {"SEXTON_WAL__FLUSH_SECRET": "x" * 32}},
        {"env": {"SEXTON_TEMPORAL__API_KEY": "x"}},
        {"env": {"SEXTON_DATABASE_URL": "postgresql://sexton@db/sexton"}},
        {"env": {"AWS_SECRET_ACCESS_KEY": "x"}},
        {"env": {"SEXTON_METRICS__LISTEN": "127.0.0.1:1"}},
        {"env": {"PATH": "/bin"}},
        {"secretEnv": [{"name": "SEXTON_WAL__FLUSH_SECRET", "value": "x"}]},
        {"settings": {"recycle": {"retention_seconds": 3600}}},
        {"nodeselector": {"pool": "batch"}},
    ],
    ids=json.dumps,
)
def test_a_mistake_is_refused(validator: "Draft7Validator", change: dict[str, Any]) -> None:
    assert list(validator.iter_errors(merged(defaults(), merged(MINIMAL, change))))


def test_every_value_is_described_by_the_schema() -> None:
    def missing(values: dict[str, Any], schema: dict[str, Any], path: str) -> list[str]:
        if "properties" not in schema:
            return []
        names = [f"{path}.{name}" for name in values.keys() ^ (schema["properties"].keys() - {"global"})]
        for name, value in values.items():
            if isinstance(value, dict):
                names += missing(value, schema["properties"].get(name, {}), f"{path}.{name}")
        return names

    assert missing(defaults(), SCHEMA, "") == [], "values.yaml and values.schema.json differ: name each in both"
