"""Values in Temporal have the names of their fields, which older versions know, and not the names in JSON for users."""

import json

from temporalio.contrib.pydantic import pydantic_data_converter

from sexton.recycle.planning.model import KindPlan
from sexton.runtime.temporal.client import CONVERTER

KIND = KindPlan(kind="dropped", cutoff=5, since=4, marks=1)


def test_payloads_have_the_names_of_the_fields() -> None:
    [payload] = CONVERTER.payload_converter.to_payloads([KIND])

    assert {"cutoff", "since"} <= json.loads(payload.data).keys()
    assert CONVERTER.payload_converter.from_payloads([payload], [KindPlan]) == [KIND]


def test_a_client_with_the_converter_of_the_sdk_is_understood() -> None:
    [payload] = pydantic_data_converter.payload_converter.to_payloads([KIND])

    assert {"cutoff_at", "since_at"} <= json.loads(payload.data).keys()
    assert CONVERTER.payload_converter.from_payloads([payload], [KindPlan]) == [KIND]
