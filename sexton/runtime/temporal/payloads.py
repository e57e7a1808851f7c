"""How values are written for Temporal: with the names of their fields, not with those that users see in JSON.

A worker of an older version may read them, and knows no newer name. Without options the SDK writes aliases.
"""

from temporalio.contrib.pydantic import PydanticPayloadConverter, ToJsonOptions
from temporalio.converter import DataConverter


class PayloadConverter(PydanticPayloadConverter):
    """Writes values by the names of their fields. The SDK makes one without arguments."""

    def __init__(self) -> None:
        super().__init__(ToJsonOptions(exclude_unset=False))


CONVERTER = DataConverter(payload_converter_class=PayloadConverter)
