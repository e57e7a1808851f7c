"""An operation of an owner is one of Sexton: its order is the query of a route that reads, else the body."""

from typing import Annotated, Any

import pytest
from pydantic import Field, model_validator

from sexton.interfaces.api.routes import operations
from sexton.kernel.errors import BadInput
from sexton.kernel.message import StrictMessage
from sexton.owners.plugin import OwnerOperation


class Order(StrictMessage):
    table: str
    size: Annotated[int, Field(ge=1)] = 3

    @model_validator(mode="after")
    def _fits(self) -> "Order":
        if self.table == "none":
            raise ValueError("there is no such table")
        return self


@pytest.mark.parametrize(("reads", "values"), [(True, {"instance", "table", "size"}), (False, {"instance", "order"})])
def test_an_order_is_the_query_or_the_body(reads: bool, values: set[str]) -> None:
    offered = OwnerOperation("show", "Show it.", Order, int, lambda *_: 1, reads)
    operation: Any = operations._of_owner("lake", offered)

    assert set(operation.parameters) == values
    assert operation.paths == ("/v1/instances/{instance}/lake/show",)
    assert (operation.record.changes, operation.body) == (not reads, None if reads else Order)
    with pytest.raises(BadInput, match="no such table"):
        operation.function(None, instance="a", table="none")
